"""A Redis server of the tests' own, which can be killed, stopped and started again."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from shutil import which

import pytest


class RedisServer:
    """A server on a port of this machine, without anything on disk: started again, it is empty."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its URL."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", "/tmp"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        for _ in range(500):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except ConnectionRefusedError:
                time.sleep(0.01)
            else:
                return
        raise AssertionError("redis-server does not answer")

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill it, with all that it holds."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def redis_server() -> Generator[RedisServer]:
    """Give a running server, or skip the test where the program is not installed."""
    if which("redis-server") is None:
        pytest.skip("redis-server is not installed: scripts/install_for_tests.sh installs it")
    server = RedisServer()
    server.start()
    try:
        yield server
    finally:
        server.kill()
