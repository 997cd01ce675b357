"""The protocol of deliveries: events on their way to channels, queued with what they tell of (spec 9, N21–N24)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from capset.stores.base.audit import Entry
from capset.stores.base.pages import Page, Query

DeliveryState = Literal["queued", "delivered", "failed"]
"""``queued`` also while it is being sent; a delivery that failed is not tried again by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRow:
    """One event on its way to one channel.

    ``key`` tells the events of a channel apart: of several deliveries with the same, the first is kept. ``attempts``
    counts those that have begun. A queued delivery may be claimed at ``due_at``; while ``holder`` sends it, that is the
    end of its lease. ``error`` is that of the last attempt; ``receipt`` is JSON data that the channel needs later.
    ``ended_at`` is the time at which it was delivered, or failed for good. Times are ISO 8601 UTC with microseconds.
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
    """A query for deliveries of one org that equal every field that is not ``None``, newest first."""

    org: str | None
    state: DeliveryState | None = None
    channel: str | None = None
    approval: str | None = None


class DeliveryStore(Protocol):
    """The deliveries of every org. They are queued by ``ApprovalStore.open`` and ``ApprovalStore.move``."""

    async def claim(self, channel: str, holder: str, *, now: str, until: str, limit: int) -> Sequence[DeliveryRow]:
        """Take a channel's due deliveries for ``holder`` until a time, the longest due first, and return them.

        Of several holders that claim at once, in any processes, each delivery goes to one. The attempt is counted.
        """
        ...

    async def settle(self, row: DeliveryRow) -> bool:
        """Store the outcome of a claimed delivery's attempt, and let go of it.

        Returns whether ``row.holder`` still held it in that attempt; otherwise nothing is changed.
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
