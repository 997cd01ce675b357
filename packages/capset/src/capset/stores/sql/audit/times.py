"""Times as bounds on ``seq``: all records of these times are within them, and few others."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, false, func, select, text

from capset.fingerprint.canonical import MAX_EXACT
from capset.stores.sql.schema.tables import records

FEW: Final = 10_000
"""Number of records to read past rather than to look up the end of the chain's part that a query is about."""

NEAR: Final = 1_000
"""Number of records by whose times an end of a part of the chain is found, where clocks differ a little."""

AT: Final = records.c.time.concat(text("''"))
"""A record's time, for queries that must not use its index: pages are in the order of the chain."""

# Not the column itself: an engine would walk the chain from its end, past all records of other times.
_SEQ: Final = records.c.seq + 0


def bounds_of(connection: Connection, since: str | None, until: str | None) -> list[ColumnElement[bool]]:
    """Return conditions on ``seq`` that hold for all records of these times, and for few others."""
    bounds: list[ColumnElement[bool]] = []
    if since is not None:
        newer = select(_SEQ.label("seq")).where(records.c.time >= since).order_by(records.c.time).limit(FEW).subquery()
        count, first = connection.execute(select(func.count(), func.min(newer.c.seq))).one()
        if not count:
            return [false()]
        # If there are many, a page of the newest usually fills before it reaches older ones; the last page walks on.
        bounds.append(records.c.seq >= (first if count < FEW else 0))
    if until is not None and _has_many(connection, until):
        bounds.append(records.c.seq <= (last_before(connection, until) or 0))
    return bounds


def near_ends(connection: Connection, since: str | None, until: str | None) -> tuple[int, int] | None:
    """Return the first and the last ``seq`` of the records of these times, found in bounded time; ``None`` for none.

    Records that were written by a clock which was so far off that ``NEAR`` others lie between may be outside.
    """
    first, last = 0, MAX_EXACT
    seqs = select(_SEQ.label("seq")).limit(NEAR)
    if since is not None:
        near = seqs.where(records.c.time >= since).order_by(records.c.time).subquery()
        first = connection.execute(select(func.min(near.c.seq))).scalar()
    if until is not None:
        near = seqs.where(records.c.time < until).order_by(records.c.time.desc()).subquery()
        last = connection.execute(select(func.max(near.c.seq))).scalar()
    return None if first is None or last is None else (first, last)


def first_from(connection: Connection, since: str | None) -> int | None:
    """Return the first ``seq`` of the records since a time; of all, if none is given."""
    return connection.execute(_end(func.min, None if since is None else records.c.time >= since)).scalar()


def last_before(connection: Connection, until: str | None) -> int | None:
    """Return the last ``seq`` of the records before a time; of all, if none is given."""
    return connection.execute(_end(func.max, None if until is None else records.c.time < until)).scalar()


def _end(function: Any, at: ColumnElement[bool] | None) -> Select[int]:  # SQLAlchemy's generator of functions
    return select(function(records.c.seq)) if at is None else select(function(_SEQ)).where(at)


def _has_many(connection: Connection, until: str) -> bool:
    newer = select(records.c.time).where(records.c.time >= until).limit(FEW).subquery()
    return connection.execute(select(func.count()).select_from(newer)).scalar_one() == FEW
