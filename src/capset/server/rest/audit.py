"""``/v1/audit``: the records of the caller's organisation (spec 5, P12)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from capset.definitions.records import Outcome
from capset.server.rest.parts import Asked, Audits, Served, StrictRoute, problems
from capset.stores.base import AuditQuery
from capset.wire.audit import RecordPageShape, record_page_shape

router = APIRouter(prefix="/audit", tags=["audit"], route_class=StrictRoute)
_Text = Annotated[str | None, Query(max_length=200)]


class AuditFilter(Asked):
    """Only records that fit everything given; ``limit`` 1–200, ``cursor`` as the page before gave it."""

    id: _Text = None
    tool: _Text = None
    outcome: Outcome | None = None
    principal: _Text = None
    session: _Text = None
    correlation: _Text = None
    limit: Annotated[int, Query(ge=1, le=200)] = 50
    cursor: Annotated[str | None, Query(pattern="^[1-9][0-9]{0,17}$")] = None


@router.get("", responses=problems(422), operation_id="list_records")
async def list_records(service: Served, caller: Audits, wanted: Annotated[AuditFilter, Query()]) -> RecordPageShape:
    """List how calls ended, newest first: those of the organisation, whoever made them."""
    query = AuditQuery(
        wanted.id,
        wanted.tool,
        wanted.outcome,
        wanted.principal,
        wanted.session,
        wanted.correlation,
        wanted.limit,
        int(wanted.cursor) if wanted.cursor else None,
        caller.principal.org or "",
    )
    audit = service.kernel.audit
    await audit.flush()  # what a client was told has happened is there to be read
    return record_page_shape(await audit.query(query))
