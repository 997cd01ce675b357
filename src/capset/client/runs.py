"""Runs: turns and calls that are queued for workers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from capset.client.connection import LARGEST_PAGE, Connection, every, json_bytes, path_of
from capset.stores.base import RunState
from capset.wire.runs import RunPageShape, RunShape


class RunResource:
    """``client.runs``; needs a key, not a token."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(
        self,
        content: Any,  # any JSON
        *,
        agent: str | None = None,
        session: str | None = None,
        queue: str = "default",
    ) -> RunShape:
        """Queue a turn: a message to an agent, in a session, or in a new one of an agent.

        Raises ``LimitExceeded`` if too many runs of the organisation are unfinished.
        """
        named = {"agent_id": agent, "session_id": session}
        given = {name: value for name, value in named.items() if value is not None}
        return await self._send({"content": content, "queue": queue, **given})

    async def call(
        self,
        session: str,
        tool: str,
        arguments: Mapping[str, Any] | None = None,  # JSON data
        *,
        queue: str = "default",
    ) -> RunShape:
        """Queue a call of a tool in a session. Raises as ``create`` does."""
        return await self._send(
            {"session_id": session, "tool": tool, "arguments": dict(arguments or {}), "queue": queue}
        )

    async def list(
        self,
        *,
        state: RunState | None = None,
        queue: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> RunPageShape:
        """List the caller's runs, newest first. ``limit`` is 1–200, ``cursor`` the ``next`` of the page before."""
        wanted = {"state": state, "queue": queue, "limit": limit, "cursor": cursor}
        return await self._connection.get(RunPageShape, path_of("runs"), wanted)

    def all(self, *, state: RunState | None = None, queue: str | None = None) -> AsyncGenerator[RunShape]:
        """Iterate over all of the caller's runs, newest first, page by page."""
        return every(lambda cursor: self.list(state=state, queue=queue, limit=LARGEST_PAGE, cursor=cursor))

    async def get(self, id: str) -> RunShape:
        """Return a run. Raises ``NotFound``."""
        return await self._connection.get(RunShape, path_of("runs", id))

    async def cancel(self, id: str) -> RunShape:
        """Cancel a run, and return it. Raises ``NotFound``, and ``Conflict`` for a call that has begun."""
        response = await self._connection.request("POST", path_of("runs", id, "cancel"))
        return self._connection.answers.parsed(RunShape, response.content)

    async def _send(self, given: Mapping[str, Any]) -> RunShape:
        return await self._connection.send(RunShape, "POST", path_of("runs"), json_bytes(dict(given)))
