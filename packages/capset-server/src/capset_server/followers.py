"""Followers of sessions' events: woken by new events of any server, and limited in number (spec 5, P40, P41)."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar

from capset.definitions.principals import Principal
from capset.errors import CapsetError, StateError
from capset.kernel.kernel import Kernel
from capset.stores.base import ChangeKind, ChangeNotice, EventRow, EventStore, KeyStore, RunRow, Store, TurnRow
from capset_agents.execution import interrupted_event
from capset_server.auth.callers import Caller, Callers
from capset_server.http.request_rules import HttpRefusal

LOOK_SECONDS: Final = 1.0
"""The maximum delay until events of another process are noticed, if the store sends no notifications."""
NET_SECONDS: Final = 30.0
"""The same if it does, for the case that a notification is lost."""
CHECK_SECONDS: Final = 5.0
"""How often to check whether idle followers may still read."""
REVOKED_SECONDS: Final = 0.5
"""How often to check for revoked keys, with one query for all followers."""
PAGE: Final = 16
"""The number of events read at once; few, since each may be as large as a result."""
_K = TypeVar("_K")
_log = logging.getLogger("capset.server")


@dataclass(frozen=True, slots=True)
class Gap:
    """A gap: the events after number ``after``, up to ``last``, are no longer stored, or never were."""

    after: int
    last: int


@dataclass(frozen=True, slots=True)
class FollowerCredential:
    """The credential of a follower: its caller, and the ``Authorization`` header of its request."""

    callers: Callers
    caller: Caller
    authorization: str

    async def is_valid(self, *, bypass_cache: bool = False) -> bool:
        """Return whether the credential is still valid; ``bypass_cache`` asks the store instead of the cache."""
        return await self.callers.knows(self.caller, self.authorization, bypass_cache=bypass_cache)


class Bell(asyncio.Event):
    """The event that wakes one follower."""

    at = -1
    """The number of the last event that the follower has."""


class Notifier:
    """Wakes the followers of a session when an event of it is stored."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[Bell]] = defaultdict(set)
        self._credentials: defaultdict[FollowerCredential, set[Bell]] = defaultdict(set)
        self.closed: Final = asyncio.Event()
        """Set once the server is shutting down."""
        self.is_watching = False
        """Whether one task watches for changes by other processes; otherwise each follower polls."""
        self._heard: defaultdict[ChangeKind, list[Callable[[str | None], None]]] = defaultdict(list)
        self._has_revoked = asyncio.Event()
        self.on("key", lambda _: self._has_revoked.set())

    def ring(self, session: str | None) -> None:
        """Wake the followers of a session; ``None`` wakes all."""
        for followed in [*self._waiting] if session is None else [session]:
            for bell in self._waiting.get(followed, ()):
                bell.set()

    def on(self, kind: ChangeKind, hear: Callable[[str | None], None]) -> None:
        """Call ``hear`` with the id of each change of a kind by another process, ``None`` if some may be missed."""
        self._heard[kind].append(hear)

    def hear(self, notice: ChangeNotice | None) -> None:
        """Pass on a notice from another process; ``None`` means that some may have been missed."""
        if notice is None:
            self.ring(None)
            for hear in [hear for several in self._heard.values() for hear in several]:
                hear(None)
        elif notice.kind == "events":
            self.ring(notice.id)
        else:
            for hear in self._heard[notice.kind]:
                hear(notice.id)

    def close(self) -> None:
        """Wake all followers so that they end: the server is shutting down."""
        self.closed.set()
        self.ring(None)

    @contextmanager
    def heard(self, session: str, credential: FollowerCredential | None = None) -> Generator[Bell]:
        """Yield an event that is set at each notification of a session, and when the credential becomes invalid."""
        rung = Bell()
        self._waiting[session].add(rung)
        if credential is not None:
            self._credentials[credential].add(rung)
        try:
            yield rung
        finally:
            _discard(self._waiting, session, rung)
            if credential is not None:
                _discard(self._credentials, credential, rung)

    @asynccontextmanager
    async def watching(self, store: Store) -> AsyncGenerator[None]:
        """Watch for changes by other processes while inside, once for all followers."""
        events = store.events
        async with store.changes.subscribe(self.hear) as arrives:
            loop = asyncio.get_running_loop()
            tasks = [loop.create_task(self._look(events, arrives)), loop.create_task(self._check())]
            tasks.append(loop.create_task(self._look_for_revoked(store.keys)))
            self.is_watching = True
            try:
                yield
            finally:
                self.is_watching = False
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)

    async def _look(self, events: EventStore, arrives: Callable[[], bool]) -> None:
        loop = asyncio.get_running_loop()
        looked = loop.time()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not self._waiting or (arrives() and loop.time() < looked + NET_SECONDS):
                continue
            sessions, looked = [*self._waiting], loop.time()
            try:
                latest = await events.latest(sessions)
            except CapsetError as error:
                _log.warning("cannot check which sessions have new events: %s", error.message)
                continue
            # Wake only those that lack an event: thousands of reads at once would delay everything else.
            for session in sessions:
                for bell in self._waiting.get(session, ()):
                    if bell.at != latest.get(session):
                        bell.set()

    async def _check(self) -> None:
        """Wake the followers whose credentials are no longer valid."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for credential in [*self._credentials]:
                try:
                    is_valid = await credential.is_valid()
                except CapsetError as error:
                    _log.warning("cannot check whether followers may still read: %s", error.message)
                    break
                if not is_valid:
                    self._wake(credential)

    async def _look_for_revoked(self, keys: KeyStore) -> None:
        """Wake the followers whose keys any process has revoked; at once if a notice of that arrives."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(REVOKED_SECONDS):
                    await self._has_revoked.wait()
            self._has_revoked.clear()
            digests = {
                credential: credential.caller.digest
                for credential in self._credentials
                if credential.caller.digest is not None
            }
            if not digests:
                continue
            try:
                revoked = await keys.revoked({*digests.values()})
                for credential in [follower for follower, digest in digests.items() if digest in revoked]:
                    if not await credential.is_valid(bypass_cache=True):
                        self._wake(credential)
            except CapsetError:
                continue  # the store is unavailable; `_check` logs that

    def _wake(self, credential: FollowerCredential) -> None:
        for bell in self._credentials.get(credential, ()):
            bell.set()


