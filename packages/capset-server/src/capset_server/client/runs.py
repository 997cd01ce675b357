"""Runs and schedules: turns of agents, and what is queued for workers, once or repeatedly."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

from capset.stores.base import RunState
from capset.wire.runs import RunPageShape, RunShape, SchedulePageShape, ScheduleShape, Whose
from capset.wire.traces import RunTraceShape
from capset.wire.turns import EventShape, GapShape
from capset_server.client.connection import LARGEST_PAGE, REPEATABLE, Connection, every, json_bytes, path_of
from capset_server.client.sessions import read_events


class RunResource:
    """``client.runs``; queueing needs a key, not a token.

    The scope ``capset:observe`` covers other principals' runs.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(
        self,
        content: Any,  # any JSON
        *,
        agent: str | None = None,
        session: str | None = None,
        queue: str = "default",
        idempotency_key: str | None = None,
    ) -> RunShape:
        """Queue a turn: a message to an agent, in a given session, or in a new session of a given agent.

        With ``idempotency_key``, the same request queues no second run within a day. Raises ``LimitExceeded`` if too
        many runs of the organisation are unfinished.
        """
        named = {"agent_id": agent, "session_id": session}
        target = {name: value for name, value in named.items() if value is not None}
        return await self._send({"content": content, "queue": queue, **target}, idempotency_key)

    async def call(
        self,
        session: str,
        tool: str,
        arguments: Mapping[str, Any] | None = None,  # JSON data
        *,
        queue: str = "default",
        idempotency_key: str | None = None,
    ) -> RunShape:
        """Queue a call of a tool in a session. Raises as ``create`` does."""
        members = {"session_id": session, "tool": tool, "arguments": dict(arguments or {}), "queue": queue}
        return await self._send(members, idempotency_key)

    async def list(
        self,
        *,
        whose: Whose = "own",
        principal: str | None = None,
        session_id: str | None = None,
        agent: str | None = None,
        state: RunState | None = None,
        queue: str | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> RunPageShape:
        """List the runs that match all filters, newest first: the caller's, or ``all`` of its organisation.

        ``agent`` is a name; times are as in ``2026-01-31T00:00:00Z``. ``limit`` is 1–200, ``cursor`` the ``next`` of
        the previous page. ``all`` needs the scope ``capset:observe``; the items then have no outcome.
        """
        query = {
            "whose": whose,
            "principal": principal,
            "session_id": session_id,
            "agent": agent,
            "state": state,
            "queue": queue,
            "since": since,
            "until": until,
            "limit": limit,
            "cursor": cursor,
        }
        return await self._connection.get(RunPageShape, path_of("runs"), query)

    def all(
        self, *, whose: Whose = "own", state: RunState | None = None, queue: str | None = None
    ) -> AsyncGenerator[RunShape]:
        """Iterate over all of the runs, newest first, page by page."""
        return every(lambda cursor: self.list(whose=whose, state=state, queue=queue, limit=LARGEST_PAGE, cursor=cursor))

    async def get(self, id: str) -> RunShape:
        """Return a run. Raises ``NotFound``."""
        return await self._connection.get(RunShape, path_of("runs", id))

    async def trace(self, id: str) -> RunTraceShape:
        """Return a run as a tree: its steps with the calls of models and tools, and the agents within these."""
        return await self._connection.get(RunTraceShape, path_of("runs", id, "trace"))

    @asynccontextmanager
    async def events(self, id: str, *, follow: bool = True) -> AsyncGenerator[AsyncGenerator[EventShape | GapShape]]:
        """Read the events of a run that is a turn, up to its end: ``async with client.runs.events(id) as events``.

        With ``follow``, it waits until a queued turn begins. Raises as ``client.sessions.events`` does, and
        ``InvalidArguments`` for a queued call, which has no events.
        """
        query = {"follow": "true" if follow else "false"}
        async with (
            self._connection.follow(path_of("runs", id, "events"), query) as response,
            aclosing(read_events(self._connection.answers, response)) as events,
        ):
            yield events

    async def cancel(self, id: str) -> RunShape:
        """Cancel a run, and return it. Raises ``NotFound``, and ``Conflict`` for a call that has begun."""
        response = await self._connection.request("POST", path_of("runs", id, "cancel"))
        return self._connection.answers.parsed(RunShape, response.content)

    async def _send(self, members: Mapping[str, Any], key: str | None) -> RunShape:
        headers = {} if key is None else {REPEATABLE: key}
        return await self._connection.send(RunShape, "POST", path_of("runs"), json_bytes(dict(members)), headers)


class ScheduleResource:
    """``client.schedules``; needs a key, not a token."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(
        self,
        cron: str,
        content: Any,  # any JSON
        *,
        agent: str | None = None,
        session: str | None = None,
        timezone: str = "UTC",
        queue: str = "default",
        idempotency_key: str | None = None,
    ) -> ScheduleShape:
        """Queue a turn at each time of a five-field cron expression, in a given session or in new ones of an agent.

        With ``idempotency_key``, the same request makes no second schedule within a day. Raises ``LimitExceeded`` if
        the organisation already has its maximum of schedules.
        """
        named = {"agent_id": agent, "session_id": session}
        members = {name: value for name, value in named.items() if value is not None}
        members |= {"cron": cron, "timezone": timezone, "queue": queue}
        return await self._send({"content": content, **members}, idempotency_key)

    async def call(
        self,
        cron: str,
        session: str,
        tool: str,
        arguments: Mapping[str, Any] | None = None,  # JSON data
        *,
        timezone: str = "UTC",
        queue: str = "default",
        idempotency_key: str | None = None,
    ) -> ScheduleShape:
        """Queue a call of a tool in a session, at each time. Raises as ``create`` does."""
        target = {"session_id": session, "tool": tool, "arguments": dict(arguments or {})}
        return await self._send({"cron": cron, "timezone": timezone, "queue": queue, **target}, idempotency_key)

    async def list(self, *, limit: int = 50, cursor: str | None = None) -> SchedulePageShape:
        """List the caller's schedules, newest first.

        ``limit`` is 1–200, ``cursor`` the ``next`` of the previous page.
        """
        return await self._connection.get(SchedulePageShape, path_of("schedules"), {"limit": limit, "cursor": cursor})

    def all(self) -> AsyncGenerator[ScheduleShape]:
        """Iterate over all of the caller's schedules, newest first, page by page."""
        return every(lambda cursor: self.list(limit=LARGEST_PAGE, cursor=cursor))

    async def get(self, id: str) -> ScheduleShape:
        """Return a schedule. Raises ``NotFound``."""
        return await self._connection.get(ScheduleShape, path_of("schedules", id))

    async def pause(self, id: str) -> ScheduleShape:
        """Pause a schedule, and return it. Raises ``NotFound``."""
        return await self._post(id, "pause")

    async def resume(self, id: str) -> ScheduleShape:
        """Resume a paused schedule from now, and return it. Raises ``NotFound``."""
        return await self._post(id, "resume")

    async def delete(self, id: str) -> None:
        """Delete a schedule; its runs stay. Raises ``NotFound``."""
        await self._connection.delete(path_of("schedules", id))

    async def _post(self, id: str, action: str) -> ScheduleShape:
        response = await self._connection.request("POST", path_of("schedules", id, action))
        return self._connection.answers.parsed(ScheduleShape, response.content)

    async def _send(self, members: Mapping[str, Any], key: str | None) -> ScheduleShape:
        headers = {} if key is None else {REPEATABLE: key}
        body = json_bytes(dict(members))
        return await self._connection.send(ScheduleShape, "POST", path_of("schedules"), body, headers)
