"""Where in the chain of records a time is (spec 5, P15).

Times are nearly in the chain's order, and not quite: clocks of processes differ, and what was buffered while a database
was away is written when it is back. So both ends are looked up in the index of times, and none is guessed.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, false, func, select, text

from capset.stores.sql.schema.tables import records

FEW: Final = 10_000
"""So many records are read past, rather than to look for the end of the chain's part that a query is about."""

AT: Final = records.c.time.concat(text("''"))
"""A record's time, where its index is not to be used: pages are in the order of the chain."""

# Not the column itself: an engine would walk the chain from its end, past all that is of another time.
_SEQ: Final = records.c.seq + 0


def bounds_of(connection: Connection, since: str | None, until: str | None) -> list[ColumnElement[bool]]:
    """Return conditions on ``seq`` that hold for all records of these times, and for few others beside them."""
    bounds: list[ColumnElement[bool]] = []
    if since is not None:
        newer = select(_SEQ.label("seq")).where(records.c.time >= since).order_by(records.c.time).limit(FEW).subquery()
        count, first = connection.execute(select(func.count(), func.min(newer.c.seq))).one()
        if not count:
            return [false()]
        # If there are many, a page of the newest is mostly full before one comes to older ones; the last page walks on.
        bounds.append(records.c.seq >= (first if count < FEW else 0))
    if until is not None and _has_many(connection, until):
        bounds.append(records.c.seq <= (last_before(connection, until) or 0))
    return bounds


def first_from(connection: Connection, since: str | None) -> int | None:
    """Return the first ``seq`` of those that are of a time or later; of all, if none is given."""
    return connection.execute(_end(func.min, None if since is None else records.c.time >= since)).scalar()


def last_before(connection: Connection, until: str | None) -> int | None:
    """Return the last ``seq`` of those that are from before a time; of all, if none is given."""
    return connection.execute(_end(func.max, None if until is None else records.c.time < until)).scalar()


def _end(function: Any, at: ColumnElement[bool] | None) -> Select[int]:  # SQLAlchemy's generator of functions
    return select(function(records.c.seq)) if at is None else select(function(_SEQ)).where(at)


def _has_many(connection: Connection, until: str) -> bool:
    newer = select(records.c.time).where(records.c.time >= until).limit(FEW).subquery()
    return connection.execute(select(func.count()).select_from(newer)).scalar_one() == FEW
