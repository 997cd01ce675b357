"""``/v1/deliveries``: the events on their way to channels, and those that did not arrive (spec 9, N27)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from capset.errors import Conflict, NotFound
from capset.kernel.kernel import Kernel
from capset.server.auth.callers import Caller
from capset.server.rest.routing import Audits, Id, Paged, Served, StrictRoute, needs, problems
from capset.stores.base import DeliveryQuery, DeliveryRow, DeliveryState
from capset.wire.deliveries import DeliveryPageShape, DeliveryShape, delivery_page_shape, delivery_shape

router = APIRouter(prefix="/deliveries", tags=["deliveries"], route_class=StrictRoute)
Administers = Annotated[Caller, Depends(needs("capset:admin"))]


class DeliveryFilter(Paged):
    """Only deliveries that fit everything given."""

    state: DeliveryState | None = None
    channel: Annotated[str | None, Query(max_length=64)] = None
    approval: Annotated[str | None, Query(max_length=200)] = None


@router.get("", responses=problems(422), operation_id="list_deliveries")
async def list_deliveries(
    service: Served, caller: Audits, wanted: Annotated[DeliveryFilter, Query()]
) -> DeliveryPageShape:
    """List deliveries of the organisation's requests, newest first."""
    query = DeliveryQuery(
        caller.principal.org,
        wanted.state,
        wanted.channel,
        wanted.approval,
        limit=wanted.limit,
        before=wanted.cursor,
    )
    return await delivery_page_shape(service.kernel.store.deliveries.list, query)


@router.get("/{id}", responses=problems(404, 422), operation_id="get_delivery")
async def get_delivery(service: Served, caller: Audits, id: Id) -> DeliveryShape:
    """Return a delivery, and what became of it."""
    return delivery_shape(await _found(service.kernel, caller, id))


@router.post("/{id}/retry", responses=problems(400, 404, 409, 413, 415, 422), operation_id="retry_delivery")
async def retry_delivery(service: Served, caller: Administers, id: Id) -> DeliveryShape:
    """Queue a delivery that has failed again, due at once."""
    kernel = service.kernel
    row = await _found(kernel, caller, id)
    about = {"id": row.id, "channel": row.channel, "event": row.event, "error": row.error}
    act = kernel.act("delivery.retry", about, by=caller.principal, org=row.org, approval=row.approval)
    if not await kernel.store.deliveries.retry(row.org, row.id, now=kernel.now(), act=act):
        raise Conflict(f"the delivery {id!r} is {row.state}: only one that has failed is tried again")
    kernel.deliveries.queued.set()
    return delivery_shape(await _found(kernel, caller, id))


async def _found(kernel: Kernel, caller: Caller, id: str) -> DeliveryRow:
    row = await kernel.store.deliveries.get(caller.principal.org, id) if id.isprintable() else None
    if row is None:
        raise NotFound(f"there is no delivery {id!r}")
    return row
