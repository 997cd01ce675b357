"""The sessions of the key's principal, with their turns and events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx2

from capset.wire.lineage import TransitionsShape
from capset.wire.runs import Whose
from capset.wire.sessions import SessionPageShape, SessionShape, StateShape
from capset.wire.snapshots import SessionToolPageShape, SnapshotShape
from capset.wire.turns import ConversationPageShape, EventShape, GapShape, RewoundShape, TurnShape
from capset_server.client.answers import Answers
from capset_server.client.connection import LARGEST_PAGE, REPEATABLE, Connection, every, if_match, json_bytes, path_of
from capset_server.client.events import LARGEST


class TurnResource:
    """The methods of ``client.sessions`` for turns."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def send(self, id: str, content: Any, *, idempotency_key: str | None = None) -> TurnShape:  # any JSON
        """Send a message to a session's agent, and return the new turn, which runs in the background.

        Raises ``NotFound``; ``Conflict`` with the code ``turn_running`` while the session is in another turn; and
        ``CapsetError`` with the code ``no_runner`` if the server runs no agents.
        """
        headers = {} if idempotency_key is None else {REPEATABLE: idempotency_key}
        body, path = json_bytes({"content": content}), path_of("sessions", id, "messages")
        return await self._connection.send(TurnShape, "POST", path, body, headers)

    async def messages(self, id: str, *, after: int = 0, limit: int = 50) -> ConversationPageShape:
        """List the messages of a session's conversation after a number, oldest first; ``limit`` is 1–200.

        Raises ``NotFound``.
        """
        query = {"after": after, "limit": limit}
        return await self._connection.get(ConversationPageShape, path_of("sessions", id, "messages"), query)

    async def fork(self, id: str, turn: str | None = None) -> SessionShape:
        """Start a new session with this one's conversation, all of it or up to the end of a turn.

        Files and state are not copied. Raises ``NotFound``, also for a turn without messages.
        """
        body = json_bytes({} if turn is None else {"turn": turn})
        return await self._connection.send(SessionShape, "POST", path_of("sessions", id, "fork"), body)

    async def rewind(self, id: str, turn: str) -> int:
        """Rewind a session's conversation to before a turn, and return the number of removed messages.

        This does not undo what the turns have done. Raises ``NotFound``, and ``StateError`` (409) while the session is
        in a turn.
        """
        body, path = json_bytes({"turn": turn}), path_of("sessions", id, "rewind")
        return (await self._connection.send(RewoundShape, "POST", path, body)).removed

    async def cancel(self, id: str, turn: str) -> None:
        """Cancel a session's current turn. Raises ``NotFound`` if it is not in that turn."""
        await self._connection.act("POST", path_of("sessions", id, "turns", turn, "cancel"))

    async def resume(self, id: str, turn: str) -> None:
        """Continue a turn that waits for its caller, or whose process has ended.

        Raises ``NotFound``, and ``Conflict`` while it runs or waits for approvals.
        """
        await self._connection.act("POST", path_of("sessions", id, "turns", turn, "resume"))

    @asynccontextmanager
    async def events(
        self, id: str, *, after: int = 0, newest: int | None = None, follow: bool = True
    ) -> AsyncGenerator[AsyncGenerator[EventShape | GapShape]]:
        """Read the events of a session's turns: ``async with client.sessions.events(id) as events``.

        It starts after the event number ``after``, or with that many of the ``newest`` events. It ends when the session
        or the server ends, or after the stored events if ``follow`` is false. To continue, request the events ``after``
        the last one received; ``NotFound`` then means that the session has ended. A ``GapShape`` stands for events that
        are no longer stored. Raises ``NotFound``, and ``Unreachable`` if the connection breaks.
        """
        query = {"after": after, "newest": newest, "follow": "true" if follow else "false"}
        async with (
            self._connection.follow(path_of("sessions", id, "events"), query) as response,
            aclosing(read_events(self._connection.answers, response)) as events,
        ):
            yield events


