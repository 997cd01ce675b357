"""A Redis server of the tests' own, which can be killed, stopped and started again."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from shutil import which

import pytest

from tests.ports import unused_port
from tests.real_time import service_ports
from tests.waiting import wait_until


class RedisServer:
    """A server on a port of this machine, without anything on disk: started again, it is empty.

    ``options`` are further ones of the program; with ``tls``, files of a certificate and its key, the port takes TLS.
    """

    def __init__(self, *options: str, tls: tuple[Path, Path] | None = None) -> None:
        self.port = unused_port()
        service_ports.add(self.port)
        self._options = ["--port", str(self.port), *options]
        if tls is not None:
            files = ("--tls-cert-file", str(tls[0]), "--tls-key-file", str(tls[1]), "--tls-auth-clients", "no")
            self._options = ["--port", "0", "--tls-port", str(self.port), *files, *options]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its URL."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        command = ["redis-server", *self._options, "--bind", "127.0.0.1", "--save", "", "--dir", "/tmp"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_until(self._answers, "redis-server to answer")

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except ConnectionRefusedError:
            return False
        return True

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
def redis_server(*options: str, tls: tuple[Path, Path] | None = None) -> Generator[RedisServer]:
    """Give a running server, or skip the test where the program is not installed."""
    if which("redis-server") is None:
        pytest.skip("redis-server is not installed: scripts/install_for_tests.sh installs it")
    server = RedisServer(*options, tls=tls)
    server.start()
    try:
        yield server
    finally:
        server.kill()
