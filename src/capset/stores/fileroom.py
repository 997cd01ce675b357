"""Whether there is room for what is to be written: a session's quota, once for every store (spec 5, P25)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from capset.definitions.files import FileQuota
from capset.errors import QuotaExceeded


@dataclass(frozen=True, slots=True)
class Usage:
    """How many files and directories a session has, without ``/``, and how long its files are together."""

    files: int = 0
    directories: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Growth:
    """What would come to ``path``: a file of ``size_bytes`` in the place of one of ``old_bytes``, and directories.

    ``old_bytes`` is ``None`` where there is no file yet.
    """

    path: str
    size_bytes: int = 0
    old_bytes: int | None = 0
    directories: int = 0


def check_room(quota: FileQuota, growth: Growth, usage: Callable[[], Usage]) -> None:
    """Raise ``QuotaExceeded`` unless there is room; what makes nothing grow always finds some.

    ``usage`` is asked only if something grows: it costs as much as there are files.
    """
    more = growth.size_bytes - (growth.old_bytes or 0)
    is_new = growth.old_bytes is None
    if (more > 0 or is_new) and growth.size_bytes > quota.file_bytes:
        raise QuotaExceeded(
            f"{growth.path!r} would be {growth.size_bytes:,} bytes long, and a file is at most {quota.file_bytes:,}:"
            " write less, or several files"
        )
    if more <= 0 and not is_new and not growth.directories:
        return
    used = usage()
    _check(growth.path, "bytes of files", used.size_bytes, more, quota.session_bytes)
    _check(growth.path, "files", used.files, int(is_new), quota.session_files)
    _check(growth.path, "directories", used.directories, growth.directories, quota.session_files)


def _check(path: str, what: str, there: int, more: int, most: int) -> None:
    if more > 0 and there + more > most:
        raise QuotaExceeded(
            f"there is no room for {path!r}: the session has {there:,} {what}, this needs {more:,} more, and the limit"
            f" is {most:,}; delete what is not needed any more"
        )
