"""Sessions and stored replies in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from capset.stores.base import VERSION_FIELDS, Entry, Page, ReplyRow, SessionQuery, SessionRow
from capset.stores.base.replies import KeysFull
from capset.stores.base.sessions import MAX_SEARCHED
from capset.stores.memory.lifecycle import Lifecycle
from capset.stores.pages import filters_of, page_by_id
from capset.stores.rows import id_taken_error
from capset.stores.texts import ascii_lower


class MemorySessions:
    """The sessions, by id. ``ids`` is shared with the parts whose data belongs to sessions.

    ``drops`` are called with the id of a deleted session, so that these parts forget its data.
    """

    def __init__(self, lifecycle: Lifecycle, ids: set[str], drops: Sequence[Callable[[str], None]]) -> None:
        self._lifecycle = lifecycle
        self._ids = ids
        self._drops = drops
        self._rows: dict[str, SessionRow] = {}
        self._doors: dict[str, str] = {}

    def all(self) -> Iterable[SessionRow]:
        """Return the sessions of every organisation."""
        self._lifecycle.check()
        return self._rows.values()

    async def create(self, row: SessionRow) -> None:
        self._lifecycle.check()
        if row.id in self._rows or (row.door is not None and row.door in self._doors):
            raise id_taken_error("a session", row.id)
        self._rows[row.id] = row
        self._ids.add(row.id)
        if row.door is not None:
            self._doors[row.door] = row.id

    async def upsert(self, row: SessionRow) -> SessionRow:
        self._lifecycle.check()
        if row.door is None or (existing_id := self._doors.get(row.door)) is None:
            await self.create(row)
            return row
        updated = replace(row, id=existing_id, created_at=self._rows[existing_id].created_at)
        self._rows[existing_id] = updated
        return updated

    async def move(self, row: SessionRow, *, expected: int | None, act: Entry | None = None) -> bool:
        self._lifecycle.check()
        current = self._rows.get(row.id)
        if current is None or expected not in (None, current.agent_version):
            return False
        self._lifecycle.record(act)
        self._rows[row.id] = replace(current, **{name: getattr(row, name) for name in VERSION_FIELDS})
        return True

    async def get(self, id: str) -> SessionRow | None:
        self._lifecycle.check()
        return self._rows.get(id)

    async def find(self, door: str) -> SessionRow | None:
        self._lifecycle.check()
        return self._rows.get(self._doors.get(door, ""))

    async def list(self, query: SessionQuery) -> Page[SessionRow]:
        self._lifecycle.check()
        filters = {"org": query.org, **filters_of(query, ("principal", "principal_kind", "agent_id"))}
        if query.principal_kind is not None:
            filters["on_behalf_of"] = query.on_behalf_of
        if query.text is None:
            return page_by_id(self._rows.values(), query, filters)
        newest = sorted(
            (
                row
                for row in self._rows.values()
                if (query.before is None or row.id < query.before)
                and all(getattr(row, name) == value for name, value in filters.items())
            ),
            key=lambda row: row.id,
            reverse=True,
        )
        part, searched = ascii_lower(query.text), newest[:MAX_SEARCHED]
        matching = [row for row in searched if part in ascii_lower(row.id) or part in ascii_lower(row.agent)]
        page = page_by_id(matching, query, {})
        return page if page.next or len(newest) == len(searched) else replace(page, next=searched[-1].id)

    async def delete(self, id: str, *, act: Entry | None = None) -> bool:
        self._lifecycle.check()
        row = self._rows.get(id)
        if row is not None:
            self._lifecycle.record(act)
            del self._rows[id]
            if row.door is not None:
                del self._doors[row.door]
        for drop in self._drops:
            drop(id)
        return row is not None


class MemoryReplies:
    """The replies, by session and key."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._rows: dict[tuple[str, str], ReplyRow] = {}

    async def reserve(self, row: ReplyRow, *, expired: str, max_keys: int | None = None) -> ReplyRow | None:
        await self.sweep(expired=expired)
        if (existing := self._rows.get((row.session, row.key))) is not None:
            return existing
        of_org = [other.created_at for other in self._rows.values() if other.org == row.org]
        if max_keys is not None and len(of_org) >= max_keys:
            raise KeysFull(min(of_org))
        self._rows[row.session, row.key] = row
        return None

    async def get(self, session: str, key: str) -> ReplyRow | None:
        self._lifecycle.check()
        return self._rows.get((session, key))

    async def complete(
        self,
        session: str,
        key: str,
        status: int,
        body: str | None,
        *,
        record: str | None = None,
        max_bytes: int | None = None,
    ) -> None:
        self._lifecycle.check()
        if (row := self._rows.get((session, key))) is None:
            return
        self._rows[session, key] = replace(row, status=status, body=body, record=record)
        if max_bytes is not None:
            self._remove_oldest_bodies(row.org, max_bytes)

    def _remove_oldest_bodies(self, org: str | None, remaining: int) -> None:
        of_org = [(key, row) for key, row in self._rows.items() if row.org == org and row.body is not None]
        for key, row in sorted(of_org, key=lambda entry: entry[1].created_at, reverse=True):
            remaining -= len((row.body or "").encode())
            if remaining < 0:
                self._rows[key] = replace(row, body=None)

    async def release(self, session: str, key: str) -> None:
        self._lifecycle.check()
        self._rows.pop((session, key), None)

    async def sweep(self, *, expired: str) -> None:
        self._lifecycle.check()
        self._rows = {key: row for key, row in self._rows.items() if row.created_at >= expired}

    def drop(self, session: str) -> None:
        """Forget the replies of a deleted session."""
        for key in [key for key in self._rows if key[0] == session]:
            del self._rows[key]
