"""The stored replies in memory."""

from __future__ import annotations

from dataclasses import replace

from capset.stores.base import ReplyRow
from capset.stores.memory.lifecycle import Lifecycle


class MemoryReplies:
    """The replies, by session and key."""

    def __init__(self, door: Lifecycle) -> None:
        self._door = door
        self._rows: dict[tuple[str, str], ReplyRow] = {}

    async def reserve(self, row: ReplyRow, *, expired: str) -> ReplyRow | None:
        """Reserve a request's key and return ``None``, or return the row already stored under it."""
        self._door.check()
        for key in [key for key, kept in self._rows.items() if kept.created_at < expired]:
            del self._rows[key]
        if (kept := self._rows.get((row.session, row.key))) is not None:
            return kept
        self._rows[row.session, row.key] = row
        return None

    async def fulfil(self, session: str, key: str, status: int, body: str) -> None:
        """Store the reply to a reserved request."""
        self._door.check()
        if (row := self._rows.get((session, key))) is not None:
            self._rows[session, key] = replace(row, status=status, body=body)

    async def release(self, session: str, key: str) -> None:
        """Forget a request that failed, so that it can be sent again."""
        self._door.check()
        self._rows.pop((session, key), None)

    def drop(self, session: str) -> None:
        """Forget the replies of a deleted session."""
        for key in [key for key in self._rows if key[0] == session]:
            del self._rows[key]
