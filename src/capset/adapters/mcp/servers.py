"""The servers of one kernel: their connections, and the capabilities of what is pinned of them (spec 7, M1, M6)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Self

from capset.adapters.mcp.connection import McpConnection
from capset.adapters.mcp.server import McpServer
from capset.adapters.mcp.tools import capability_of
from capset.adapters.pins import Approved, approved_in, pins_of
from capset.definitions.capabilities import Capability
from capset.definitions.secrets import Secrets
from capset.errors import DefinitionError
from capset.kernel.kernel import Kernel
from capset.stores.base.pins import ToolPin


class McpServers:
    """Connections to servers, and their capabilities. Leaving its ``async with`` closes every connection.

    Enter it around the kernel whose agents have the capabilities, or within it.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._connections: list[McpConnection] = []

    async def __aenter__(self) -> Self:
        """Connect to nothing yet."""
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Close every connection."""
        for one in self._connections:
            await one.aclose()

    def connection(self, server: McpServer) -> McpConnection:
        """Return the connection to a server, not made yet: the one that there is, if it is declared as before."""
        for one in self._connections:
            if one.server == server:
                return one
        self._connections.append(McpConnection(server, self._secrets))
        return self._connections[-1]

    def capability(self, server: McpServer, pins: Iterable[ToolPin], approved: Approved | None) -> Capability:
        """Return the capability ``mcp:NAME`` of a server, of those of these pins that are its own.

        ``approved`` is as in ``capability_of``. Raises ``DefinitionError`` for damaged pins.
        """
        return capability_of(self.connection(server), (pin for pin in pins if pin.server == server.pin_key), approved)


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
    trusted at its first use; then ``DefinitionError`` is raised for names in its declaration that it has not. Secrets
    are those of the kernel. Raises ``DefinitionError`` for two servers of one name, and for damaged pins.
    """
    given = checked_names(servers)
    async with McpServers(kernel.secrets) as here:
        pins = [pin for one in given for pin in await pins_of(kernel, one, here.connection(one).first_offers)]
        yield [here.capability(server, pins, approved_in(kernel, server)) for server in given]
