"""The sessions in memory."""

from __future__ import annotations

from capset.errors import StoreError
from capset.stores.base import SessionRow
from capset.stores.memory.door import Door


class MemorySessions:
    """The sessions, by id."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._rows: dict[str, SessionRow] = {}

    async def create(self, row: SessionRow) -> None:
        """Keep a new session. Raises ``StoreError`` if there is one of its id."""
        self._door.check()
        if row.id in self._rows:
            raise StoreError(f"there is a session {row.id!r} already")
        self._rows[row.id] = row

    async def get(self, id: str) -> SessionRow | None:
        """Return a session, or ``None``."""
        self._door.check()
        return self._rows.get(id)
