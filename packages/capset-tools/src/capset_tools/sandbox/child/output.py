"""Code that both languages share in the child: how a run ends, and its limited output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from capset_tools.sandbox.child.frames import ENDED, STARTED, STDERR, STDOUT, Stopped

ENDLESS: Final = 16
"""A run is stopped once its output exceeds the stored maximum by this factor."""

_SCRATCH: Final = ("/tmp/", "/dev/")  # noqa: S108  # paths in the sandbox


def is_scratch(path: str) -> bool:
    """Whether a path is in a directory whose new files are not kept."""
    return path.startswith(_SCRATCH)


def folders_of(path: str) -> list[str]:
    """Return the directories above a file, without the root."""
    parts = path.split("/")[1:-1]
    return ["/" + "/".join(parts[:end]) for end in range(1, len(parts) + 1)]


class RunEnded(NamedTuple):
    exit_code: int | None
    value: str | None = None
    error: str | None = None
    stopped: Stopped | None = None


class LeftFiles(NamedTuple):
    """The files after a run: ``files`` are all that exist, except for those of the jail itself.

    ``not_kept`` gives reasons, by path, for what exists but cannot be a file of the session.
    """

    files: dict[str, bytes]
    not_kept: dict[str, str]
    folders: set[str]


class Printer:
    """Forwards the output of a run, each stream up to its limit."""

    def __init__(self, send: Callable[[bytes, bytes], None], output_bytes: int) -> None:
        self._send = send
        self._left = {"stdout": output_bytes, "stderr": output_bytes}
        self._allowed = ENDLESS * output_bytes
        self.truncated = False

    @property
    def is_over(self) -> bool:
        """Whether the output is so large that the run has to end."""
        return self._allowed < 0

    def start(self) -> None:
        """Report that the code starts."""
        self._send(STARTED, b"")

    def end(self) -> None:
        """Report that the code has ended."""
        self._send(ENDED, b"")

    def write(self, stream: Literal["stdout", "stderr"], text: str) -> bool:
        """Send text as far as there is room, and return whether the run may continue."""
        data = text.encode(errors="replace")
        self._allowed -= len(data)
        part = self.cut(data, self._left[stream])
        if part:
            self._left[stream] -= len(part)
            self._send(STDOUT if stream == "stdout" else STDERR, part)
        return not self.is_over

    def cut(self, data: bytes, room: int) -> bytes:
        """Return as much of a text as there is room for, without splitting a character."""
        if len(data) <= room:
            return data
        self.truncated = True
        return data[:room].decode(errors="ignore").encode()
