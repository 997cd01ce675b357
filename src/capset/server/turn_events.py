"""Events of a session's turns, as they come: stored first, then delivered (spec 5, P10).

Each follower reads from the store at its own pace, so that a slow one does not hold up a turn. A notifier reports at
once what this process has stored; events of other processes are found by polling once a second.
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
"""The maximum delay before events stored by another process are seen here."""
PAGE: Final = 100
"""The number of events read at once: each may be as long as a result."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A gap: the events after the number ``after``, up to ``last``, are no longer stored, or never were."""

    after: int
    last: int


class Notifier:
    """Notifier of a session's followers: wakes them when one of its events was stored."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self.is_closed = False

    def ring(self, session: str) -> None:
        """Wake the followers of a session."""
        for one in self._waiting.get(session, ()):
            one.set()

    def close(self) -> None:
        """Wake all followers so that they leave: the server is shutting down."""
        self.is_closed = True
        for session in self._waiting:
            self.ring(session)

    @contextmanager
    def heard(self, session: str) -> Generator[asyncio.Event]:
        """Yield an event that is set at each notification of a session."""
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
    """Yield the events of a session after a number, then new ones as they come; or of one ``turn``, up to its end.

    Without ``waits``, it ends after the existing events. It ends when the session is deleted, the server shuts down, or
    ``may``, which is awaited before every read, returns that the caller may no longer read.
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
            if after > page.last:  # the store was restored to an earlier time
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
                return  # its last event is no longer stored
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
        pass  # another process may have stored something


def interrupted() -> NewEvent:
    """Return the last event of a turn whose process has died."""
    return failed_event(Interrupted("The turn was interrupted: the process that ran it has ended"))
