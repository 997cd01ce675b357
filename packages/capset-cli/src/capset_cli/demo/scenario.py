"""The demo's agent, the import of folders into its session, and its calls."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from capset.definitions.agents import Agent
from capset.definitions.capabilities import AnyCapability
from capset.definitions.principals import Principal
from capset.errors import CapsetError, counted
from capset.kernel.call.session import Session
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset_cli.common.output import cell, err
from capset_cli.demo.display import CallFailed, Calls

CAPABILITIES: Final = ("session_file_system", "test_math", "stateless_todo_list")
ANALYST: Final = Principal("analyst", permissions={"session_files:read", "session_files:write"})
VISITOR: Final = Principal("visitor", permissions={"session_files:read"})
TITLE: Final = "What is in these files"
"""The title of the report."""
_STEPS: Final = (
    ("Look around", "Looking around"),
    ("Measure", "Measuring"),
    ("Write the report", "Writing the report"),
)

_HIDDEN: Final = ("__pycache__", "node_modules")


class Demo:
    """One run: a session that may write, one that may not, the calls of both, and the report."""

    def __init__(self, kernel: Kernel, session: Session, visitor: Session, calls: Calls) -> None:
        self.kernel = kernel
        self.session = session
        self.calls = calls
        self.report = ""
        self.sizes: list[int] = []
        """The sizes of the largest files, the subject of the report."""
        self._visitor = visitor

    async def run(self) -> None:
        """Make every call, showing each; stop at the first unexpected failure."""
        with contextlib.suppress(CallFailed):
            await self._make_calls()

    async def _make_calls(self) -> None:
        await self._call("stateless_todo_list.write_todos", todos=_todos(0))
        listing = await self._call("session_file_system.list_directory", path="/", recursive=True)
        files = [entry for entry in listing["entries"] if not entry["is_directory"]]
        files.sort(key=lambda entry: (-entry["size_bytes"], entry["path"]))
        self.sizes = [entry["size_bytes"] for entry in files[:3]] or [0]
        total = self.sizes[0]
        for size in self.sizes[1:]:
            total = (await self._call("test_math.add", a=total, b=size))["result"]
        mean = (await self._call("test_math.divide", a=total, b=len(self.sizes)))["result"]
        largest = files[0]["path"] if files else "/"
        await self._call("session_file_system.stat_file", path=largest)
        hits = await self._call("session_file_system.grep_files", pattern=r"(?i)\bhash(es|ed)?\b", context_lines=1)
        notes = await self._call("session_file_system.grep_files", pattern="^#+ ", path_pattern="*.md", max_matches=20)
        opening = await self._call("session_file_system.read_file", path=largest, limit=5) if files else {"content": ""}
        await self._call("stateless_todo_list.write_todos", todos=_todos(2))
        self.report = render_report(Findings(files, total, mean, hits, notes, opening["content"]))
        await self._call("session_file_system.write_file", path="/report.md", content=self.report)
        stored = await self._call("session_file_system.read_file", path="/report.md")
        self.report = stored["content"]
        await self._call("stateless_todo_list.write_todos", todos=_todos(3))
        write, stat = "session_file_system.write_file", "session_file_system.stat_file"
        await self.calls.expect_refusal(self._visitor, "permission_denied", write, path="/x.md", content="mine now")
        await self.calls.expect_refusal(self.session, "invalid_arguments", stat, path=7, pth="/report.md")

    async def _call(self, tool: str, **arguments: Any) -> Any:  # JSON data, in the tool's own shape
        return await self.calls.call(self.session, tool, **arguments)


def librarian(*more: AnyCapability) -> Agent:
    """Return the demo's agent, with more capabilities."""
    return Agent(
        "librarian",
        system_prompt="You keep a library of files. Measure before you judge, and report what you found.",
        uses=[*map(Registry.installed().get, CAPABILITIES), *more],
    )


@contextlib.asynccontextmanager
async def open_demo(store: str, console: Console) -> AsyncGenerator[Demo]:
    """Open the demo's agent twice on one store: for a principal that may write, and for one that may only read."""
    agent = librarian()
    async with (
        Kernel(store=store) as kernel,
        kernel.open(agent, principal=ANALYST) as session,
        kernel.open(agent, principal=VISITOR) as visitor,
    ):
        yield Demo(kernel, session, visitor, Calls(console))


