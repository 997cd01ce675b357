"""``/v1/usage``: limits and budgets with their current usage (spec 5, P51), and what models used (spec 6, R28)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query

from capset.clock import iso_of
from capset.definitions.governance.allowances import MAX_LIMITS, Allowance, allowance_of
from capset.definitions.principals import Principal
from capset.errors import InvalidArguments
from capset.kernel.governance.consumption import Consumption, principal_consumption
from capset.stores.base import KeyQuery, UsageQuery
from capset.stores.base.usage import HOUR
from capset.wire.model_usage import ModelUsageShape, model_usage_shape
from capset.wire.operations import UsageShape, consumption_shape
from capset.wire.shapes import Moment
from capset_server.auth.callers import Caller
from capset_server.auth.issuance import check_org
from capset_server.auth.keys import is_valid
from capset_server.rest.audit import shifted
from capset_server.rest.routing import Asked, Audits, Known, Served, StrictRoute, problems
from capset_server.service import Service

router = APIRouter(prefix="/usage", tags=["usage"], route_class=StrictRoute)
KEYS_READ: Final = 200
"""The number of a principal's newest keys whose limits are read."""
_Text = Annotated[str | None, Query(min_length=1, max_length=200)]


class UsageFilter(Asked):
    """The caller by default, or one of its sessions, or another principal of its organisation, by id and kind."""

    session: _Text = None
    principal: _Text = None
    kind: Literal["user", "agent", "org"] = "user"
    org: _Text = None


@router.get("", responses=problems(404, 422), operation_id="get_usage")
async def get_usage(service: Served, caller: Known, query: Annotated[UsageFilter, Query()]) -> UsageShape:
    """Return the current usage of everything that is limited.

    For the caller, these are its own limits and those of the server. For one of its sessions, they include the limits
    of the agent and of the tools in play, and the session's budget; this requires the scope ``capset:call``. For
    another principal, they are the limits of its valid keys; this requires ``capset:admin`` or ``capset:audit``. A
    caller of no organisation may name one. Unlimited usage is not counted: ``GET /v1/audit/summary`` counts calls.
    """
    if query.session is not None:
        if query.principal is not None or query.org is not None:
            raise InvalidArguments("Invalid request: name a session or a principal, not both")
        caller.check("capset:call")
        session = await service.session(caller, query.session)
        return _shape(service, caller.principal, await session.consumption(), query.session)
    principal = caller.principal
    if query.principal is not None:
        principal = await _other(service, caller, query.principal, query)
    elif query.org is not None:
        raise InvalidArguments("Invalid request: name a principal of that organisation")
    kernel = service.kernel
    consumptions = await principal_consumption(kernel.store, kernel.clock, principal, kernel.governance.allowance)
    return _shape(service, principal, consumptions)


class ModelUsageFilter(Asked):
    """A time, by default the last day, in whole hours, and optionally one agent, or one principal by its id."""

    since: Moment = None
    until: Moment = None
    agent: _Text = None
    principal: Annotated[_Text, Query(description="Its id alone: `ada`, not `user:ada`")] = None


@router.get("/models", responses=problems(422), operation_id="get_model_usage")
async def get_model_usage(
    service: Served, caller: Audits, query: Annotated[ModelUsageFilter, Query()]
) -> ModelUsageShape:
    """Return the tokens and the cost of the models of the organisation's agents, by time, agent and principal.

    It is counted by the hour, and retained for 400 days. The cost is an estimate from the prices of known models.
    """
    until = query.until or datetime.fromisoformat(service.kernel.now())
    since = query.since or shifted(until, -timedelta(days=1))
    if since >= until:
        raise InvalidArguments("Invalid request: until must be after since")
    last = iso_of(until if query.until is None else shifted(until, -timedelta(microseconds=1)))[:HOUR]
    end = iso_of(shifted(datetime.fromisoformat(f"{last}:00+00:00"), timedelta(hours=1)))[:HOUR]
    usage_query = UsageQuery(caller.principal.org, iso_of(since)[:HOUR], end, query.agent, query.principal)
    return model_usage_shape(await service.kernel.store.usage.totals(usage_query), usage_query)


async def _other(service: Service, caller: Caller, id: str, query: UsageFilter) -> Principal:
    """Return another principal with the distinct limits of its newest valid keys, at most ``MAX_LIMITS`` of a kind."""
    caller.check("capset:admin", "capset:audit")
    check_org(caller, query.org)
    org = caller.principal.org or query.org
    now = service.kernel.now()
    page = await service.kernel.store.keys.page(KeyQuery(org or "", principal=id, limit=KEYS_READ))
    stated = [
        allowance_of(row.allowance)
        for row in page.items
        if row.allowance is not None and row.principal_kind == query.kind and is_valid(row, now)
    ]
    limits = dict.fromkeys(limit for key_allowance in stated for limit in key_allowance.limits)
    usage = dict.fromkeys(limit for key_allowance in stated for limit in key_allowance.usage)
    allowance = Allowance(limits=[*limits][:MAX_LIMITS], usage=[*usage][:MAX_LIMITS])
    return Principal(id, kind=query.kind, org=org, allowance=allowance)


def _shape(
    service: Service, principal: Principal, consumptions: Sequence[Consumption], session: str | None = None
) -> UsageShape:
    return UsageShape(
        principal=principal.id,
        kind=principal.kind,
        org=principal.org,
        session=session,
        at=service.kernel.now(),
        items=[consumption_shape(consumption) for consumption in consumptions],
    )
