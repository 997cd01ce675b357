"""A warm start for ``capset``, `warm.py SOCKET COMMAND MODULE…`: what commands import is imported once.

Each request is a process of its own, forked from this one: it takes the folder, the environment, the arguments and the
standard streams that it is given, runs the installed command, and ends as an interpreter ends. What a request carries
is a line of JSON and three open files; the answers are the number of the process and then its exit status, a line each.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import sys
import threading
from importlib import import_module
from pathlib import Path


def serve(control: socket.socket) -> list[str] | None:
    """Fork for each request; return its arguments in the new process, and nothing at the end of the requests."""
    while True:
        line, streams, _, _ = socket.recv_fds(control, 1 << 20, 3)
        while not line.endswith(b"\n"):
            if not (more := control.recv(1 << 20)):
                return None
            line += more
        request = json.loads(line)
        number = os.fork()
        if number == 0:
            control.close()
            become(request, streams)
            return request["arguments"]
        for stream in streams:
            os.close(stream)
        control.sendall(b"%d\n" % number)
        control.sendall(b"%d\n" % os.waitpid(number, 0)[1])


def become(request: dict[str, dict[str, str]], streams: list[int]) -> None:
    """Take the streams, the folder and the environment; packages are looked for where a new interpreter would."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(str(request["folder"]))
    os.environ.clear()
    os.environ.update(request["environ"])
    sys.path[1:1] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


if __name__ == "__main__":
    command = Path(sys.argv[2])
    sys.path[0] = str(command.parent)
    for name in sys.argv[3:]:
        import_module(name)
    if threading.active_count() > 1:
        raise RuntimeError(f"a fork would lose the threads that an import started: {threading.enumerate()}")
    gc.freeze()  # so that no collection touches, and copies, what all processes share
    if (arguments := serve(socket.socket(fileno=int(sys.argv[1])))) is not None:
        sys.argv = [str(command), *arguments]
        exec(compile(command.read_bytes(), command, "exec"))
