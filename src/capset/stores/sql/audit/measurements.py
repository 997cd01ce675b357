"""How an organisation's newest calls ended and how long they took, read in bounded time."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, func, select, text

from capset.stores.base import AuditQuery
from capset.stores.base.audit import FILTERS, Measured, MeasuredCall
from capset.stores.sql.audit.records import as_they_lie
from capset.stores.sql.audit.times import AT, narrow_bounds_of
from capset.stores.sql.schema.tables import IS_OUTCOME, records

_COLUMNS = tuple(records.c[name] for name in MeasuredCall._fields)


def measured_calls(connection: Connection, query: AuditQuery, walked: int, measured: int) -> Measured:
    """Return the calls that a query is about as ``AuditLog.measure`` does."""
    own: list[Any] = [IS_OUTCOME, *narrow_bounds_of(connection, query.since, query.until)]  # text and conditions
    if query.org is not None:
        own.append(records.c.org == query.org if query.org else records.c.org.is_(None))
    newest = select(records.c.seq).where(*own).order_by(records.c.seq.desc()).limit(walked + 1).subquery()
    count, beyond = connection.execute(select(func.count(), func.min(newest.c.seq))).one()
    if not count:
        return Measured((), None)
    floor = beyond if count > walked else beyond - 1
    wanted = select(*_COLUMNS).where(*own, records.c.seq > floor).order_by(records.c.seq.desc())
    for name in FILTERS:
        if (value := getattr(query, name)) is not None and name != "act":
            # Not by an index of its own, in which the rows of other organisations would have to be read past.
            wanted = wanted.where(records.c[name].concat(text("''")) == value)
    if query.since is not None:
        wanted = wanted.where(query.since <= AT)
    if query.until is not None:
        wanted = wanted.where(query.until > AT)
    with as_they_lie(connection):
        rows = connection.execute(wanted.limit(measured + 1)).all()
        calls = [MeasuredCall(*row) for row in rows[:measured]]
        if len(rows) > measured:
            return Measured(calls, calls[-1].time)
        if count <= walked:
            return Measured(calls, None)
        oldest = select(records.c.time).where(*own, records.c.seq > floor).order_by(records.c.seq).limit(1)
        since = str(connection.execute(oldest).scalar())
    return Measured(calls, since if since > (query.since or "") else None)
