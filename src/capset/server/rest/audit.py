"""``/v1/audit``: the records of the caller's organisation (spec 5, P12)."""

from __future__ import annotations

import re
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, BeforeValidator

from capset.clock import iso_of
from capset.definitions.acts import ActName
from capset.definitions.records import Outcome
from capset.kernel.governance.acts import ActEntry
from capset.server.auth.callers import Caller
from capset.server.rest.routing import Asked, Audits, Served, StrictRoute, problems
from capset.server.service import Service
from capset.stores.base import AuditQuery
from capset.stores.base.audit import FILTERS, Kind
from capset.wire.audit import RecordPageShape, record_page_shape

router = APIRouter(prefix="/audit", tags=["audit"], route_class=StrictRoute)
_Text = Annotated[str | None, Query(max_length=200)]
_WRITTEN: Final = re.compile(r"\d{4}-\d{2}-\d{2}T", re.ASCII)


def _written(value: object) -> object:
    """Return a time as it came; refuse the numbers that pydantic would take for seconds since 1970."""
    if isinstance(value, str) and not _WRITTEN.match(value):
        raise ValueError("a time is written like 2026-01-31T00:00:00Z (RFC 3339)")
    return value


_Moment = Annotated[AwareDatetime | None, BeforeValidator(_written)]


class AuditFilter(Asked):
    """Only records that fit everything given; ``limit`` 1–200, ``cursor`` as the page before gave it."""

    id: _Text = None
    tool: _Text = None
    outcome: Outcome | None = None
    principal: Annotated[_Text, Query(description="Its id alone: `ada`, not `user:ada`")] = None
    session: _Text = None
    correlation: _Text = None
    agent: _Text = None
    approval: _Text = None
    code: _Text = None
    act: ActName | None = None
    kind: Kind | None = None
    since: _Moment = None
    until: _Moment = None
    limit: Annotated[int, Query(ge=1, le=200)] = 50
    cursor: Annotated[str | None, Query(pattern="^[1-9][0-9]{0,17}$")] = None


@router.get("", responses=problems(422), operation_id="list_records")
async def list_records(service: Served, caller: Audits, wanted: Annotated[AuditFilter, Query()]) -> RecordPageShape:
    """List how calls ended, newest first: those of all principals of the organisation.

    With ``kind=act`` or the name of an ``act``, what was administered; with ``kind=all``, both. Each request leaves an
    act ``log.read``.
    """
    query = AuditQuery(
        **{name: getattr(wanted, name) for name in FILTERS},
        limit=wanted.limit,
        before=int(wanted.cursor) if wanted.cursor else None,
        org=caller.principal.org or "",
        kind=wanted.kind,
        since=wanted.since and iso_of(wanted.since),
        until=wanted.until and iso_of(wanted.until),
    )
    audit = service.kernel.audit
    await audit.flush()  # a call already reported to a client must be readable
    page = await record_page_shape(audit, query)
    await audit.commit(_read_act(service, caller, wanted))
    return page


def _read_act(service: Service, caller: Caller, wanted: AuditFilter) -> ActEntry:
    """Return the entry of one request for records; if it cannot be written, none are shown."""
    about = {"by": "query", **wanted.model_dump(mode="json", exclude_none=True)}
    return service.kernel.act("log.read", about, by=caller.principal, org=caller.principal.org)
