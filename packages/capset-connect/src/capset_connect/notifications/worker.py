"""The worker that sends the queued deliveries of a kernel's channels, each independently (spec 9, N22–N24)."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, cast

from capset.clock import iso
from capset.definitions.governance.channels import EventName, NotificationChannel
from capset.errors import CapsetError, StoreError
from capset.kernel.kernel import Kernel
from capset.stores.base import DeliveryRow
from capset_connect.notifications.senders import AT_ONCE, DeliveryError, Notice, Sender, sender_of

ATTEMPTS: Final = 10
"""The maximum number of attempts at a delivery; with the pauses between, they take about a day."""
POLL_SECONDS: Final = 1.0
"""How often a worker looks for deliveries that other processes queued, and for retries that are due."""
SEND_SECONDS: Final = 45.0
"""The time limit of an attempt, in addition to the timeouts of its channel."""
LEASE_SECONDS: Final = 60.0
"""The lease of a worker on a delivery. If its process dies, another takes over after that."""
KEPT: Final = timedelta(days=30)
"""How long deliveries are kept, in any state."""
_TIDY_SECONDS: Final = 60.0
_PAUSES: Final = (5.0, 4.0, 6 * 3600.0)
"""The first pause between attempts in seconds, the factor by which it grows, and the longest pause in seconds."""
_SPREAD: Final = 0.2
_GRACE_SECONDS: Final = 2.0
_log = logging.getLogger("capset.notifications")


class DeliveryWorker:
    """Sends the deliveries of a kernel's channels until ``run`` is cancelled.

    Workers of several processes may share one store: each delivery is leased to one of them. ``page`` returns the URL
    of a request's page, by its id.
    """

    def __init__(self, kernel: Kernel, page: Callable[[str], str] | None = None) -> None:
        self._kernel = kernel
        self._page = page
        self._holder = kernel.new_id()
        store = kernel.store.deliveries
        self._lanes = [
            _Lane(self, channel, sender_of(channel, kernel.secrets, store)) for channel in kernel.deliveries.channels
        ]

    async def run(self) -> None:
        """Send all queued deliveries, and those queued later, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for lane in self._lanes:
                group.create_task(lane.run(), name=f"capset-channel {lane.channel.name}")
            group.create_task(self._tidy(), name="capset-deliveries")
            queued = self._kernel.deliveries.queued
            while True:
                await queued.wait()
                queued.clear()
                for lane in self._lanes:
                    lane.woken.set()

    async def claim(self, channel: str, limit: int) -> list[DeliveryRow]:
        """Claim due deliveries of a channel; none if the store is unavailable."""
        now = self._kernel.clock.time_ns()
        until = iso(now + round(LEASE_SECONDS * 1e9))
        deliveries = self._kernel.store.deliveries
        try:
            return [*await deliveries.claim(channel, self._holder, now=iso(now), until=until, limit=limit)]
        except StoreError as error:
            _log.warning("channel %s: cannot claim deliveries: %s", channel, error.message)
            return []

    async def deliver(self, sender: Sender, row: DeliveryRow) -> None:
        """Make one attempt at a delivery, and store its outcome."""
        settled = await self._attempt(sender, row)
        try:
            is_stored = await self._kernel.store.deliveries.settle(settled)
        except StoreError as error:  # it is sent again when the lease expires
            _log.warning("channel %s: cannot store the outcome of delivery %s: %s", row.channel, row.id, error.message)
            return
        if not is_stored:
            _log.warning("channel %s: delivery %s was taken over by another process", row.channel, row.id)
        elif settled.state == "failed":
            _log.error("channel %s: delivery %s failed: %s", row.channel, row.id, settled.error)
        elif settled.state == "queued":
            _log.warning("channel %s: delivery %s will be tried again: %s", row.channel, row.id, settled.error)

    async def _attempt(self, sender: Sender, row: DeliveryRow) -> DeliveryRow:
        try:
            request = await self._kernel.approvals.find(row.approval, row.org)
            if request is None:
                raise DeliveryError("the request was deleted with its session", is_final=True)
            page = None if self._page is None else self._page(request.id)
            notice = Notice(row, cast("EventName", row.event), request, page)
            async with asyncio.timeout(SEND_SECONDS):
                receipt = await sender.send(notice)
        except DeliveryError as error:
            failed = replace(row, receipt=error.receipt or row.receipt)
            return self._postponed(failed, str(error), error.retry_after, is_final=error.is_final)
        except TimeoutError:
            return self._postponed(row, f"the receiver did not answer within {SEND_SECONDS:g} s")
        except CapsetError as error:
            return self._postponed(row, error.message)
        except Exception as error:
            _log.exception("channel %s: an attempt at delivery %s failed unexpectedly", row.channel, row.id)
            return self._postponed(row, f"something went wrong ({type(error).__name__}); the log has the details")
        return replace(row, state="delivered", error=None, receipt=receipt or row.receipt, ended_at=self._kernel.now())

    def _postponed(
        self, row: DeliveryRow, error: str, retry_after: float | None = None, *, is_final: bool = False
    ) -> DeliveryRow:
        now = self._kernel.clock.time_ns()
        if is_final or row.attempts >= ATTEMPTS:
            return replace(row, state="failed", error=error[:1_000], ended_at=iso(now))
        wait = max(pause_after(row.attempts), retry_after or 0.0)
        return replace(row, error=error[:1_000], due_at=iso(now + round(wait * 1e9)))

    async def _tidy(self) -> None:
        """Expire overdue requests, which notifies their channels, and delete old deliveries."""
        while True:
            try:
                await self._kernel.approvals.sweep()
                before = datetime.fromisoformat(self._kernel.now()) - KEPT
                await self._kernel.store.deliveries.sweep(before=iso(round(before.timestamp() * 1e6) * 1_000))
            except StoreError as error:
                _log.warning("cannot expire overdue requests, will try again: %s", error.message)
            await asyncio.sleep(_TIDY_SECONDS)


class _Lane:
    """The deliveries of one channel, a few at once, so that a stalled one delays no other delivery or channel."""

    def __init__(self, worker: DeliveryWorker, channel: NotificationChannel, sender: Sender) -> None:
        self.channel = channel
        self.woken = asyncio.Event()
        self._worker = worker
        self._sender = sender

    async def run(self) -> None:
        running: set[asyncio.Task[None]] = set()
        try:
            while True:
                self.woken.clear()
                if (free := AT_ONCE - len(running)) > 0:
                    for row in await self._worker.claim(self.channel.name, free):
                        running.add(asyncio.create_task(self._worker.deliver(self._sender, row)))
                await self._rest(running)
                running = {task for task in running if not task.done()}
        finally:
            if running:
                await asyncio.wait(running, timeout=_GRACE_SECONDS)
            for task in running:
                task.cancel()

    async def _rest(self, running: set[asyncio.Task[None]]) -> None:
        """Wait until a delivery was queued or sent, at most for the polling interval."""
        waking = asyncio.create_task(self.woken.wait())
        try:
            await asyncio.wait({waking, *running}, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waking.cancel()


def pause_after(attempts: int) -> float:
    """Return the seconds until the next attempt: exponential backoff with jitter."""
    first, factor, longest = _PAUSES
    return min(first * factor ** (attempts - 1), longest) * random.uniform(1 - _SPREAD, 1 + _SPREAD)  # noqa: S311
