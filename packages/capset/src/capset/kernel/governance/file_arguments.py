"""The session files that the arguments of a call name. Its approval covers their content (spec 4, G52)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from capset.definitions.calls.files import FileStat, normalise_path
from capset.definitions.governance.approvals import ApprovalRow
from capset.errors import FileError, NotFound, StoreError


@dataclass(frozen=True, slots=True)
class FileArgument:
    """A file that arguments name, as it was when an approval was requested.

    ``argument`` is its dotted path in the arguments. ``size_bytes`` and ``sha256`` (hex) are ``None`` if there was no
    such file. In a stored request, ``path`` is empty for a file within a value that the tool's schema says is secret.
    """

    argument: str
    path: str
    size_bytes: int | None
    sha256: str | None
    is_secret: bool = False

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]


class ReadFile(Protocol):
    """A function that reads a file."""

    def __call__(self, *, start: int = 0, size: int | None = None) -> Awaitable[tuple[FileStat, bytes]]:
        """Return the file as it is now, and its content, or at most ``size`` bytes of it from ``start`` on."""
        ...


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A file of a request that an approver may read. ``read`` raises ``Conflict`` once it has changed."""

    stat: FileStat
    read: ReadFile


def files_json(files: Sequence[FileArgument]) -> str | None:
    """Return files as they are stored with a request; ``None`` for no files."""
    if not files:
        return None
    entries = [asdict(replace(file, path="") if file.is_secret else file) for file in files]
    return json.dumps(entries, ensure_ascii=False, separators=(",", ":"))


def files_of(row: ApprovalRow) -> tuple[FileArgument, ...]:
    """Return the files of a request. Raises ``StoreError`` if they cannot be read."""
    if row.files is None:
        return ()
    try:
        return tuple(FileArgument(**file) for file in json.loads(row.files))
    except (ValueError, TypeError, RecursionError):
        raise StoreError(f"the request {row.id} was changed: its files cannot be read") from None


def file_at(row: ApprovalRow, number: int) -> FileArgument:
    """Return a file of a request that can be shown, by its number. Raises ``NotFound`` if there is none."""
    files = files_of(row)
    if not 0 <= number < len(files) or files[number].sha256 is None or files[number].is_secret:
        raise NotFound(f"the request {row.id!r} has no file {number} that can be shown")
    return files[number]


def describe_file(file: FileArgument) -> str:
    """Describe a file in one line, for people."""
    argument = json.dumps(file.argument, ensure_ascii=False)
    path = "a file that is secret" if file.is_secret else json.dumps(file.path, ensure_ascii=False)
    if file.sha256 is None:
        return f"{argument} is {path}, which does not exist"
    return f"{argument} is {path}, {file.size_bytes} bytes, SHA-256 {file.sha256}"


def with_files(arguments: Any, files: Sequence[FileArgument]) -> Any:  # JSON data
    """Return the data that the digest of an approval covers: the arguments, and the content of the files they name."""
    return [arguments, "files", [[file.argument, file.sha256] for file in files]] if files else arguments


def are_unchanged(files: Sequence[FileArgument], row: ApprovalRow) -> bool:
    """Whether a call names the same files as a request, with the same content.

    If an approver has changed the arguments, they may name only some of the request's files.
    """
    approved = files_of(row)
    if row.modified is None:
        return [(file.argument, file.sha256) for file in files] == [(file.argument, file.sha256) for file in approved]
    return {(file.path, file.sha256) for file in files} <= {(file.path, file.sha256) for file in approved}


def normalised(path: str) -> str:
    """Return the canonical form of a path, or the path itself if it has none."""
    try:
        return normalise_path(path)
    except FileError:
        return path
