"""Deliveries to channels for events of requests; the store queues them together with these (spec 9, N20–N24)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from capset.clock import Clock, iso
from capset.definitions.governance.approvals import ApprovalRow
from capset.definitions.governance.channels import EVENT_BY_STATUS, EventName, NotificationChannel
from capset.errors import DefinitionError
from capset.ids import Ids
from capset.kernel.governance.approval_needs import needed_connection
from capset.stores.base import DeliveryRow


class Deliveries:
    """The channels of one kernel, and the deliveries to them that events cause. Senders wait for ``queued``."""

    def __init__(self, channels: Iterable[NotificationChannel], ids: Ids, clock: Clock) -> None:
        self.channels = tuple(channels)
        self.queued = asyncio.Event()
        """Set when this process has queued something; other processes send no such signal."""
        self._ids = ids
        self._clock = clock

    def for_event(self, event: EventName, request: ApprovalRow, occurrence: str = "") -> Sequence[DeliveryRow]:
        """Return the deliveries of an event, one for each channel that announces it.

        ``occurrence`` distinguishes events of one name that may happen to a request more than once. A request that
        waits for its user to connect something is not announced: no approver can decide it.
        """
        if needed_connection(request) is not None:
            return ()
        now = iso(self._clock.time_ns())
        return [
            DeliveryRow(
                id=self._ids.new(),
                channel=channel.name,
                key=delivery_key(event, request.id, occurrence),
                event=event,
                approval=request.id,
                org=request.org,
                created_at=now,
                due_at=now,
            )
            for channel in self.channels
            if channel.reports(event, request)
        ]

    def for_ending(self, request: ApprovalRow) -> Sequence[DeliveryRow]:
        """Return the deliveries for the new status of a request that was open."""
        event = EVENT_BY_STATUS.get(request.status)
        return () if event is None else self.for_event(event, request)

    def wake(self, deliveries: Sequence[DeliveryRow]) -> None:
        """Wake the senders of this process, if deliveries were queued."""
        if deliveries:
            self.queued.set()


def delivery_key(event: EventName, request: str, occurrence: str = "") -> str:
    """Return the key of an event; a channel has one delivery per key."""
    return " ".join(part for part in (event, request, occurrence) if part)


def checked_channels(channels: Iterable[NotificationChannel]) -> tuple[NotificationChannel, ...]:
    """Return channels as a tuple. Raises ``DefinitionError`` for two of one name, and for anything but a channel."""
    all_channels = tuple(channels)
    names: set[str] = set()
    for channel in all_channels:
        if not isinstance(channel, NotificationChannel):  # pyright: ignore[reportUnnecessaryIsInstance]  # hosts hand on what they have
            raise DefinitionError(f"channels must be channels, such as Webhook(…); got {channel!r:.80}")
        if channel.name in names:
            raise DefinitionError(f"there are two channels {channel.name!r}", hint="give each channel its own name")
        names.add(channel.name)
    return all_channels
