"""How an organisation's newest calls ended and how long they took, read in bounded time."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select, text

from capset.stores.base import AuditQuery
from capset.stores.base.audit import FILTERS, Measured, MeasuredCall
from capset.stores.sql.audit.records import as_they_lie
from capset.stores.sql.audit.times import AT, near_ends
from capset.stores.sql.schema.tables import FILTERS as INDEXED
from capset.stores.sql.schema.tables import IS_OUTCOME, records

_COLUMNS = tuple(records.c[name] for name in MeasuredCall._fields)


def measured_calls(connection: Connection, query: AuditQuery, walked: int, measured: int) -> Measured:
    """Return the calls that a query is about as ``AuditLog.measure`` does."""
    ends = near_ends(connection, query.since, query.until)
    if ends is None:
        return Measured((), None)
    own = _equal(records.c.org, query.org)
    newest = select(records.c.seq).where(IS_OUTCOME, records.c.seq.between(*ends), *own).order_by(records.c.seq.desc())
    cut = connection.execute(newest.offset(walked - 1).limit(2)).scalars().all()
    is_cut = len(cut) > 1
    first, last = (cut[0] if is_cut else ends[0]), ends[1]
    wanted = select(*_COLUMNS).where(IS_OUTCOME, records.c.seq.between(first, last)).order_by(records.c.seq.desc())
    selective = _most_selective(connection, query, first, last, walked)
    for name, value in {"org": query.org, **_filters(query)}.items():
        # By one index only: a plan by another could read past many rows of other organisations.
        column = records.c[name] if name == selective else records.c[name].concat(text("''"))
        wanted = wanted.where(*_equal(column, value))
    if query.since is not None:
        wanted = wanted.where(query.since <= AT)
    if query.until is not None:
        wanted = wanted.where(query.until > AT)
    with as_they_lie(connection):
        rows = connection.execute(wanted.limit(measured + 1)).all()
        calls = list(map(MeasuredCall._make, rows[:measured]))
        if len(rows) > measured:
            return Measured(calls, calls[-1].time)
        if not is_cut:
            return Measured(calls, None)
        since = str(connection.execute(select(records.c.time).where(records.c.seq == first)).scalar())
    return Measured(calls, since if since > (query.since or "") else None)


def _filters(query: AuditQuery) -> dict[str, str]:
    return {name: value for name in FILTERS if name != "act" and (value := getattr(query, name)) is not None}


def _equal(column: ColumnElement[Any], value: str | None) -> list[ColumnElement[bool]]:
    """Return the condition that a filter stands for: ``None`` for none, ``""`` for a null."""
    return [] if value is None else [column == value if value else column.is_(None)]


def _most_selective(connection: Connection, query: AuditQuery, first: int, last: int, walked: int) -> str:
    """Return the filter whose index has fewest rows in a part of the chain, the organisation included."""
    counts: dict[str, int] = {}
    for name, value in {"org": query.org, **_filters(query)}.items():
        if name in INDEXED and value is not None:
            own = (IS_OUTCOME, records.c.seq.between(first, last), *_equal(records.c[name], value))
            some = select(records.c.seq).where(*own).limit(walked).subquery()
            counts[name] = connection.execute(select(func.count()).select_from(some)).scalar_one()
    return min(counts, key=lambda name: counts[name], default="org")
