"""The deliveries of events to channels, in a local database."""

from __future__ import annotations

from capset.kernel.kernel import Kernel
from capset.stores.base import DeliveryQuery, DeliveryState
from capset.wire.deliveries import DeliveryPageShape, DeliveryShape, delivery_page_shape, delivery_shape
from capset_server.approvals.deliveries import retry_delivery


class LocalDeliveries:
    """The methods of ``client.deliveries``."""

    def __init__(self, kernel: Kernel, org: str | None) -> None:
        self._kernel, self._org = kernel, org

    async def list(
        self,
        *,
        state: DeliveryState | None = None,
        channel: str | None = None,
        approval: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> DeliveryPageShape:
        """List the deliveries that match all filters, newest first."""
        query = DeliveryQuery(self._org, state, channel, approval, limit=limit, before=cursor)
        return await delivery_page_shape(self._kernel.store.deliveries.list, query)

    async def retry(self, id: str) -> DeliveryShape:
        """Requeue a failed delivery. A server that has its channel sends it."""
        return delivery_shape(await retry_delivery(self._kernel, self._org, id))
