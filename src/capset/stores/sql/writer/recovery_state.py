"""The recovery state of a transaction whose connection was lost: it may be committed although no caller was notified.

So before a writer writes again, it checks which of those rows are stored, and which of its intents are open.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError

from capset.stores.entries import Row
from capset.stores.sql.schema.tables import open_intents, records

_NAMED: Final = 1_000
"""Number of ids per statement."""


class RecoveryState:
    """The rows, by id and phase, of which one writer does not know whether they are stored."""

    def __init__(self) -> None:
        self._rows: set[tuple[str, str]] = set()
        self._lost = False

    def begin(self, error: Exception, rows: Iterable[Row]) -> None:
        """Note rows that could not be written as uncertain, if the connection was lost in the process."""
        if isinstance(error, DBAPIError) and error.connection_invalidated:
            self._lost = True
            self._rows.update((row["id"], row["phase"]) for row in rows)

    def settle(self, connection: Connection, writer: str, rows: Sequence[Row], open_ids: set[str]) -> Collection[int]:
        """Return the places of the rows that are stored already, and update ``open_ids`` from the database.

        Call it within the transaction that writes them. The uncertainty lasts until ``end``.
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
        """Clear the state: a transaction was committed that took account of it."""
        self._rows.clear()
        self._lost = False
