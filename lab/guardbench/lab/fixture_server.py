"""A fixture of GuardBench's as a server whose every process is one connection, so that the lab keeps its ledger."""

# pyright: basic, reportMissingImports=false, reportMissingModuleSource=false
# guardbench is in an environment of its own, which pyright does not see.

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from pathlib import Path

import anyio
from guardbench.mcp_lab.base import LabFixture
from mcp.server.stdio import stdio_server

RELAY = Path(__file__).with_name("relay.py")


class FixtureServer:
    """Serves one fixture. Leave its ``with`` to end all connections."""

    def __init__(self, fixture: LabFixture) -> None:
        self._fixture = fixture
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    @property
    def command(self) -> list[str]:
        """The command of a process that is this server."""
        return [sys.executable, "-I", "-S", str(RELAY), str(self._listener.getsockname()[1])]

    def __enter__(self) -> FixtureServer:
        """Serve."""
        self._begin(self._accept)
        return self

    def __exit__(self, *raised: object) -> None:
        """End all."""
        # A listener that is only closed leaves a thread in accept.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.restart()
        for thread in self._threads:
            thread.join(10)

    def restart(self) -> None:
        """End every process of the server; the next one shakes hands with the fixture as it is now."""
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._connections.clear()

    def _begin(self, target, *args) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            self._begin(anyio.run, self._serve, connection)

    async def _serve(self, connection: socket.socket) -> None:
        server = self._fixture.build_server()
        try:
            with (
                connection,
                connection.makefile("r", encoding="utf-8") as heard,
                connection.makefile("w", encoding="utf-8") as output,
            ):
                async with stdio_server(anyio.wrap_file(heard), anyio.wrap_file(output)) as streams:
                    await server.run(*streams, server.create_initialization_options())
        except* OSError:  # the other side ended, or a restart did it
            pass
