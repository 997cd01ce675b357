"""A pytest plugin that fails tests which depend on real time without the mark ``realtime``.

Such a test sleeps, starts a process, or connects to one, and so it can fail on a busy machine. The plugin ignores
sleeps on virtual time, sleeps in ``tests/waiting.py``, cancelled sleeps, the processes started by ``SERVICES``, and
``capset`` commands that a warm process forks. A test in a package's ``tests/unit`` starts no process at all, and opens
no socket.
"""

from __future__ import annotations

import asyncio
import multiprocessing.process
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Coroutine, Generator
from pathlib import Path
from typing import Any, Final
from weakref import WeakSet

import pytest

from tests.virtual_time import VirtualTimeLoop

_ROOT: Final = str(Path(__file__).parents[1]) + os.sep
_SOURCES: Final = f"{_ROOT}packages{os.sep}"
TESTS: Final = (
    f"{_ROOT}tests{os.sep}",
    f"{_ROOT}lab{os.sep}",
    *(f"{folder}{os.sep}" for folder in Path(_SOURCES).glob("*/tests")),
)
UNIT: Final = f"{os.sep}tests{os.sep}unit{os.sep}"
WAITING: Final = str(Path(__file__).parent / "waiting.py")
SERVICES: Final = (
    *(f"{TESTS[0]}{name}" for name in ("databases.py", "redis_servers.py", "helpers/cli/")),
    f"{_SOURCES}capset-cli{os.sep}tests{os.sep}",
    f"{_SOURCES}capset-server{os.sep}src{os.sep}capset_server{os.sep}config_checker.py",
    *(
        f"{_SOURCES}capset-tools{os.sep}src{os.sep}capset_tools{os.sep}{name}"
        for name in (f"database{os.sep}query_process.py", f"sandbox{os.sep}jail.py", f"sandbox{os.sep}jail_users.py")
    ),
    str(platform.__file__),
)
"""Files that start a process once for all tests (PostgreSQL, Redis, the warm ``capset``, the config checker, what asks
databases), or probe the machine."""
MARKS: Final = ("realtime", "weekly", "browser", "clients")

service_ports: Final[set[object]] = set()
"""Ports of services that tests may connect to."""
_seen: set[str] = set()
_outside: set[str] = set()
"""What a unit test may not do, though it depends on no other process's time."""
_listening: WeakSet[socket.socket] = WeakSet()
"""Sockets on which this process listens, or has listened: once one is closed, its port may be of another process."""


def install() -> None:
    """Watch sleeps, processes and connections from now on."""
    time.sleep = _watch_sleep(time.sleep)
    asyncio.sleep = _watch_async_sleep(asyncio.sleep)
    subprocess.Popen.__init__ = _watch_start(subprocess.Popen.__init__)
    multiprocessing.process.BaseProcess.start = _watch_start(multiprocessing.process.BaseProcess.start)
    socket.socket.connect = _watch_connect(socket.socket.connect)
    socket.socket.listen = _watch_listen(socket.socket.listen)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Clear the record of the test before."""
    _seen.clear()
    _outside.clear()
    yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fail an unmarked test that depended on real time, by itself or by its fixtures."""
    yield
    is_marked = any(item.get_closest_marker(mark) for mark in MARKS)
    if UNIT in str(item.path) and (violations := _outside | (set() if is_marked else _seen)):
        pytest.fail(f"as a unit test it {'; it '.join(sorted(violations))}: move it to integration", pytrace=False)
    if _seen and not is_marked:
        pytest.fail(f"without the mark `realtime` it {'; it '.join(sorted(_seen))}", pytrace=False)


def _caller(depth: int) -> tuple[str, int]:
    frame = sys._getframe(depth + 1)
    return frame.f_code.co_filename, frame.f_lineno


def _place(caller: tuple[str, int]) -> str:
    return f"{caller[0].removeprefix(_ROOT)}:{caller[1]}"


def _is_of_a_test(caller: tuple[str, int]) -> bool:
    return caller[0].startswith(TESTS) and caller[0] != WAITING


def _watch_sleep(sleep: Any) -> Any:
    def watched(seconds: float) -> None:
        sleep(seconds)
        if seconds > 0 and _is_of_a_test(caller := _caller(1)):
            _seen.add(f"sleeps {seconds} s at {_place(caller)}")

    return watched


def _watch_async_sleep(sleep: Any) -> Any:
    def watched(delay: float, result: Any = None) -> Coroutine[Any, Any, Any]:
        caller = _caller(1)
        return noted(delay, result, caller) if delay > 0 and _is_of_a_test(caller) else sleep(delay, result)

    async def noted(delay: float, result: Any, caller: tuple[str, int]) -> Any:
        await sleep(delay)
        if not isinstance(asyncio.get_running_loop(), VirtualTimeLoop):
            _seen.add(f"sleeps {delay} s at {_place(caller)}")
        return result

    return watched


def _watch_start(start: Any) -> Any:
    def watched(*arguments: Any, **options: Any) -> Any:
        _outside.add(f"starts a process at {_origin()}")
        if not _is_a_service():
            _seen.add(f"starts a process at {_origin()}")
        return start(*arguments, **options)

    return watched


def _watch_listen(listen: Any) -> Any:
    def watched(sock: socket.socket, *arguments: Any) -> Any:
        _outside.add(f"listens at {_origin()}")
        listen(sock, *arguments)
        _listening.add(sock)

    return watched


def _watch_connect(connect: Any) -> Any:
    def watched(sock: socket.socket, address: Any) -> Any:
        _outside.add(f"connects at {_origin()}")
        try:
            return connect(sock, address)
        finally:
            own_addresses = {_key(listener.getsockname()) for listener in _listening if listener.fileno() >= 0}
            if _key(address) not in own_addresses | service_ports and not _is_a_service():
                try:
                    sock.getpeername()
                except OSError:
                    pass  # refused
                else:
                    _seen.add(f"connects to another process, at {address!r}")

    return watched


def note_outside(deed: str) -> None:
    """Note what a unit test may not do, where the plugin cannot see it."""
    _outside.add(deed)


def take() -> set[str]:
    """Return and clear the record of this test."""
    uses = {*_seen}
    _seen.clear()
    return uses


def _origin() -> str:
    """Return the nearest place in the tests or the package."""
    frame = sys._getframe(2)
    while frame is not None:
        if (caller := (frame.f_code.co_filename, frame.f_lineno))[0].startswith((*TESTS, _SOURCES)):
            return _place(caller)
        frame = frame.f_back
    return "an unknown place"


def _key(address: Any) -> object:
    """Return the port of an address; a server that listens on all addresses is reached at each."""
    return address[1] if isinstance(address, tuple) else address


def _is_a_service() -> bool:
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.startswith(SERVICES):
            return True
        frame = frame.f_back
    return False
