"""A terminal as standard output."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import termios

from rich.text import Text

from tests.helpers.cli.support import Command


def on_a_terminal(command: Command, *arguments: str) -> list[str]:
    """Return the lines that a command shows on a terminal of 80 columns, without colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with command.start(*arguments, stdout=theirs, env={"TERM": "xterm"}) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # how a terminal ends
            while part := os.read(ours, 65536):
                shown += part
        os.close(ours)
        assert process.wait(60) == 0
    return Text.from_ansi(shown.decode().replace("\r\n", "\n")).plain.splitlines()
