"""The connections of users to one MCP server, each with that user's own credential (spec 11, V6)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final, cast

from capset.definitions.calls.contexts import Context
from capset.definitions.secrets import Secrets
from capset.kernel.call.context import CallContext
from capset_connect.mcp.connection import McpConnection
from capset_connect.mcp.rooms import Room
from capset_connect.mcp.server import McpServer
from capset_connect.mcp.user_secrets import UserSecrets

_MOST_OPEN: Final = 64
"""The maximum number of users with an open connection to one server, each perhaps a process."""
_MOST_USERS: Final = 1_000
"""The maximum number of users whose connections, mostly closed ones, are remembered."""


class ConnectionsByUser:
    """One connection for each user, opened on demand; idle ones are closed."""

    def __init__(self, server: McpServer, secrets: Secrets) -> None:
        self.server: Final = server
        self._secrets = secrets
        self._room = Room(f"The {server.label}", most=_MOST_OPEN)
        self._users: OrderedDict[tuple[str | None, str], tuple[McpConnection, UserSecrets]] = OrderedDict()

    async def of(self, ctx: Context) -> McpConnection:
        """Return the connection of the user whose credential a call may use."""
        call = cast("CallContext", ctx).origin
        lent = await call.lend(None)
        key = call.context.principal.org, lent.owner
        if (user := self._users.get(key)) is None:
            secrets = UserSecrets(self._secrets)
            user = self._users[key] = McpConnection(self.server, secrets, self._room), secrets
            await self._forget_idle()
        self._users.move_to_end(key)
        connection, secrets = user

        async def renew(refused: str) -> str:
            return (await call.lend(refused)).value

        if secrets.lend(lent.value, renew) and self.server.url is None:
            connection.release()  # a process has the credential that it was started with
        return connection

    async def aclose(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(connection.aclose() for connection, _ in self._users.values()))

    async def _forget_idle(self) -> None:
        if len(self._users) > _MOST_USERS:
            idle = next((key for key, (known, _) in self._users.items() if known.idle_since is not None), None)
            if idle is not None:
                await self._users.pop(idle)[0].aclose()