def _discard(events: defaultdict[_K, set[Bell]], key: _K, event: Bell) -> None:
    events[key].discard(event)
    if not events[key]:
        del events[key]


class FollowerLimit:
    """The limit on the event streams that each principal may have open on this server."""

    def __init__(self, limit: int) -> None:
        self._most = limit
        self._open: Counter[tuple[str | None, str, str]] = Counter()

    @property
    def count(self) -> int:
        """The number of all open streams."""
        return self._open.total()

    def join(self, principal: Principal, *, instead: str = "read with follow=false") -> Callable[[], None]:
        """Count one more stream of a principal, and return a function that releases it.

        Raises ``HttpRefusal`` (429) if the principal has reached the limit; ``instead`` says what it can do then.
        """
        key = (principal.org, principal.kind, principal.id)
        if self._open[key] >= self._most:
            raise HttpRefusal(
                429,
                "too_many_followers",
                f"The limit 'followers' allows a principal {self._most} open streams of events: "
                f"close one, or {instead}",
                retryable=True,
            )
        self._open[key] += 1
        has_left = False

        def leave() -> None:
            nonlocal has_left
            if not has_left:
                has_left = True
                self._open[key] -= 1
                if not self._open[key]:
                    del self._open[key]

        return leave


async def follow(
    kernel: Kernel,
    bell: Notifier,
    session: str,
    after: int,
    *,
    turn: str | None = None,
    waits: bool = True,
    credential: FollowerCredential | None = None,
) -> AsyncGenerator[EventRow | Gap]:
    """Yield the events of a session after a number, then new ones; with ``turn``, only its own, up to its end.

    A turn has ended when its session is no longer in it: after a failure, the same turn may have been retried.
    Without ``waits``, it ends after the existing events. It also ends when the session is deleted, the server shuts
    down, or the ``credential`` is no longer valid. The credential is checked before every read and every
    ``CHECK_SECONDS``, and every ``REVOKED_SECONDS`` for a revoked key.
    """
    events, has_begun = kernel.store.events, False
    with bell.heard(session, credential) as rung:
        while True:
            rung.clear()
            if credential is not None and not await credential.is_valid():
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
                    has_begun = True
                    yield row
                elif has_begun:
                    return  # the events of a turn follow each other: a session is in one turn at a time
            if after < page.last:
                continue
            if turn is not None and (page.running is None or page.running.turn != turn):
                return  # its last event is no longer stored
            if page.running is not None and page.running.checkpoint is None and page.running.until <= kernel.now():
                await events.interrupt(session, now=kernel.now(), interrupted=interrupted_event())
                bell.ring(session)
                continue
            if not waits or bell.closed.is_set():
                return
            rung.at = after
            await _next_look(bell, rung, _seconds_left(kernel, page.running))


async def follow_run(
    kernel: Kernel,
    bell: Notifier,
    run: RunRow,
    after: int = 0,
    *,
    waits: bool = True,
    credential: FollowerCredential | None = None,
) -> AsyncGenerator[EventRow | Gap]:
    """Yield the events of a run that is a turn, after a number, then new ones up to its end; see ``follow``.

    With ``waits``, it first waits until a queued run begins. Events of earlier turns are not read.
    """
    first = await _begun(kernel, bell, run, waits=waits, credential=credential)
    if first is None:
        return
    events = follow(kernel, bell, run.session, max(after, first - 1), turn=run.id, waits=waits, credential=credential)
    async with aclosing(events) as rows:
        async for row in rows:
            if isinstance(row, EventRow) and row.seq == first > after + 1 and row.type != "turn.started":
                yield Gap(after, first - 1)
            yield row


async def _begun(
    kernel: Kernel, bell: Notifier, run: RunRow, *, waits: bool, credential: FollowerCredential | None
) -> int | None:
    """Return the number of the first stored event of a run's turn; with ``waits``, wait while the run is queued."""
    with bell.heard(run.session, credential) as rung:
        while True:
            rung.clear()
            if credential is not None and not await credential.is_valid():
                return None
            current = await kernel.store.runs.get(run.id)  # first: a run that is no longer queued has its first event
            span = await kernel.store.events.event_span(run.session, run.id)
            if span is not None:
                return span[0]
            if current is None or current.state != "queued" or not waits or bell.closed.is_set():
                return None
            await _next_look(bell, rung, CHECK_SECONDS)  # nothing rings when a queued run is cancelled


async def _next_look(bell: Notifier, rung: Bell, left: float | None) -> None:
    """Wait until there may be something to read: an event, or the end of a turn with ``left`` seconds to go."""
    try:
        async with asyncio.timeout(left if bell.is_watching else min(left or LOOK_SECONDS, LOOK_SECONDS)):
            await rung.wait()
    except TimeoutError:
        pass  # the turn's time is up, or another process may have stored something


def _seconds_left(kernel: Kernel, running: TurnRow | None) -> float | None:
    """Return the seconds until a turn that is not renewed counts as interrupted; ``None`` if it can be continued."""
    if running is None or running.checkpoint is not None:
        return None
    return max(0.01, datetime.fromisoformat(running.until).timestamp() - kernel.clock.time_ns() / 1e9)
