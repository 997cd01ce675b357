"""The connections of users to one MCP server, each with that user's own credential (spec 11, V22)."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from capset.definitions.calls.contexts import Context
from capset.definitions.secrets import Secrets
from capset.kernel.call.context import CallContext
from capset_connect.mcp.connection import McpConnection
from capset_connect.mcp.rooms import LISTS_BYTES, Room
from capset_connect.mcp.server import McpServer
from capset_connect.pins.guard import Guard
from capset_connect.vault.user_secrets import UserSecrets, lent_for

_MOST_OPEN: Final = 64
"""The maximum number of users with an open connection to one server, each perhaps a process."""
_MOST_KNOWN: Final = 1_000
"""The maximum number of users whose connections, mostly closed ones, are remembered."""


class OwnConnection:
    """The connection of one user, with that user's secrets and the guards of its tools."""

    def __init__(self, server: McpServer, secrets: Secrets, room: Room) -> None:
        self.secrets: Final = UserSecrets(secrets)
        self.connection: Final = McpConnection(server, self.secrets, room)
        self._guards = WeakKeyDictionary[Any, Guard]()

    def guard(self, of: object, make: Callable[[McpConnection], Guard]) -> Guard:
        """Return the guard of the tools that ``of`` stands for; it is made at the first call."""
        if (guard := self._guards.get(of)) is None:
            guard = self._guards[of] = make(self.connection)
        return guard


class ConnectionsByUser:
    """One connection for each user, opened on demand; idle ones are closed.

    Over HTTP, a credential that replaces another one gets a connection of its own, because it may be of another
    account. A process has the credential that it was started with, so each value has a process of its own.
    """

    def __init__(self, server: McpServer, secrets: Secrets) -> None:
        self.server: Final = server
        self._secrets = secrets
        self._room = Room(f"The {server.label}", most=_MOST_OPEN, lists_bytes=_MOST_OPEN * LISTS_BYTES)
        self._users: OrderedDict[tuple[str | None, str, str], OwnConnection] = OrderedDict()

    async def of(self, ctx: Context) -> OwnConnection:
        """Return the connection of the user whose credential a call may use."""
        call, lent = cast("CallContext", ctx).origin, await lent_for(self.server, ctx)
        secret = lent.reference.partition("@")[0] if self.server.url is not None else lent.value
        key = call.context.principal.org, lent.owner, hashlib.sha256(secret.encode()).hexdigest()
        if (user_connection := self._users.get(key)) is None:
            user_connection = self._users[key] = OwnConnection(self.server, self._secrets, self._room)
            await self._forget_idle()
        self._users.move_to_end(key)

        user_connection.secrets.lend(lent.value, call)
        return user_connection

    async def aclose(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(entry.connection.aclose() for entry in self._users.values()))

    async def _forget_idle(self) -> None:
        """Forget the connection that was not used for longest, if there are too many."""
        if len(self._users) > _MOST_KNOWN:
            connections = ((key, entry.connection) for key, entry in self._users.items())
            idle = next((key for key, connection in connections if connection.idle_since is not None), None)
            if idle is not None:
                await self._users.pop(idle).connection.aclose()
