"""Copies the session's files to a run and back, by permission, within limits, and without losing others' changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from capset import Context, ToolError
from capset.ext import FileError, FileStat, normalise_path
from capset_tools.sandbox.config import FileChanges, Left, SandboxConfig
from capset_tools.sandbox.process import Outcome

_READ: Final = "session_files:read"
_WRITE: Final = "session_files:write"
_CONFLICT: Final = "it was changed meanwhile, and stays as it is now"
_UNREAD: Final = f"there is a file already, which is not replaced without the permission {_READ}"
_NOT_SHOWN: Final = "the code was not shown the file that is there, which stays as it is"
_BATCH_BYTES: Final = 16 << 20
"""How many bytes are read at once: all that a run may have by default. A larger file is read alone."""
_BATCH_FILES: Final = 1_000


@dataclass(frozen=True, slots=True)
class Contents:
    """The files visible to a run: the content and the version of each file, and the version of each directory.

    ``shown`` is whether the principal may read files.
    """

    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    versions: Mapping[str, int] = field(default_factory=dict[str, int])
    folders: Mapping[str, int] = field(default_factory=dict[str, int])
    shown: bool = False


async def gathered(ctx: Context, config: SandboxConfig) -> Contents:
    """Return all of the session's files, or none if the principal may not read them.

    Raises ``ToolError`` (``too_many_files``) if there are more, or larger ones, than a run may have.
    """
    if _READ not in ctx.principal.permissions:
        return Contents()
    entries = await ctx.files.list(recursive=True)
    folders = {entry.path: entry.version for entry in entries if entry.is_directory}
    stats = [entry for entry in entries if not entry.is_directory]
    size = sum(file.size_bytes for file in stats)
    _check(len(stats), size, config)
    files: dict[str, bytes] = {}
    versions: dict[str, int] = {}
    for batch in _batched(stats):
        for stat, content in await ctx.files.read_many([file.path for file in batch]):  # without those deleted since
            files[stat.path], versions[stat.path] = content, stat.version
            size += stat.size_bytes
        size -= sum(file.size_bytes for file in batch)
        _check(len(stats), size, config)
    return Contents(files, versions, folders, shown=True)


async def committed(ctx: Context, contents: Contents, outcome: Outcome) -> FileChanges:
    """Write back a run's changes, each only if the file has not changed since the run read it; return the result.

    Nothing is written after a run that was stopped, or for a principal that may not write.
    """
    ending = outcome.ending
    changes = FileChanges(
        shown=contents.shown, kept=False, created=[], updated=[], deleted=[], not_kept=[], not_shown=[]
    )
    if ending is None or ending["stopped"] is not None:
        return changes
    changes["not_shown"] = _listed(ending["not_shown"])
    changes["not_kept"] = _listed(ending["not_kept"])
    deleted = [path for path in ending["deleted"] if path in contents.files]
    if _WRITE not in ctx.principal.permissions:
        reason = f"the permission {_WRITE} is missing"
        changes["not_kept"] += _listed(dict.fromkeys([*outcome.files, *deleted], reason))
        return changes
    changes["kept"] = True
    hidden = ending["not_shown"].keys() & {*outcome.files, *deleted}
    changes["not_kept"] += _listed(dict.fromkeys(hidden, _NOT_SHOWN))
    # Deletions first: they make room, and free paths where a file becomes a directory, or the reverse.
    for path in deleted:
        if path not in hidden:
            await _deleted(ctx, path, contents.versions[path], changes)
    for path in filter(contents.folders.__contains__, ending["removed"]):
        with suppress(FileError):  # it is not empty, or was replaced in the meantime
            await ctx.files.delete(path, version=contents.folders[path])
    for path, content in outcome.files.items():
        if path not in hidden:
            await _written(ctx, path, content, contents, changes)
    return changes


async def _deleted(ctx: Context, path: str, version: int, changes: FileChanges) -> None:
    try:
        await ctx.files.delete(path, version=version)
    except FileError as error:
        changes["not_kept"].append(Left(path=path, reason=_why(error, _CONFLICT)))
    else:
        changes["deleted"].append(path)


async def _written(ctx: Context, path: str, content: bytes, contents: Contents, changes: FileChanges) -> None:
    version = contents.versions.get(path, 0)
    try:
        stat, is_new = await ctx.files.write(normalise_path(path), content, version=version)
    except FileError as error:
        conflict = _CONFLICT if contents.shown else _UNREAD
        changes["not_kept"].append(Left(path=path, reason=_why(error, conflict)))
    else:
        changes["created" if is_new else "updated"].append(stat.path)


def _why(error: FileError, conflict: str) -> str:
    return conflict if error.code == "version_mismatch" else error.message


def _batched(stats: Iterable[FileStat]) -> Iterator[list[FileStat]]:
    """Yield batches of files that may be read at once, each with at least one file."""
    batch: list[FileStat] = []
    size = 0
    for stat in stats:
        if batch and (size + stat.size_bytes > _BATCH_BYTES or len(batch) == _BATCH_FILES):
            yield batch
            batch, size = [], 0
        batch.append(stat)
        size += stat.size_bytes
    if batch:
        yield batch


def _check(count: int, size: int, config: SandboxConfig) -> None:
    if count > config.max_files or size > config.max_bytes:
        raise ToolError(
            f"A run sees all of the session's files, at most {config.max_files:,} with {config.max_bytes:,} bytes "
            f"together; there are {count:,} with {size:,} bytes. Nothing was run.",
            code="too_many_files",
            status=413,
            hint="delete what is not needed, or raise max_files and max_bytes of the sandbox's config",
        )


def _listed(reasons: Mapping[str, str]) -> list[Left]:
    return [Left(path=path, reason=reason) for path, reason in sorted(reasons.items())]
