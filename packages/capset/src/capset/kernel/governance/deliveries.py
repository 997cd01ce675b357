"""Deliveries to channels, made for events of requests; the store queues them with these (spec 9, N20–N24)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from capset.clock import Clock, iso
from capset.definitions.governance.approvals import ApprovalRow
from capset.definitions.governance.channels import ENDINGS, EventName, NotificationChannel
from capset.errors import DefinitionError
from capset.ids import Ids
from capset.stores.base import DeliveryRow


class Deliveries:
    """The channels of one kernel, and the deliveries that its events make for them. Senders wait for ``queued``."""

    def __init__(self, channels: Iterable[NotificationChannel], ids: Ids, clock: Clock) -> None:
        self.channels = tuple(channels)
        self.queued = asyncio.Event()
        """Set when something was queued here; other processes queue without a sign."""
        self._ids = ids
        self._clock = clock

    def for_event(self, event: EventName, request: ApprovalRow, occurrence: str = "") -> Sequence[DeliveryRow]:
        """Return the deliveries of an event, one for each channel that tells of it.

        ``occurrence`` tells events of one name apart that may happen to a request more than once.
        """
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
            if channel.tells_of(event, request)
            for now in [iso(self._clock.time_ns())]
        ]

    def for_ending(self, request: ApprovalRow) -> Sequence[DeliveryRow]:
        """Return the deliveries of the event that an open request takes on its new status."""
        event = ENDINGS.get(request.status)
        return () if event is None else self.for_event(event, request)

    def wake(self, deliveries: Sequence[DeliveryRow]) -> None:
        """Wake the senders of this process, if deliveries were queued."""
        if deliveries:
            self.queued.set()


def delivery_key(event: EventName, request: str, occurrence: str = "") -> str:
    """Return the key of an event: a channel has one delivery for each."""
    return " ".join(part for part in (event, request, occurrence) if part)


def checked_channels(channels: Iterable[NotificationChannel]) -> tuple[NotificationChannel, ...]:
    """Return channels. Raises ``DefinitionError`` for two of one name, and for anything else."""
    all_channels = tuple(channels)
    names: set[str] = set()
    for channel in all_channels:
        if not isinstance(channel, NotificationChannel):  # pyright: ignore[reportUnnecessaryIsInstance]  # hosts hand on what they have
            raise DefinitionError(f"channels must be channels, such as Webhook(…); got {channel!r:.80}")
        if channel.name in names:
            raise DefinitionError(f"there are two channels {channel.name!r}", hint="give each a name of its own")
        names.add(channel.name)
    return all_channels
