"""Stands in for a command from a warm start, `standing_in.py DOOR ARGUMENT…`, where that has to be somebody's child.

The streams, the folder and the environment are handed on. Signals go to the command itself, whose number stands in
the file `DOOR.NUMBER`, after the number of this process. It ends as the command ended.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys


def ask(door: str, arguments: list[str]) -> int:
    """Have the command run to its end, and return its exit status."""
    with socket.socket(socket.AF_UNIX) as warm:
        warm.connect(door)
        folder = os.getcwd()  # noqa: PTH109  # pathlib would take longer to import than all that is here
        request = {"arguments": arguments, "folder": folder, "environ": dict(os.environ)}
        line = json.dumps(request).encode() + b"\n"
        if unsent := line[socket.send_fds(warm, [line], [0, 1, 2]) :]:
            warm.sendall(unsent)
        for stream in range(3):
            os.close(stream)  # what is read and written there, and when they end, is the command's
        with warm.makefile() as answers:
            path = f"{door}.{os.getpid()}"
            with open(f"{path}.new", "w") as file:  # noqa: PTH123
                file.write(answers.readline())
            os.rename(f"{path}.new", path)  # noqa: PTH104
            return int(answers.readline())


if __name__ == "__main__":
    status = ask(sys.argv[1], sys.argv[2:])
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))
