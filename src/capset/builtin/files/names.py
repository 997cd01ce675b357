"""What a path may look like, before anything is looked up (spec 4, G31)."""

from __future__ import annotations

from pathlib import PureWindowsPath
from typing import Final

from capset import ToolError

MAX_BYTES: Final = 4096
"""How long a path may be, in UTF-8."""
MAX_NAME: Final = 255
MAX_NAMES: Final = 256


def names_of(path: str) -> list[str]:
    """Return the names that a path leads over, ``..`` among them. Raises ``ToolError`` for one that is none here."""
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise _refused("it has a lone surrogate, which no file name can have") from None
    if not path or "\0" in path:
        raise _refused("it is empty" if not path else "it has a NUL")
    windows = PureWindowsPath(path)
    if windows.drive or windows.root:  # which a path that begins with / has too
        raise _refused("it is absolute; paths here are relative to the workspace, such as docs/readme.txt")
    if "\\" in path:
        raise _refused("it has a backslash; write / between folders")
    names = [name for name in path.split("/") if name not in ("", ".")]
    if size > MAX_BYTES or len(names) > MAX_NAMES or any(len(name.encode()) > MAX_NAME for name in names):
        raise _refused(f"it is too long: {MAX_BYTES} bytes, {MAX_NAMES} names and {MAX_NAME} bytes a name at most")
    return names


def outside() -> ToolError:
    """Return the error of a path that leaves the workspace; it is the same whatever is there."""
    return ToolError(
        "the path leads out of the workspace; only files inside it can be read", code="outside", status=403
    )


def not_found(path: str) -> ToolError:
    """Return the error of a path where nothing is."""
    return ToolError(f"there is no file {shown(path)} in the workspace", code="not_found", status=404)


def shown(path: str) -> str:
    """Return a path as errors tell it."""
    return repr(path if len(path) <= 200 else f"{path[:200]}…")


def _refused(why: str) -> ToolError:
    return ToolError(f"the path cannot be used: {why}", code="invalid_path", status=422)
