"""Time ranges as bounds on ``seq`` that include all records of the range, and few others."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, false, func, select, text

from capset.fingerprint.canonical import MAX_EXACT
from capset.stores.sql.schema.tables import records

MAX_SKIPPED: Final = 10_000
"""Number of records up to which skipping them is faster than looking up a bound on ``seq``."""

UNINDEXED_TIME: Final = records.c.time.concat(text("''"))
"""A record's time, for queries that must not use its index, since their pages are in chain order."""

# Not the plain column, for which an engine would scan the chain from its end, past all records of other times.
_UNINDEXED_SEQ: Final = records.c.seq + 0


def bounds_of(connection: Connection, since: str | None, until: str | None) -> list[ColumnElement[bool]]:
    """Return conditions on ``seq`` that match all records in a time range, and few others."""
    bounds: list[ColumnElement[bool]] = []
    if since is not None:
        newer = (
            select(_UNINDEXED_SEQ.label("seq"))
            .where(records.c.time >= since)
            .order_by(records.c.time)
            .limit(MAX_SKIPPED)
            .subquery()
        )
        count, first = connection.execute(select(func.count(), func.min(newer.c.seq))).one()
        if not count:
            return [false()]
        # If there are many, a page of the newest usually fills before it reaches older ones. The last page scans on.
        bounds.append(records.c.seq >= (first if count < MAX_SKIPPED else 0))
    if until is not None and _has_many(connection, until):
        bounds.append(records.c.seq <= (last_before(connection, until) or 0))
    return bounds


def near_ends(connection: Connection, since: str | None, until: str | None) -> tuple[int, int] | None:
    """Return the first and the last ``seq`` of the records in a time range, in bounded time, or ``None``.

    Records may be left out if their clock was so far off that 1,000 other records lie between.
    """
    first, last = 0, MAX_EXACT
    seqs = select(_UNINDEXED_SEQ.label("seq")).limit(1_000)
    if since is not None:
        near = seqs.where(records.c.time >= since).order_by(records.c.time).subquery()
        first = connection.execute(select(func.min(near.c.seq))).scalar()
    if until is not None:
        near = seqs.where(records.c.time < until).order_by(records.c.time.desc()).subquery()
        last = connection.execute(select(func.max(near.c.seq))).scalar()
    return None if first is None or last is None else (first, last)


def first_from(connection: Connection, since: str | None) -> int | None:
    """Return the first ``seq`` of the records since a time, or of all records for ``None``."""
    return connection.execute(_end(func.min, None if since is None else records.c.time >= since)).scalar()


def last_before(connection: Connection, until: str | None) -> int | None:
    """Return the last ``seq`` of the records before a time, or of all records for ``None``."""
    return connection.execute(_end(func.max, None if until is None else records.c.time < until)).scalar()


def _end(function: Any, condition: ColumnElement[bool] | None) -> Select[int]:  # SQLAlchemy's generator of functions
    return select(function(records.c.seq)) if condition is None else select(function(_UNINDEXED_SEQ)).where(condition)


def _has_many(connection: Connection, until: str) -> bool:
    newer = select(records.c.time).where(records.c.time >= until).limit(MAX_SKIPPED).subquery()
    return connection.execute(select(func.count()).select_from(newer)).scalar_one() == MAX_SKIPPED
