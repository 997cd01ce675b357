"""The deliveries of events to channels."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from capset.stores.base import DeliveryState
from capset.wire.deliveries import DeliveryPageShape, DeliveryShape
from capset_server.client.connection import LARGEST_PAGE, Connection, every, path_of


class DeliveryResource:
    """``client.deliveries``; needs a key with the scope ``capset:audit``, and ``capset:admin`` for ``retry``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def get(self, id: str) -> DeliveryShape:
        """Return a delivery, with its outcome. Raises ``NotFound``."""
        return await self._connection.get(DeliveryShape, path_of("deliveries", id))

    async def list(
        self,
        *,
        state: DeliveryState | None = None,
        channel: str | None = None,
        approval: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> DeliveryPageShape:
        """List the deliveries that match all filters, newest first.

        ``limit`` is 1–200, ``cursor`` the ``next`` of the previous page.
        """
        query = {"state": state, "channel": channel, "approval": approval, "limit": limit, "cursor": cursor}
        return await self._connection.get(DeliveryPageShape, path_of("deliveries"), query)

    def all(
        self, *, state: DeliveryState | None = None, channel: str | None = None, approval: str | None = None
    ) -> AsyncGenerator[DeliveryShape]:
        """Iterate over all matching deliveries, newest first, page by page."""
        return every(
            lambda cursor: self.list(state=state, channel=channel, approval=approval, limit=LARGEST_PAGE, cursor=cursor)
        )

    async def retry(self, id: str) -> DeliveryShape:
        """Requeue a failed delivery. Raises ``NotFound``, and ``Conflict`` if it has not failed."""
        return await self._connection.send(DeliveryShape, "POST", path_of("deliveries", id, "retry"), b"")
