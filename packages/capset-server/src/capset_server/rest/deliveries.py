"""``/v1/deliveries``: the deliveries of events to channels, including failed ones (spec 9, N27)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from capset.stores.base import DeliveryQuery, DeliveryState
from capset.wire.deliveries import DeliveryPageShape, DeliveryShape, delivery_page_shape, delivery_shape
from capset_server.approvals.deliveries import find_delivery, retry_delivery
from capset_server.auth.callers import Caller
from capset_server.rest.routing import Audits, Id, Paged, Served, StrictRoute, needs, problems

router = APIRouter(prefix="/deliveries", tags=["deliveries"], route_class=StrictRoute)
Administers = Annotated[Caller, Depends(needs("capset:admin"))]


class DeliveryFilter(Paged):
    """Deliveries that match all given filters."""

    state: DeliveryState | None = None
    channel: Annotated[str | None, Query(max_length=64)] = None
    approval: Annotated[str | None, Query(max_length=200)] = None


@router.get("", responses=problems(422), operation_id="list_deliveries")
async def list_deliveries(
    service: Served, caller: Audits, params: Annotated[DeliveryFilter, Query()]
) -> DeliveryPageShape:
    """List the deliveries for the organisation's approval requests, newest first."""
    query = DeliveryQuery(
        caller.principal.org,
        params.state,
        params.channel,
        params.approval,
        limit=params.limit,
        before=params.cursor,
    )
    return await delivery_page_shape(service.kernel.store.deliveries.list, query)


@router.get("/{id}", responses=problems(404, 422), operation_id="get_delivery")
async def get_delivery(service: Served, caller: Audits, id: Id) -> DeliveryShape:
    """Return a delivery, with its state."""
    return delivery_shape(await find_delivery(service.kernel, caller.principal.org, id))


@router.post("/{id}/retry", responses=problems(400, 404, 409, 413, 415, 422), operation_id="retry_delivery")
async def retry(service: Served, caller: Administers, id: Id) -> DeliveryShape:
    """Queue a failed delivery again, due at once."""
    org = caller.principal.org
    return delivery_shape(await retry_delivery(service.kernel, org, id, by=caller.principal))
