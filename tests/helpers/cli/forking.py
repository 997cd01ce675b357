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
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).parent
# What commands load when they need it, built-ins too, whose import has no effects; no driver, and nothing that a third
# party registers.
BUILT_IN = {
    entry_point.module for entry_point in distribution("capset-tools").entry_points.select(group="capset.capabilities")
}
EARLY = (
    "capset_cli.app",
    "capset_cli.common.process",
    "capset.stores.sql.schema.revisions",
    "docstring_parser",
    *sorted(BUILT_IN),
)
DOORS = (
    "capset_agents.runner",
    "capset_server.app",
    "capset_server.http.uvicorn_server",
    "capset_server.mcp",
    "capset_server.client",
    "mcp",
    "uvicorn",
)


class Forked(subprocess.Popen[str]):
    """A command from a warm start, by who stands in for it: to be waited for, sent signals and killed as it itself."""

    door: str

    def send_signal(self, sig: int) -> None:
        """Send a signal to the command, once it is there."""
        path = Path(f"{self.door}.{self.pid}")
        while self.poll() is None:
            if path.exists():
                with contextlib.suppress(ProcessLookupError):  # it ends at this moment
                    os.kill(int(path.read_text()), sig)
                return
            time.sleep(0.001)

    def kill(self) -> None:
        """Kill the command."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask the command to end."""
        self.send_signal(signal.SIGTERM)


class Warm:
    """A process that has imported what commands import, and forks itself for each."""

    def __init__(self, command: Path, environ: Mapping[str, str], modules: Sequence[str]) -> None:
        """Start it for the installed command; what an interpreter reads when it starts, it reads from ``environ``."""
        self._folder = tempfile.TemporaryDirectory(prefix="capset-warm-")
        self._door = str(Path(self._folder.name) / "door")
        self._told = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed with the process
        self._control, control = socket.socketpair()
        with control, socket.socket(socket.AF_UNIX) as door:
            door.bind(self._door)
            door.listen()
            ours = [control.fileno(), door.fileno()]
            self._process = subprocess.Popen(
                [sys.executable, HERE / "warm.py", *map(str, ours), command, *modules],
                pass_fds=ours,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._told,
                start_new_session=True,
            )

    def run(
        self, arguments: Sequence[str], folder: Path, environ: Mapping[str, str], seconds: float
    ) -> tuple[int, str, str]:
        """Run a command to its end with nothing to read; return its exit code and what it wrote.

        Raises ``TimeoutError``, once it is killed, for one that takes longer than ``seconds``.
        """
        request = {"arguments": arguments, "folder": str(folder), "environ": dict(environ)}
        with (
            socket.socket(socket.AF_UNIX) as asking,
            Path(os.devnull).open() as nothing,
            tempfile.TemporaryFile("w+") as out,
            tempfile.TemporaryFile("w+") as err,
        ):
            try:
                asking.connect(self._door)
            except ConnectionRefusedError as error:
                raise RuntimeError(f"the warm process has ended: {_all(self._told)}") from error
            line, streams = json.dumps(request).encode() + b"\n", [stream.fileno() for stream in (nothing, out, err)]
            # To send nothing more would fail if the command has ended already.
            if unsent := line[socket.send_fds(asking, [line], streams) :]:
                asking.sendall(unsent)
            self._answer(asking)
            asking.settimeout(seconds)
            try:
                status = self._answer(asking)
            except BaseException:  # the test's own timeout, too: no command is left behind
                asking.settimeout(None)
                asking.shutdown(socket.SHUT_WR)
                self._answer(asking)
                raise
            return os.waitstatus_to_exitcode(status), _all(out), _all(err)

    def start(self, arguments: Sequence[str], **options: Any) -> Forked:
        """Start a command and leave it running; the options are ``Popen``'s for its streams and for where it runs."""
        process = Forked([sys.executable, "-IS", HERE / "standing_in.py", self._door, *arguments], **options)
        process.door = self._door
        return process

    def _answer(self, asking: socket.socket) -> int:
        line = b""
        while not line.endswith(b"\n"):
            if not (byte := asking.recv(1)):
                raise RuntimeError(f"the warm process has ended: {_all(self._told)}")
            line += byte
        return int(line)

    def end(self) -> None:
        """Let it end."""
        self._control.close()
        self._process.wait()
        self._told.close()
        self._folder.cleanup()


def _all(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


@cache
def warm(command: Path, environ: tuple[tuple[str, str], ...], *more: str, doors: bool) -> Warm:
    """Return the warm process, with or without what doors import, and with more modules; it ends with this one."""
    process = Warm(command, dict(environ), (*EARLY, *(DOORS if doors else ()), *more))
    atexit.register(process.end)
    return process
