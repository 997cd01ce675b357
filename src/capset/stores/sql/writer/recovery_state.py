"""What became of a transaction whose connection was lost: it may be committed although nobody was told.

So before a writer writes again, it looks which of those rows are on record, and which of its intents are open.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError

from capset.stores.entries import Row
from capset.stores.sql.schema.tables import open_intents, records

_NAMED: Final = 1_000
"""How many ids a statement names."""


class RecoveryState:
    """The rows, by id and phase, of which one writer does not know whether they are on record."""

    def __init__(self) -> None:
        self._rows: set[tuple[str, str]] = set()
        self._lost = False

    def begin(self, error: Exception, rows: Iterable[Row]) -> None:
        """Doubt rows that could not be written, if the connection was lost on the way."""
        if isinstance(error, DBAPIError) and error.connection_invalidated:
            self._lost = True
            self._rows.update((row["id"], row["phase"]) for row in rows)

    def settle(self, connection: Connection, writer: str, rows: Sequence[Row], open_ids: set[str]) -> Collection[int]:
        """Return the places of those rows that are on record already, and bring ``open_ids`` in step with the database.

        Ask within the transaction that writes them. The doubt lasts until ``end``.
        """
        if not self._lost:
            return ()
        open_ids.clear()
        open_ids.update(connection.execute(select(open_intents.c.id).where(open_intents.c.writer == writer)).scalars())
        written: set[tuple[str, str]] = set()
        ids = sorted({one for one, _ in self._rows})
        for start in range(0, len(ids), _NAMED):
            some = records.c.id.in_(ids[start : start + _NAMED])
            found = connection.execute(select(records.c.id, records.c.phase).where(some, records.c.writer == writer))
            written.update((one, phase) for one, phase in found)
        known = written & self._rows
        return {place for place, row in enumerate(rows) if (row["id"], row["phase"]) in known}

    def end(self) -> None:
        """Doubt no more: a transaction was committed that took account of it."""
        self._rows.clear()
        self._lost = False
