"""The records of the key's organisation."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from capset.client.connection import LARGEST_PAGE, Connection, every, path_of
from capset.definitions.records import Outcome
from capset.wire.audit import RecordPageShape


class RecordResource:
    """``client.records``; needs a key with the scope ``capset:audit``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(
        self,
        *,
        id: str | None = None,
        tool: str | None = None,
        outcome: Outcome | None = None,
        principal: str | None = None,
        session: str | None = None,
        correlation: str | None = None,
        agent: str | None = None,
        approval: str | None = None,
        code: str | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> RecordPageShape:
        """List the outcomes of calls, newest first: the records that match all filters.

        ``since`` and ``until`` are times in ISO 8601 with an offset; records at ``until`` are excluded. ``limit`` is
        1–200, ``cursor`` the ``next`` of the page before.
        """
        query: dict[str, str | int | None] = {
            "id": id,
            "tool": tool,
            "outcome": outcome,
            "principal": principal,
            "session": session,
            "correlation": correlation,
            "agent": agent,
            "approval": approval,
            "code": code,
            "since": since,
            "until": until,
            "limit": limit,
            "cursor": cursor,
        }
        return await self._connection.get(RecordPageShape, path_of("audit"), query)

    def all(
        self,
        *,
        tool: str | None = None,
        outcome: Outcome | None = None,
        principal: str | None = None,
        session: str | None = None,
        correlation: str | None = None,
        agent: str | None = None,
        approval: str | None = None,
        code: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> AsyncGenerator[dict[str, Any]]:  # a record's values are of every JSON type
        """Iterate over all matching records, newest first, page by page."""
        return every(
            lambda cursor: self.list(
                tool=tool,
                outcome=outcome,
                principal=principal,
                session=session,
                correlation=correlation,
                agent=agent,
                approval=approval,
                code=code,
                since=since,
                until=until,
                limit=LARGEST_PAGE,
                cursor=cursor,
            )
        )
