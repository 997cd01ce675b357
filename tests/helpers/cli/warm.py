"""A warm start for ``capset``, `warm.py CONTROL DOOR COMMAND MODULE…`: what commands import is imported once.

Each request, a connection to the socket DOOR, has a process of its own, forked from this one: it takes the folder, the
environment, the arguments and the standard streams that it is given, runs the installed command, and ends as an
interpreter ends. A request is a line of JSON and three open files; the answers are the number of the process and then
its exit status, a line each. If who asked leaves before that, the process is killed. At the end of CONTROL all ends.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


def serve(control: socket.socket, door: socket.socket) -> list[str] | None:
    """Fork for each request; return its arguments in the new process, and nothing at the end of the requests."""
    ended, waking = socket.socketpair()
    waking.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waking.fileno())
    running: dict[socket.socket, int] = {}
    askers: set[socket.socket] = set()
    while True:
        ready, _, _ = select.select([control, door, ended, *askers], [], [])
        if control in ready:
            return None
        if ended in ready:
            ended.recv(4096)
            for asker, number in list(running.items()):
                pid, status = os.waitpid(number, os.WNOHANG)
                if pid:
                    with asker, contextlib.suppress(OSError):
                        asker.sendall(b"%d\n" % status)
                    del running[asker]
                    askers.discard(asker)
        for asker in askers.intersection(ready):
            askers.discard(asker)
            os.kill(running[asker], signal.SIGKILL)
        if door in ready:
            asker, _ = door.accept()
            line, streams = read(asker)
            if not line.endswith(b"\n"):  # who asked was killed
                asker.close()
                for stream in streams:
                    os.close(stream)
                continue
            request = json.loads(line)
            if (number := fork()) == 0:
                for endpoint in (control, door, ended, waking, asker, *running):
                    endpoint.close()
                become(request, streams)
                return request["arguments"]
            for stream in streams:
                os.close(stream)
            with contextlib.suppress(OSError):  # if it has left, what is read of it says so
                asker.sendall(b"%d\n" % number)
            running[asker] = number
            askers.add(asker)


def fork() -> int:
    """Fork, as soon as the system has room for a process: what else runs beside it may have taken all."""
    while True:
        try:
            return os.fork()
        except BlockingIOError:
            time.sleep(0.05)


def read(asker: socket.socket) -> tuple[bytes, list[int]]:
    """Return the line and the streams of a request; of one that broke off, what there is of the line."""
    line, streams = b"", list[int]()
    with contextlib.suppress(OSError):
        line, streams, _, _ = socket.recv_fds(asker, 1 << 20, 3)
        while not line.endswith(b"\n") and (more := asker.recv(1 << 20)):
            line += more
    return line, streams


def become(request: dict[str, dict[str, str]], streams: list[int]) -> None:
    """Take the streams, the folder and the environment; packages are looked for where a new interpreter would."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # Whoever runs the tests in the background of a shell hands down that Ctrl-C is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup has ignored, and children inherit that
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # What Python has made of the streams knows whether the old ones could seek, and what a terminal was.
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(
            open(number, mode, closefd=False),  # noqa: SIM115
            encoding=old.encoding,
            errors=old.errors,
            line_buffering=number == 2 or os.isatty(number),
        )
        for number, mode, old in ((0, "rb", sys.stdin), (1, "wb", sys.stdout), (2, "wb", sys.stderr))
    )
    os.chdir(str(request["folder"]))
    os.environ.clear()
    os.environ.update(request["environ"])
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in os.environ
    sys.path[1:1] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


def load(command: Any) -> None:  # of the click that Typer has in it
    """Load the commands of a group, which are imported when they are used."""
    for subcommand in getattr(command, "commands", {}).values():
        load(subcommand)


if __name__ == "__main__":
    command = Path(sys.argv[3])
    sys.path[0] = str(command.parent)
    for name in sys.argv[4:]:
        import_module(name)
    # Typer makes all commands at every start, which takes longer than most of them: they are made once.
    typer = import_module("typer.main")
    vars(typer)["get_command"] = cache(typer.get_command)
    load(typer.get_command(import_module("capset_cli.app").app))
    if (server := sys.modules.get("capset_server.app")) is not None:
        server.make_api()  # which every server of a process shares
    if threading.active_count() > 1:
        raise RuntimeError(f"a fork would lose the threads that an import started: {threading.enumerate()}")
    gc.freeze()  # so that no collection touches, and copies, what all processes share
    if (arguments := serve(*(socket.socket(fileno=int(descriptor)) for descriptor in sys.argv[1:3]))) is not None:
        sys.argv = [str(command), *arguments]
        exec(compile(command.read_bytes(), command, "exec"))
