"""Turns of agents: each belongs to its session, not to a connection, one at a time in a session (spec 5, P10).

A row in the store says which process holds a session's current turn, and until when; that process renews it. A turn
whose process has died is ended as ``interrupted`` by the next process that looks at it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import from_json, to_json

from capset.clock import iso
from capset.definitions.hooks import Hooks, ToolExecuted
from capset.errors import Cancelled, CapsetError, InternalError, Interrupted, InvalidOutput, StateError, TurnRunning
from capset.kernel.call.session import Session
from capset.kernel.governance.redaction import redactor_of
from capset.kernel.kernel import Kernel
from capset.server.http.request_context import HttpRefusal
from capset.stores.base import Begun, EventRow, NewEvent, SessionRow, TurnRow
from capset.wire.turns import ENDINGS, ended_event, executed_event, failed_event, started_event

LOOK_SECONDS: Final = 1.0
"""The maximum delay before events stored by another process are seen here."""
PAGE: Final = 16
"""The number of events read at once: each may be as long as a result, 64 KiB, so that they are a megabyte at most."""
HELD_SECONDS: Final = 30
"""How long a turn is held without renewal before its process counts as dead."""
RENEW_SECONDS: Final = 10.0
"""How often a process renews its hold."""
BATCH_SECONDS: Final = 0.05
"""How long an event waits for others to be stored in one batch."""
_LAST_TRIES: Final = 5
"""How often storing the end of a turn is tried while the store is unavailable."""
_log = logging.getLogger("capset.server")


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


class TurnService:
    """The turns that this process runs. ``bell`` notifies followers when an event was stored."""

    def __init__(self, kernel: Kernel) -> None:
        self.bell = Notifier()
        self._kernel = kernel
        self._holder = ""
        self._redact = redactor_of(kernel.governance.redact)

    def check_runner(self) -> None:
        """Raise ``HttpRefusal`` (501) if this server cannot run turns of agents."""
        if self._kernel.generator is None:
            raise HttpRefusal(501, "no_runner", "This server runs no agents: its kernel was given no generator runner")

    async def begin(self, row: SessionRow, turn: RunningTurn, session: Session, content: Any) -> Begun:  # any JSON
        """Begin a turn of a session, and return its id and the number of its first event; it runs in the background.

        Raises ``TurnRunning`` while the session is in another turn, and ``StateError`` (404) if it was deleted.
        """
        kernel = self._kernel
        self._holder = self._holder or kernel.new_id()
        held = TurnRow(row.id, turn.id, self._holder, _until(kernel))
        started = started_event(row.agent, row.agent_version, session.snapshot.runtime_hash)
        begun = await kernel.store.events.begin(held, started, now=kernel.now(), interrupted=interrupted())
        if begun.turn != turn.id:
            raise TurnRunning(f"the session {row.id!r} is in the turn {begun.turn!r}: wait for its end")
        self.bell.ring(row.id)
        kernel.spawn(turn.run(session, content, self._redact), name=f"capset-turn-{turn.id}")
        return begun

    def new(self, session: str, correlation: str) -> RunningTurn:
        """Return a turn that has not begun."""
        return RunningTurn(self._kernel, self.bell, session, correlation)


class RunningTurn:
    """One running turn: its events are stored in batches, and each batch renews the process's hold on the turn."""

    def __init__(self, kernel: Kernel, bell: Notifier, session: str, correlation: str) -> None:
        self.id = kernel.new_id()
        self._kernel = kernel
        self._events = kernel.store.events  # a closing kernel gives no store, but lets turns end
        self._bell = bell
        self._session = session
        self._correlation = correlation
        self._waiting: list[NewEvent] = []
        self._told = asyncio.Event()
        self._is_done = False
        self._is_lost = False

    @property
    def hooks(self) -> Hooks:
        """The hooks with which the session reports its calls to this turn."""
        return Hooks(on_tool_executed=self._executed)

    async def run(self, session: Session, content: Any, redact: Callable[[Any], Any] | None) -> None:
        """Run the agent to its end, successful or not, and store the outcome."""
        keeper = asyncio.get_running_loop().create_task(self._store_and_renew(asyncio.current_task()))
        try:
            last = await self._outcome(session, content, redact)
        except asyncio.CancelledError:
            if not self._is_lost:
                cut_off = Cancelled("The turn was cut off: the server is closing")
                cut_off.retryable = False  # it may have had effects
                await self._end(keeper, failed_event(cut_off, self._correlation))
            raise
        finally:
            if self._is_lost:
                _log.warning("the turn %s of the session %s is no longer this process's", self.id, self._session)
        await self._end(keeper, last)

    async def _outcome(self, session: Session, content: Any, redact: Callable[[Any], Any] | None) -> NewEvent:
        try:
            output = await session.run(content)
            try:
                data = from_json(to_json(output), allow_inf_nan=False)
            except ValueError:
                raise InvalidOutput("The agent gave an output that JSON cannot carry.") from None
            data = data if redact is None else redact(data)
            given = await session.for_model(self.id, data)
            return ended_event(given.text, given.file) if given.is_cut else ended_event(data)
        except CapsetError as error:
            if redact is not None:
                error.message = redact(error.message)
            return failed_event(error, self._correlation)
        except Exception:
            _log.exception("a turn failed, correlation %s", self._correlation)
            return failed_event(
                InternalError("The turn failed unexpectedly; the log has the details."), self._correlation
            )

    def _executed(self, told: ToolExecuted) -> None:
        self._waiting.append(executed_event(told))
        self._told.set()

    async def _store_and_renew(self, running: asyncio.Task[Any] | None) -> None:
        """Store the events and renew the hold; cancel the turn if it is no longer this process's."""
        loop = asyncio.get_running_loop()
        renewed = loop.time()
        while not self._is_done:
            try:
                async with asyncio.timeout_at(renewed + RENEW_SECONDS):
                    await self._told.wait()
            except TimeoutError:
                pass  # time to renew
            await asyncio.sleep(BATCH_SECONDS if not self._is_done else 0)
            self._told.clear()
            if self._is_done:
                return
            if not self._waiting and loop.time() < renewed + RENEW_SECONDS:
                continue
            if await self._append(_until(self._kernel)):
                renewed = loop.time()
            elif self._is_lost and running is not None:
                running.cancel()
                return
            else:
                renewed = loop.time() - RENEW_SECONDS + 1  # the store is unavailable: again in a second

    async def _end(self, keeper: asyncio.Task[None], last: NewEvent) -> None:
        self._is_done = True
        self._told.set()
        await keeper
        self._waiting.append(last)
        for _ in range(_LAST_TRIES):
            if self._is_lost or await self._append(None):
                return
            await asyncio.sleep(RENEW_SECONDS / 10)
        _log.error("the end of the turn %s was not kept: it will count as interrupted", self.id)

    async def _append(self, until: str | None) -> bool:
        """Store the waiting events, and return whether that succeeded."""
        events, self._waiting = self._waiting, []
        try:
            await self._events.append(self._session, self.id, events, now=self._now(), until=until)
        except StateError:  # the session was deleted, or the turn counts as interrupted
            self._is_lost = True
            return False
        except CapsetError as error:
            _log.error("the store did not keep events of the turn %s: %s", self.id, error.message)
            self._waiting = events + self._waiting
            return False
        self._bell.ring(self._session)
        return True

    def _now(self) -> str:
        return self._kernel.now()


def _until(kernel: Kernel) -> str:
    return iso(kernel.clock.time_ns() + HELD_SECONDS * 1_000_000_000)
