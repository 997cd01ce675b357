"""``capset`` as a real process without the time that an interpreter needs to start, from the process of `warm.py`."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

# What commands load when they need it; no driver, and nothing that a third party registers.
EARLY = ("capset.cli.app", "capset.cli.process", "capset.stores.sql.schema", "alembic.command", "docstring_parser")
DOORS = ("capset.server.app", "capset.server.serving", "capset.server.mcp", "capset.client", "mcp", "uvicorn")


class Warm:
    """A process that has imported what commands import, and forks itself for each; one command runs at a time."""

    def __init__(self, command: Path, environ: Mapping[str, str], modules: Sequence[str]) -> None:
        """Start it for the installed command; what an interpreter reads when it starts, it reads from ``environ``."""
        self._control, theirs = socket.socketpair()
        self._turn = threading.Lock()
        self._told = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed with the process
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, Path(__file__).with_name("warm.py"), str(theirs.fileno()), command, *modules],
                pass_fds=[theirs.fileno()],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._told,
            )

    def run(
        self, arguments: Sequence[str], folder: Path, environ: Mapping[str, str], seconds: float
    ) -> tuple[int, str, str]:
        """Run a command to its end with nothing to read; return its exit code and what it wrote.

        Raises ``TimeoutError``, once it is killed, for one that takes longer than ``seconds``.
        """
        request = {"arguments": arguments, "folder": str(folder), "environ": dict(environ)}
        with (
            self._turn,
            Path(os.devnull).open() as nothing,
            tempfile.TemporaryFile("w+") as out,
            tempfile.TemporaryFile("w+") as err,
        ):
            line, streams = json.dumps(request).encode() + b"\n", [one.fileno() for one in (nothing, out, err)]
            self._control.settimeout(None)
            self._control.sendall(line[socket.send_fds(self._control, [line], streams) :])
            number = self._answer()
            self._control.settimeout(seconds)
            try:
                status = self._answer()
            except BaseException:  # the test's own timeout, too: the next answer must be the next command's
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
                self._control.settimeout(None)
                self._answer()
                raise
            return os.waitstatus_to_exitcode(status), _all(out), _all(err)

    def _answer(self) -> int:
        line = b""
        while not line.endswith(b"\n"):
            if not (byte := self._control.recv(1)):
                raise RuntimeError(f"the warm process has ended: {_all(self._told)}")
            line += byte
        return int(line)

    def end(self) -> None:
        """Let it end."""
        self._control.close()
        self._process.wait()
        self._told.close()


def _all(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


@cache
def warm(command: Path, environ: tuple[tuple[str, str], ...], *, doors: bool) -> Warm:
    """Return the warm process, with or without what doors import; it ends with this one."""
    found = Warm(command, dict(environ), (*EARLY, *DOORS) if doors else EARLY)
    atexit.register(found.end)
    return found
