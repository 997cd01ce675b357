"""The worker that sends what is queued for the channels of a kernel, each on its own (spec 9, N22–N24)."""

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
"""How often a delivery is tried; with the pauses between, that takes about a day."""
POLL_SECONDS: Final = 1.0
"""How often a worker looks for what other processes have queued, and for what is due again."""
SEND_SECONDS: Final = 45.0
"""How long an attempt may take, beside the timeouts of its channel."""
LEASE_SECONDS: Final = 60.0
"""How long a worker holds a delivery: if its process dies, another takes over after that."""
KEPT: Final = timedelta(days=30)
"""How long deliveries are kept, in any state."""
_TIDY_SECONDS: Final = 60.0
_PAUSES: Final = (5.0, 4.0, 6 * 3600.0)
"""The first pause between two attempts in seconds, the factor from one to the next, and the longest."""
_SPREAD: Final = 0.2
_GRACE_SECONDS: Final = 2.0
_log = logging.getLogger("capset.notifications")


class DeliveryWorker:
    """Sends the deliveries of a kernel's channels until ``run`` is cancelled.

    Several workers, of several processes, may run on one store: each delivery is held by one of them. ``page`` returns
    the address of the page of a request, by its id.
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
        """Send what is queued, and what comes to be queued."""
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
        """Take due deliveries of a channel, none if the store cannot be used now."""
        now = self._kernel.clock.time_ns()
        until = iso(now + round(LEASE_SECONDS * 1e9))
        deliveries = self._kernel.store.deliveries
        try:
            return [*await deliveries.claim(channel, self._holder, now=iso(now), until=until, limit=limit)]
        except StoreError as error:
            _log.warning("channel %s: nothing can be claimed: %s", channel, error.message)
            return []

    async def deliver(self, sender: Sender, row: DeliveryRow) -> None:
        """Make one attempt at a delivery, and store its outcome."""
        settled = await self._attempt(sender, row)
        try:
            is_stored = await self._kernel.store.deliveries.settle(settled)
        except StoreError as error:  # it is sent again when the lease has ended
            _log.warning("channel %s: the outcome of delivery %s is not stored: %s", row.channel, row.id, error.message)
            return
        if not is_stored:
            _log.warning("channel %s: delivery %s was taken over by another process", row.channel, row.id)
        elif settled.state == "failed":
            _log.error("channel %s: delivery %s failed: %s", row.channel, row.id, settled.error)
        elif settled.state == "queued":
            _log.warning("channel %s: delivery %s is tried again: %s", row.channel, row.id, settled.error)

    async def _attempt(self, sender: Sender, row: DeliveryRow) -> DeliveryRow:
        try:
            request = await self._kernel.approvals.find(row.approval, row.org)
            if request is None:
                raise DeliveryError("the request is gone, with its session", is_final=True)
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
        """End overdue requests, whose channels are told, and delete old deliveries."""
        while True:
            try:
                await self._kernel.approvals.sweep()
                before = datetime.fromisoformat(self._kernel.now()) - KEPT
                await self._kernel.store.deliveries.sweep(before=iso(round(before.timestamp() * 1e6) * 1_000))
            except StoreError as error:
                _log.warning("overdue requests are looked for again: %s", error.message)
            await asyncio.sleep(_TIDY_SECONDS)


class _Lane:
    """The deliveries of one channel, a few at once, so that one that stalls holds up neither others nor channels."""

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
        """Wait until something was queued or sent, or for the time between two looks."""
        waking = asyncio.create_task(self.woken.wait())
        try:
            await asyncio.wait({waking, *running}, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waking.cancel()


def pause_after(attempts: int) -> float:
    """Return the seconds until the next attempt: more each time, and not the same for all that failed at once."""
    first, factor, longest = _PAUSES
    return min(first * factor ** (attempts - 1), longest) * random.uniform(1 - _SPREAD, 1 + _SPREAD)  # noqa: S311
