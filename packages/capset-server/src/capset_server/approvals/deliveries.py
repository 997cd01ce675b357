"""Lookup and retry of an organisation's deliveries, for administrators (spec 9, N27). Needs no extra."""

from __future__ import annotations

from capset.definitions.principals import Principal
from capset.errors import Conflict, NotFound
from capset.kernel.kernel import Kernel
from capset.stores.base import DeliveryRow


async def find_delivery(kernel: Kernel, org: str | None, id: str) -> DeliveryRow:
    """Return a delivery of an organisation. Raises ``NotFound``."""
    row = await kernel.store.deliveries.get(org, id) if id.isprintable() else None
    if row is None:
        raise NotFound(f"there is no delivery {id!r}")
    return row


async def retry_delivery(kernel: Kernel, org: str | None, id: str, *, by: Principal | None = None) -> DeliveryRow:
    """Requeue a failed delivery, due at once. Raises ``NotFound``, and ``Conflict`` if it has not failed."""
    row = await find_delivery(kernel, org, id)
    about = {"id": row.id, "channel": row.channel, "event": row.event, "error": row.error}
    act = kernel.act("delivery.retry", about, by=by, org=org, approval=row.approval)
    if not await kernel.store.deliveries.retry(org, id, now=kernel.now(), act=act):
        raise Conflict(f"the delivery {id!r} is {row.state}: only a failed delivery can be retried")
    kernel.deliveries.queued.set()
    return await find_delivery(kernel, org, id)
