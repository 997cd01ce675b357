"""Import of a folder of the host into a session's files."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from capset.cli.common.output import cell, err
from capset.errors import CapsetError

MAX_BYTES: Final = 1_000_000
"""The maximum size of a file: larger ones are not text that a demo wants to read."""
AT_ONCE: Final = 32
"""The number of writes that share one commit."""
_HIDDEN: Final = ("__pycache__", "node_modules")


@dataclass(slots=True)
class Imported:
    """The imported files, and the skipped ones with their reasons."""

    files: int = 0
    size_bytes: int = 0
    skipped: list[str] = field(default_factory=list[str])


class Target(Protocol):
    """The destination of files: a session's files, or as much of them as an import needs."""

    async def write(self, path: str, content: bytes) -> object:
        """Create or replace a file."""
        ...


async def import_folders(files: Target, folders: list[Path]) -> Imported:
    """Import every text file below the folders, under the folder's name, with a progress bar."""
    imported = Imported()
    found = [(path, _target(folder, path)) for folder in folders for path in _walk(folder, imported.skipped)]
    columns = TextColumn("importing"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}")
    console = err()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=len(found))
        for start in range(0, len(found), AT_ONCE):
            batch = found[start : start + AT_ONCE]
            await asyncio.gather(*(_import_one(files, path, target, imported) for path, target in batch))
            progress.update(bar, advance=len(batch), description=cell(batch[-1][1]))
    return imported


async def _import_one(files: Target, path: Path, target: str, imported: Imported) -> None:
    try:
        content = await asyncio.to_thread(_read, path)
        await files.write(target, content)
    except OSError as error:
        imported.skipped.append(f"{path}: {error.strerror}")
    except (CapsetError, ValueError) as error:
        imported.skipped.append(f"{path}: {error}")
    else:
        imported.files += 1
        imported.size_bytes += len(content)


def _target(folder: Path, path: Path) -> str:
    return "/".join(("", folder.resolve().name, *path.relative_to(folder).parts))


def _read(path: Path) -> bytes:
    """Return a file's bytes. Raises ``ValueError`` for one that is too large or not UTF-8 text."""
    if (size := path.stat().st_size) > MAX_BYTES:
        raise ValueError(f"{size:,} bytes are more than {MAX_BYTES:,}")
    content = path.read_bytes()
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    if "\0" in text:
        raise ValueError("not text: it holds NUL")
    return content


def _walk(folder: Path, skipped: list[str]) -> Iterator[Path]:
    """Yield the regular files below a folder, in order, without hidden ones; links are not followed."""
    waiting = [folder]
    while waiting:
        place = waiting.pop()
        try:
            with os.scandir(place) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            skipped.append(f"{place}: {error.strerror}")
            continue
        seen = [entry for entry in found if not entry.name.startswith(".") and entry.name not in _HIDDEN]
        yield from (Path(entry) for entry in seen if entry.is_file(follow_symlinks=False))
        waiting += [Path(entry) for entry in reversed(seen) if entry.is_dir(follow_symlinks=False)]
