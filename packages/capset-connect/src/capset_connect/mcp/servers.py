"""The servers of one kernel: their connections, and the capabilities of what is pinned of them (spec 7, M1, M6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Self

from capset.definitions.capabilities import Capability
from capset.definitions.secrets import Secrets
from capset.errors import CapsetError, DefinitionError
from capset.kernel.kernel import Kernel
from capset.stores.base.pins import ToolPin
from capset_connect.mcp.connection import McpConnection
from capset_connect.mcp.server import McpServer
from capset_connect.mcp.tools import capability_of
from capset_connect.pins import Approved, approved_in, pins_of, side_by_side


class McpServers:
    """Connections to servers, and their capabilities. Leaving its ``async with`` closes every connection.

    Enter it around the kernel whose agents have the capabilities, or within it.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._connections: list[McpConnection] = []
        self._with_tools: list[McpConnection] = []

    async def __aenter__(self) -> Self:
        """Connect to nothing yet."""
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Close every connection."""
        await asyncio.gather(*(connection.aclose() for connection in self._connections))

    def connection(self, server: McpServer) -> McpConnection:
        """Return the connection to a server, not made yet: the one that there is, if it is declared as before."""
        for existing in self._connections:
            if existing.server == server:
                return existing
        self._connections.append(McpConnection(server, self._secrets))
        return self._connections[-1]

    def capability(self, server: McpServer, pins: Iterable[ToolPin], approved: Approved | None) -> Capability:
        """Return the capability ``mcp:NAME`` of a server, of those of these pins that are its own.

        ``approved`` is as in ``capability_of``. Raises ``DefinitionError`` for damaged pins.
        """
        connection = self.connection(server)
        capability = capability_of(connection, (pin for pin in pins if pin.server == server.pin_key), approved)
        if capability.every_tool and connection not in self._with_tools:
            self._with_tools.append(connection)
        return capability

    async def start(self) -> None:
        """Start the servers that are processes and have tools here, a few at a time.

        Calls do not wait for it: the first call of a server that is not started yet starts it. One that cannot be
        started says so at its next call.
        """
        processes = [connection for connection in self._with_tools if connection.server.url is None]
        await side_by_side(partial(_start, connection) for connection in processes)


async def _start(connection: McpConnection) -> None:
    with suppress(CapsetError):
        await connection.offers()


def checked_names(servers: Iterable[McpServer]) -> Sequence[McpServer]:
    """Return servers as they are. Raises ``DefinitionError`` for two of one name."""
    named: dict[str, McpServer] = {}
    for server in servers:
        if named.setdefault(server.name, server) is not server:
            raise DefinitionError(f"there are two MCP servers named {server.name!r}")
    return tuple(named.values())


@asynccontextmanager
async def open_mcp_servers(kernel: Kernel, servers: Iterable[McpServer]) -> AsyncGenerator[Sequence[Capability]]:
    """Yield the capabilities of servers, ``mcp:NAME`` each, of the tools that are pinned in the kernel's store.

    A server is connected to at the first call of one of its tools; and before, if nothing of it is pinned yet and it is
    trusted at its first use: a few servers at a time, and ``DefinitionError`` is raised for names in a declaration that
    its server has not. Secrets are those of the kernel. Raises ``DefinitionError`` for two servers of one name, and for
    damaged pins.
    """
    declared = checked_names(servers)
    async with McpServers(kernel.secrets) as opened:
        pins = await side_by_side(
            partial(pins_of, kernel, server, opened.connection(server).first_offers) for server in declared
        )
        yield [
            opened.capability(server, approved, approved_in(kernel, server))
            for server, approved in zip(declared, pins, strict=True)
        ]
