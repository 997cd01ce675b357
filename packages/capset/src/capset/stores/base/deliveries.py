"""The protocol of deliveries: events for channels, queued with the changes that they report (spec 9, N21–N24)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from capset.stores.base.audit import Entry
from capset.stores.base.pages import Page, Query

DeliveryState = Literal["queued", "delivered", "failed"]
"""A delivery is also ``queued`` while it is being sent; a ``failed`` one is not retried automatically."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRow:
    """One event to be delivered to one channel.

    ``key`` identifies an event in its channel: of several deliveries with the same key, the first is kept. ``attempts``
    counts the attempts that were started. A queued delivery may be claimed from ``due_at`` on; while ``holder`` sends
    it, that is the end of its lease. ``error`` is that of the last attempt; ``receipt`` is JSON data that the channel
    needs later. ``ended_at`` is the time at which it was delivered, or failed for good. Times are ISO 8601 UTC with
    microseconds.
    """

    id: str
    channel: str
    key: str
    event: str
    approval: str
    org: str | None
    created_at: str
    due_at: str
    state: DeliveryState = "queued"
    attempts: int = 0
    holder: str = ""
    error: str | None = None
    receipt: str | None = None
    ended_at: str | None = None


@dataclass(frozen=True, slots=True)
class DeliveryQuery(Query):
    """A query for deliveries of one org that match every field that is not ``None``, newest first."""

    org: str | None
    state: DeliveryState | None = None
    channel: str | None = None
    approval: str | None = None


class DeliveryStore(Protocol):
    """The deliveries of every org. They are queued by ``ApprovalStore.open`` and ``ApprovalStore.move``."""

    async def claim(self, channel: str, holder: str, *, now: str, until: str, limit: int) -> Sequence[DeliveryRow]:
        """Lease a channel's due deliveries to ``holder`` until a time, the longest due first, and return them.

        If several holders claim at once, in any processes, each delivery goes to only one. The attempt is counted.
        """
        ...

    async def settle(self, row: DeliveryRow) -> bool:
        """Store the outcome of an attempt, and release the delivery.

        Returns whether ``row.holder`` still held the delivery in that attempt; otherwise nothing is changed.
        """
        ...

    async def find(self, channel: str, key: str) -> DeliveryRow | None:
        """Return a channel's delivery of an event, or ``None``."""
        ...

    async def get(self, org: str | None, id: str) -> DeliveryRow | None:
        """Return a delivery of an org, or ``None``."""
        ...

    async def list(self, query: DeliveryQuery) -> Page[DeliveryRow]:
        """Return deliveries, newest first."""
        ...

    async def retry(self, org: str | None, id: str, *, now: str, act: Entry | None = None) -> bool:
        """Queue a failed delivery of an org again, due now and with no attempts; return whether it had failed."""
        ...

    async def sweep(self, *, before: str) -> None:
        """Delete the deliveries that were created before a time, in any state."""
        ...
