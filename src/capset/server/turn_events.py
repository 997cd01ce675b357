"""What is told of a session's turns, as it comes: kept first, then told (spec 5, P10).

Whoever follows reads from the store, at the pace of their own, so that nobody who is slow holds up a turn. A bell tells
at once of what this process has kept; what another one has is found by looking once a second.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from capset.errors import Interrupted, StateError
from capset.kernel.kernel import Kernel
from capset.stores.base import EventRow, NewEvent
from capset.wire.turns import ENDINGS, failed_event

LOOK_SECONDS: Final = 1.0
"""How long it takes at most until what another process has kept is seen here."""
PAGE: Final = 100
"""How many events are read at once: each may be as long as a result."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The events after the number ``after``, up to ``last``, are not kept any more, or never were."""

    after: int
    last: int


class Notifier:
    """Wakes those who follow a session, when something of it was kept."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self.is_closed = False

    def ring(self, session: str) -> None:
        """Wake whoever follows a session."""
        for one in self._waiting.get(session, ()):
            one.set()

    def close(self) -> None:
        """Wake everybody, to leave: the server ends."""
        self.is_closed = True
        for session in self._waiting:
            self.ring(session)

    @contextmanager
    def heard(self, session: str) -> Generator[asyncio.Event]:
        """Give what is set each time that the bell rings."""
        rung = asyncio.Event()
        self._waiting[session].add(rung)
        try:
            yield rung
        finally:
            self._waiting[session].discard(rung)
            if not self._waiting[session]:
                del self._waiting[session]


async def follow(
    kernel: Kernel,
    bell: Notifier,
    session: str,
    after: int,
    *,
    turn: str | None = None,
    waits: bool = True,
    may: Callable[[], Awaitable[bool]] | None = None,
) -> AsyncGenerator[EventRow | Gap]:
    """Give the events of a session after a number, and then those that come; or of one ``turn``, up to its end.

    Without ``waits`` it ends after those that there are. It ends when the session is deleted, or the server ends, and
    once ``may``, which is asked before every look, says that its caller may not read any more.
    """
    events = kernel.store.events
    with bell.heard(session) as rung:
        while True:
            rung.clear()
            if may is not None and not await may():
                return
            try:
                page = await events.read(session, after=after, limit=PAGE)
            except StateError:
                return
            if after > page.last:  # of a store that was put back to an earlier time
                yield Gap(after, page.last)
                after = page.last
            for row in page.items:
                if row.seq > after + 1:
                    yield Gap(after, row.seq - 1)
                after = row.seq
                if turn is None or row.turn == turn:
                    yield row
                if row.turn == turn and row.type in ENDINGS:
                    return
            if after < page.last:
                continue
            if turn is not None and (page.running is None or page.running.turn != turn):
                return  # its last event is not kept any more
            if page.running is not None and page.running.until <= kernel.now():
                await events.interrupt(session, now=kernel.now(), interrupted=interrupted())
                continue
            if not waits or bell.is_closed:
                return
            await _next_look(rung)


async def _next_look(rung: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            await rung.wait()
    except TimeoutError:
        pass  # somebody else may have kept something


def interrupted() -> NewEvent:
    """Return how a turn ends whose process has died."""
    return failed_event(Interrupted("The turn was interrupted: the process that ran it has ended"))