def _todos(done: int) -> list[dict[str, str]]:
    def status(position: int) -> str:
        return "completed" if position < done else "in_progress" if position == done else "pending"

    return [
        {"content": content, "activeForm": active, "status": status(position)}
        for position, (content, active) in enumerate(_STEPS)
    ]


@dataclass(frozen=True, slots=True)
class Findings:
    """The results of the calls, as JSON data: files by size, sums over the three largest, and search results."""

    files: list[dict[str, Any]]
    total: float
    mean: float
    hits: dict[str, Any]
    headings: dict[str, Any]
    opening: str


def render_report(findings: Findings) -> str:
    """Return the findings as Markdown."""
    lines = [f"# {TITLE}", "", f"{counted(len(findings.files), 'file')}. The largest:", ""]
    lines += ["| file | bytes |", "|---|---:|"]
    lines += [f"| {entry['path']} | {entry['size_bytes']:,} |" for entry in findings.files[:3]]
    lines += ["", f"Together {findings.total:,} bytes, {findings.mean:,.1f} on average.", ""]
    many = " or more" if findings.hits["truncated"] else ""
    lines += [f"The word *hash* stands in {findings.hits['match_count']}{many} lines. The first:", ""]
    lines += [f"- `{hit['path']}:{hit['line']}`: {hit['text'].strip()}" for hit in findings.hits["matches"][:5]]
    if findings.headings["matches"]:
        lines += ["", "Headings met on the way:", ""]
        lines += [f"- {hit['text'].lstrip('# ').strip()}" for hit in findings.headings["matches"][:10]]
    fence = "~~~~"
    lines += ["", "The largest file begins:", "", fence, *findings.opening.splitlines(), fence, ""]
    return "\n".join(lines)


@dataclass(slots=True)
class Imported:
    """The imported files, and the skipped ones with their reasons."""

    files: int = 0
    size_bytes: int = 0
    skipped: list[str] = field(default_factory=list[str])


class ImportTarget(Protocol):
    """The destination of an import: a session's files, or the part of them that an import needs."""

    async def write(self, path: str, content: bytes) -> object:
        """Create or replace a file."""
        ...


async def import_folders(files: ImportTarget, folders: list[Path]) -> Imported:
    """Import every text file in the folders, under its folder's name, with a progress bar."""
    imported = Imported()
    targets = [(path, _target_path(folder, path)) for folder in folders for path in _walk(folder, imported.skipped)]
    columns = TextColumn("importing"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}")
    console = err()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=len(targets))
        batch_size = 32  # writes that share one commit
        for start in range(0, len(targets), batch_size):
            batch = targets[start : start + batch_size]
            await asyncio.gather(*(_import_file(files, path, target, imported) for path, target in batch))
            progress.update(bar, advance=len(batch), description=cell(batch[-1][1]))
    imported.skipped.sort()  # files are read concurrently, so they are skipped in any order
    return imported


async def _import_file(files: ImportTarget, path: Path, target: str, imported: Imported) -> None:
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


def _target_path(folder: Path, path: Path) -> str:
    return "/".join(("", folder.resolve().name, *path.relative_to(folder).parts))


def _read(path: Path, max_bytes: int = 1_000_000) -> bytes:
    """Return a file's bytes. Raises ``ValueError`` for one that is too large or not UTF-8 text."""
    if (size := path.stat().st_size) > max_bytes:
        raise ValueError(f"{size:,} bytes are more than {max_bytes:,}")
    content = path.read_bytes()
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    if "\0" in text:
        raise ValueError("not text: it contains NUL")
    return content


def _walk(folder: Path, skipped: list[str]) -> Iterator[Path]:
    """Yield the regular files below a folder, in order, without hidden ones; links are not followed."""
    pending = [folder]
    while pending:
        directory = pending.pop()
        try:
            with os.scandir(directory) as entries:
                ordered = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            skipped.append(f"{directory}: {error.strerror}")
            continue
        visible_entries = [entry for entry in ordered if not entry.name.startswith(".") and entry.name not in _HIDDEN]
        yield from (Path(entry) for entry in visible_entries if entry.is_file(follow_symlinks=False))
        pending += [Path(entry) for entry in reversed(visible_entries) if entry.is_dir(follow_symlinks=False)]