async def read_events(answers: Answers, response: httpx2.Response) -> AsyncGenerator[EventShape | GapShape]:
    """Yield the events of a response."""
    with answers.named(safe=True):
        async for event in httpx2.EventSource(response, LARGEST):
            if event.data:
                yield answers.parsed(GapShape if event.event == "gap" else EventShape, event.data)


class SessionResource(TurnResource):
    """``client.sessions``; needs a key with the scope ``capset:call``."""

    async def create(
        self,
        agent_id: str,
        *,
        invocation: Mapping[str, Any] | None = None,  # any JSON
        context: Mapping[str, Any] | None = None,  # any JSON
    ) -> SessionShape:
        """Start a session of an agent, in its current version.

        ``invocation`` says for whom; only its hash is stored. ``context`` is stored and shown, at most 64 KiB of
        JSON. Raises ``NotFound``; ``Conflict`` if the agent is archived; ``InvalidArguments`` for values that cannot be
        stored.
        """
        members = {"agent_id": agent_id, "invocation": invocation, "context": context}
        body = json_bytes({name: value for name, value in members.items() if value is not None})
        return await self._connection.send(SessionShape, "POST", path_of("sessions"), body)

    async def move(self, id: str, agent_version: int | None = None, *, version: int | None = None) -> SessionShape:
        """Move a session to a version of its agent, by default the current one. Its files and state are kept.

        With ``version``, raises ``Outdated`` unless the session is at that version. Raises ``NotFound`` for a missing
        version, and ``Conflict`` if the session moves automatically or its agent has no versions.
        """
        body, path = json_bytes({"agent_version": agent_version}), path_of("sessions", id)
        return await self._connection.send(SessionShape, "PATCH", path, body, if_match(version))

    async def state(self, id: str) -> StateShape:
        """Return the exposed state and resources of the agent's capabilities. Raises ``NotFound``."""
        return await self._connection.get(StateShape, path_of("sessions", id, "state"))

    async def get(self, id: str) -> SessionShape:
        """Return a session. Raises ``NotFound``, also for one of another user."""
        return await self._connection.get(SessionShape, path_of("sessions", id))

    async def list(
        self,
        *,
        whose: Whose = "own",
        principal: str | None = None,
        agent_id: str | None = None,
        text: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> SessionPageShape:
        """List sessions, newest first: the caller's, or ``all`` of its organisation, perhaps of one principal.

        ``text`` is a part of their id, or of the name of their agent. ``limit`` is 1–200, ``cursor`` the ``next`` of
        the previous page. ``all`` needs the scope ``capset:observe``.
        """
        query = {
            "whose": whose,
            "principal": principal,
            "agent_id": agent_id,
            "text": text,
            "limit": limit,
            "cursor": cursor,
        }
        return await self._connection.get(SessionPageShape, path_of("sessions"), query)

    def all(self, *, agent_id: str | None = None) -> AsyncGenerator[SessionShape]:
        """Iterate over all sessions, page by page."""
        return every(lambda cursor: self.list(agent_id=agent_id, limit=LARGEST_PAGE, cursor=cursor))

    async def snapshot(self, id: str) -> SnapshotShape:
        """Return the tools in play in a session, why others are excluded, and the hashes. Raises ``NotFound``."""
        return await self._connection.get(SnapshotShape, path_of("sessions", id, "snapshot"))

    async def tools(
        self, id: str, *, name: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> SessionToolPageShape:
        """List the tools in play in a session by name, with their schemas; with ``name``, only that one.

        ``limit`` is 1–200, ``cursor`` the ``next`` of the previous page. Raises ``NotFound``.
        """
        query = {"name": name, "limit": limit, "cursor": cursor}
        return await self._connection.get(SessionToolPageShape, path_of("sessions", id, "tools"), query)

    async def transitions(self, id: str) -> TransitionsShape:
        """Return the changes of a session's runtime hash, from link to link, at most the last 1,000.

        Raises ``NotFound``; with the scope ``capset:audit`` every recorded session of the organisation is visible.
        """
        return await self._connection.get(TransitionsShape, path_of("sessions", id, "transitions"))

    async def delete(self, id: str) -> None:
        """Delete a session with its files; its records stay. Raises ``NotFound``."""
        await self._connection.delete(path_of("sessions", id))
