"""The MCP servers of one kernel: their connections, and the capabilities of their pinned tools (spec 7, M1, M6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Self

from capset.definitions.capabilities import Capability
from capset.definitions.secrets import Secrets
from capset.errors import DefinitionError
from capset.kernel.kernel import Kernel
from capset.stores.base.pins import ToolPin
from capset_connect.mcp.connection import McpConnection
from capset_connect.mcp.server import McpServer
from capset_connect.mcp.tools import capability_of
from capset_connect.mcp.user_connections import ConnectionsByUser
from capset_connect.pins.tool_pins import Approved, approved_in, pins_of, side_by_side
from capset_connect.vault.user_auth import UserCredential


class McpServers:
    """Connections to servers, and their capabilities. Leaving the ``async with`` block closes every connection.

    Enter it outside or inside the block of the kernel whose agents have the capabilities.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._connections: list[McpConnection] = []
        self._users: list[ConnectionsByUser] = []

    async def __aenter__(self) -> Self:
        """Open no connection yet."""
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Close every connection."""
        await asyncio.gather(*(connection.aclose() for connection in (*self._connections, *self._users)))

    def connection(self, server: McpServer) -> McpConnection:
        """Return the connection to a server: an existing one with an equal declaration, or a new one, not yet open."""
        for existing in self._connections:
            if existing.server == server:
                return existing
        self._connections.append(McpConnection(server, self._secrets))
        return self._connections[-1]

    def capability(self, server: McpServer, pins: Iterable[ToolPin], approved: Approved | None) -> Capability:
        """Return the capability ``mcp:NAME`` of a server, with those of the pins that belong to it.

        ``approved`` is as in ``capability_of``. Raises ``DefinitionError`` for damaged pins.
        """
        own_pins = [pin for pin in pins if pin.server == server.pin_key]
        return capability_of(self.connection(server), own_pins, approved, self._users_of(server))

    def _users_of(self, server: McpServer) -> ConnectionsByUser | None:
        """Return the connections of users to a server that is used with their credentials; ``None`` for others."""
        if not isinstance(server.auth, UserCredential):
            return None
        for existing in self._users:
            if existing.server == server:
                return existing
        self._users.append(ConnectionsByUser(server, self._secrets))
        return self._users[-1]


def checked_names(servers: Iterable[McpServer]) -> Sequence[McpServer]:
    """Return the servers. Raises ``DefinitionError`` if two have the same name."""
    named: dict[str, McpServer] = {}
    for server in servers:
        if named.setdefault(server.name, server) is not server:
            raise DefinitionError(f"there are two MCP servers named {server.name!r}")
    return tuple(named.values())


@asynccontextmanager
async def open_mcp_servers(kernel: Kernel, servers: Iterable[McpServer]) -> AsyncGenerator[Sequence[Capability]]:
    """Yield the capabilities of servers, ``mcp:NAME`` each, with the tools that are pinned in the kernel's store.

    The first call of a tool connects to its server. A server that has no pins yet and is trusted at its first use is
    connected at once, a few servers at a time; ``DefinitionError`` is raised for names in its declaration that it does
    not have. Secrets come from the kernel. Raises ``DefinitionError`` for two servers of the same name, and for damaged
    pins.
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
