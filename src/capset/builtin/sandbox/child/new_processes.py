"""The first process of a jail, asked for each process that bash starts: at most twice as many as may be at once.

The filter of system calls has the kernel ask (``SECCOMP_RET_USER_NOTIF``, Linux's ``seccomp_filter.rst``), and the call
goes on when it is answered. What counts from outside is one process beside those of a fork bomb, and late.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from contextlib import suppress
from fcntl import ioctl
from itertools import takewhile
from typing import Final

from capset.builtin.sandbox.child.frames import MOST_PROCESSES
from capset.builtin.sandbox.child.system_calls import Processes, calls_that_start_processes, restrict

_RECEIVE, _ANSWER, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082104
_WAKE_AT_ONCE: Final = 1
_QUESTION: Final = struct.Struct("=QI68x")
"""``struct seccomp_notif``: the id of the question, and the thread that asks; flags and the call are not read."""
_GO_ON: Final = struct.Struct("=QqiI")
"""``struct seccomp_notif_resp``: the id, a value, an error, flags."""
_CONTINUE: Final = 1
_STARTING: Final = frozenset(map(str, calls_that_start_processes()))
_GONE: Final = (errno.ENOENT, errno.EINTR)
"""Who asked has been killed, or was interrupted by a signal and asks again."""


def restrict_and_hand_over(channel: int) -> None:
    """Hold this process to the filter of bash, and hand the listener to who holds the other end of the channel.

    Where the system has no listeners (Linux before 5.5), or another process has one for this one, nothing is handed
    over, and processes are counted from outside alone.
    """
    with socket.socket(fileno=channel) as sender:
        try:
            listener = restrict(Processes.ASKED) if _can_let_go_on() else restrict(Processes.ANY)
        except OSError:
            listener = restrict(Processes.ANY)
        if listener is not None:
            socket.send_fds(sender, [b"l"], [listener])
            os.close(listener)


def received_listener(channel: int) -> int | None:
    """Return what was handed over; ``None`` if the other end was closed without."""
    with socket.socket(fileno=channel) as receiver:
        _, found, _, _ = socket.recv_fds(receiver, 1, 1)
    return found[0] if found else None


def _can_let_go_on() -> bool:
    """Whether a call that is asked for can go on, by the version of the system: it tells it no other way."""
    major, minor = (int("".join(takewhile(str.isdigit, part))) for part in os.uname().release.split(".")[:2])
    return (major, minor) >= (5, 5)


class NewProcesses:
    """The questions of one jail, and how many it may still answer before it counts again."""

    def __init__(self, listener: int) -> None:
        """Answer the questions of this listener, as soon as can be.

        A signal with a handler, such as bash's for a trap, has a call fail that waits to be received, where it would
        begin again without a filter: nothing but haste makes that rare. Once it is received, it waits on (Linux 5.19).
        """
        self._listener = listener
        self._left = 0
        self._let_through = set[int]()
        """Threads, by their ids, that may still be at work on what they asked for."""
        with suppress(OSError):  # before Linux 6.6
            ioctl(listener, _SET_FLAGS, _WAKE_AT_ONCE)

    def fileno(self) -> int:
        """Return the descriptor that can be read when a process waits for an answer."""
        return self._listener

    def answer(self) -> bool:
        """Let the process that waits for it be started; return whether it may be."""
        question = bytearray(_QUESTION.size)
        try:
            ioctl(self._listener, _RECEIVE, question)
        except OSError as error:
            if error.errno in _GONE:
                return True
            raise
        number, thread = _QUESTION.unpack(question)
        self._let_through.discard(thread)  # what it asked for before is there
        if not self._left:
            self._left = MOST_PROCESSES - self._processes()
            if self._left <= 0:
                return False
        self._left -= 1
        self._let_through.add(thread)
        with suppress(FileNotFoundError):  # see _GONE
            ioctl(self._listener, _ANSWER, _GO_ON.pack(number, 0, 0, _CONTINUE))
        return True

    def _processes(self) -> int:
        """Return how many processes there are in the jail; without ``/proc`` none: they are counted outside then.

        Those that threads may be about to start are among them: the threads of one process start theirs one after the
        other, which takes long where there is much memory to copy, and hundreds could have been let through. First
        threads are left out: there are no more of them than processes, which makes for at most twice as many.
        """
        let_through, self._let_through = self._let_through, set[int]()
        with suppress(OSError):
            names = os.listdir("/proc")  # noqa: PTH208
            threads = let_through.difference(int(name) for name in names if name.isdigit())
            if threads:
                self._let_through = {one for one in threads if _may_be_starting(one)}
                names = os.listdir("/proc")  # noqa: PTH208  # with what the others have started by now
            return sum(name.isdigit() for name in names) + len(self._let_through)
        return 0


def _may_be_starting(thread: int) -> bool:
    """Whether a thread may be in a call that starts a process, by its id."""
    try:
        with open(f"/proc/{thread}/syscall", encoding="ascii") as file:  # noqa: PTH123
            call = file.read().partition(" ")[0].strip()
    except (FileNotFoundError, ProcessLookupError):
        return False  # it has ended
    except OSError:  # the code has hidden it
        return True
    return call == "running" or call in _STARTING
