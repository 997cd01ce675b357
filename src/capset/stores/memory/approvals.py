"""The requests for approvals in memory."""

from __future__ import annotations

from capset.definitions.approvals import ApprovalRow, ApprovalStatus, EqualCall
from capset.errors import StoreError
from capset.stores.base import STANDING, ApprovalPage, ApprovalQuery
from capset.stores.memory.lifecycle import Lifecycle


class MemoryApprovals:
    """The requests, by id."""

    def __init__(self, door: Lifecycle) -> None:
        self._door = door
        self._rows: dict[str, ApprovalRow] = {}

    async def open(self, row: ApprovalRow, *, most: int, by_code: bool = False) -> ApprovalRow | None:
        """Store a new request and return it, or return the standing one for an equal call."""
        equal = row.equal_in_code if by_code else row.equal
        if (found := await self.standing(equal, row.created_at)) is not None:
            return found
        if row.id in self._rows:
            raise StoreError(f"there is a request {row.id!r} already")
        whose = (row.org, row.principal, row.on_behalf_of)
        pending = sum(
            1
            for one in self._rows.values()
            if one.status == "pending"
            and (one.org, one.principal, one.on_behalf_of) == whose
            and one.expires_at > row.created_at
        )
        if pending >= most:
            return None
        self._rows[row.id] = row
        return row

    async def standing(self, call: EqualCall, now: str) -> ApprovalRow | None:
        """Return the newest standing request for an equal call."""
        self._door.check()
        found = [
            row
            for row in self._rows.values()
            if call in (row.equal, row.equal_in_code) and row.status in STANDING and row.expires_at > now
        ]
        return max(found, key=lambda row: row.id, default=None)

    async def get(self, org: str | None, id: str) -> ApprovalRow | None:
        """Return a request of an org, or ``None``."""
        self._door.check()
        row = self._rows.get(id)
        return row if row is not None and row.org == org else None

    async def list(self, query: ApprovalQuery) -> ApprovalPage:
        """Return requests, newest first."""
        self._door.check()
        names = ("status", "session", "tool_hash", "digest")
        wanted = {name: value for name in names if (value := getattr(query, name)) is not None}
        found = [
            row
            for row in sorted(self._rows.values(), key=lambda row: row.id, reverse=True)
            if row.org == query.org
            and (query.before is None or row.id < query.before)
            and all(getattr(row, name) == value for name, value in wanted.items())
        ]
        items = tuple(found[: query.limit])
        return ApprovalPage(items, items[-1].id if len(found) > query.limit else None)

    async def move(self, row: ApprovalRow, expected: ApprovalStatus) -> bool:
        """Replace the request of ``row``'s id and org, if it still has the expected status."""
        self._door.check()
        there = self._rows.get(row.id)
        if there is None or there.org != row.org or there.status != expected:
            return False
        self._rows[row.id] = row
        return True

    async def overdue(self, now: str, limit: int = 100) -> list[ApprovalRow]:
        """Return open requests of every org that expire at ``now`` or before, the oldest first."""
        self._door.check()
        found = [row for row in self._rows.values() if row.status in ("pending", "approved") and row.expires_at <= now]
        return sorted(found, key=lambda row: (row.expires_at, row.id))[:limit]
