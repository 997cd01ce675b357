"""The sessions of a local database, under the rules of a server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

from capset.definitions.principals import Principal
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.stores.base import EventRow, SessionQuery
from capset.wire.sessions import (
    SessionPageShape,
    SessionShape,
    StateShape,
    session_page_shape,
    session_shape,
    state_shape,
)
from capset.wire.turns import EventShape, GapShape, event_shape
from capset_server.auth.callers import Caller
from capset_server.followers import Gap, follow
from capset_server.service import Service


class LocalSessions:
    """The methods of ``client.sessions``, for the sessions of one principal."""

    def __init__(self, kernel: Kernel, principal: Principal, env: Mapping[str, Any]) -> None:
        self._service = Service(kernel, Registry.installed(), env=env)
        self._caller = Caller(principal, frozenset({"capset:admin"}), None)

    async def list(
        self, *, agent_id: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> SessionPageShape:
        """List the sessions of the principal, newest first."""
        owner = self._caller.principal
        query = SessionQuery(owner.org, owner.id, owner.kind, agent_id, owner.on_behalf_of, limit=limit, before=cursor)
        return await session_page_shape(self._service.kernel.store.sessions, query)

    async def get(self, id: str) -> SessionShape:
        """Return a session. Raises ``NotFound``."""
        return session_shape(await self._service.session_row(self._caller, id))

    async def create(
        self,
        agent: str,
        *,
        invocation: Mapping[str, Any] | None = None,  # JSON data
        context: Mapping[str, Any] | None = None,  # JSON data
    ) -> SessionShape:
        """Start a session with the current version of an agent."""
        row = await self._service.new_session(self._caller, agent, invocation=invocation, context=context)
        return session_shape(row)

    async def move(self, id: str, agent_version: int | None = None, *, version: int | None = None) -> SessionShape:
        """Move a session to another version of its agent, the current one by default."""
        return session_shape(await self._service.move_session(self._caller, id, agent_version, expected=version))

    async def fork(self, id: str, turn: str | None = None) -> SessionShape:
        """Start a session with a copy of this one's conversation, up to the end of ``turn`` or all of it."""
        return session_shape(await self._service.fork_session(self._caller, id, turn))

    async def rewind(self, id: str, turn: str) -> int:
        """Rewind a session's conversation to before a turn, and return the number of removed messages."""
        return await self._service.rewind_session(self._caller, id, turn)

    async def delete(self, id: str) -> None:
        """Delete a session with its files. Its records stay."""
        await self._service.delete_session(self._caller, id)

    async def state(self, id: str) -> StateShape:
        """Return the state and resources that the session's agent exposes."""
        session = await self._service.session(self._caller, id)
        return state_shape(await session.exposed())

    @asynccontextmanager
    async def events(
        self, id: str, *, after: int = 0, follow: bool = True
    ) -> AsyncGenerator[AsyncGenerator[EventShape | GapShape]]:
        """Read the events of a session's turns: ``async with admin.sessions.events(id) as events``."""
        await self._service.session_row(self._caller, id)
        async with aclosing(self._follow(id, after, waits=follow)) as events:
            yield events

    async def _follow(self, id: str, after: int, *, waits: bool) -> AsyncGenerator[EventShape | GapShape]:
        bell = self._service.turns.bell
        async with aclosing(follow(self._service.kernel, bell, id, after, waits=waits)) as events:
            async for event in events:
                yield _shape_of(event)


def _shape_of(event: EventRow | Gap) -> EventShape | GapShape:
    return GapShape(after=event.after, last=event.last) if isinstance(event, Gap) else event_shape(event)
