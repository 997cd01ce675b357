"""A command at a terminal: what a person sees of it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import termios
from typing import Final

from rich.text import Text

from tests.helpers.cli.support import Command

MOVES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
"""What moves the cursor, or colours."""


def at_terminal(capset: Command, *arguments: str, term: str = "xterm", **env: str) -> tuple[int, str, str]:
    """Run a command whose stderr is a terminal; return its exit code, its stdout, and what the terminal got."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 25, 100, 0, 0))
    with capset.start(*arguments, stderr=theirs, env={"TERM": term, **env}) as process:
        os.close(theirs)
        output = b""
        try:
            while part := os.read(ours, 65536):
                output += part
        except OSError:
            pass  # the other side was closed
        os.close(ours)
        out, _ = process.communicate(timeout=60)
    return process.returncode, out, output.decode()


def on_a_terminal(command: Command, *arguments: str) -> list[str]:
    """Return the lines that a command shows on a terminal of 80 columns, without colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with command.start(*arguments, stdout=theirs, env={"TERM": "xterm"}) as process:
        os.close(theirs)
        output = b""
        with contextlib.suppress(OSError):  # how a terminal ends
            while part := os.read(ours, 65536):
                output += part
        os.close(ours)
        assert process.wait(60) == 0
    return Text.from_ansi(output.decode().replace("\r\n", "\n")).plain.splitlines()
