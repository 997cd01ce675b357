"""A worker: it does the runs of its queues, and those of workers that have died (spec 10, D12).

Every second it hands what is due to the engine, which gives each run to one worker with a free slot. What it does for a
run is the same at any time and in any process: it begins the turn if that has not begun, and watches it to its end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, Protocol

from pydantic_core import from_json

from capset.agents.hosts import CallerAway, NewTurn, NotHere
from capset.agents.turns import TooManyTurns
from capset.clock import iso
from capset.definitions.hooks import Hooks
from capset.errors import CapsetError, Interrupted, StateError, StoreError, TurnRunning, TurnSuspended
from capset.kernel.call.session import Session
from capset.server.runs.calls import do_call
from capset.server.service import Service
from capset.stores.base import RunRow, WorkerRow
from capset.wire.turns import failed_event

BEAT_SECONDS: Final = 2.0
"""How often a worker says that it is alive."""
DEAD_SECONDS: Final = 10
"""After how long without that others take its runs."""
LOOK_SECONDS: Final = 0.5
"""How often a worker looks for runs to hand on, and at a turn that another process runs."""
LATER_SECONDS: Final = 5
"""When a run is tried again whose session is in another turn, or whose caller this worker does not know."""
_HOLDER: Final = "worker:"
"""Begins the names by which workers hold turns."""
_log = logging.getLogger("capset.runs")


class Engine(Protocol):
    """The engine that gives runs to workers, within the limits of queues: ``capset.adapters.dbos.RunEngine``."""

    async def enqueue(self, queue: str, workflow: str, run: str) -> None:
        """Queue a run. An id of a workflow stands for one: to queue it again does nothing."""
        ...

    async def recover(self, worker: str) -> int:
        """Queue again what a dead worker did not finish, and return how many there were."""
        ...

    async def stop(self) -> None:
        """Take nothing more, and return when the workflows under way have ended."""
        ...


class Worker:
    """One worker, while its service's kernel is open. ``id`` names it among all."""

    def __init__(self, service: Service, id: str, queues: Sequence[str], *, dead_seconds: int = DEAD_SECONDS) -> None:
        """``dead_seconds`` is how long after its last sign of life others take its runs."""
        self.id = id
        self._service = service
        self._kernel = service.kernel
        self._queues = tuple(queues)
        self._doing: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self._dead_seconds = dead_seconds
        service.turns.turns.holder = _holder(id)  # by which others see that it holds a turn

    async def run(self, engine: Engine) -> None:
        """Work until cancelled; then let go of what it does, so that others go on with it, and stop the engine."""
        row = WorkerRow(self.id, self._queues, self._kernel.now(), self._until())
        workers = self._kernel.store.workers
        await workers.renew(row)
        turns = self._service.turns.turns
        loops = [self._beat(row, engine), self._hand_on(engine), self._wake_calls(), turns.watch()]
        tasks = [asyncio.create_task(one) for one in loops]
        try:
            await asyncio.gather(*tasks)
        finally:
            self._is_stopping = True
            for task in (*tasks, *self._doing):
                task.cancel()
            await asyncio.wait([*tasks, *self._doing])
            await engine.stop()
            await workers.renew(replace(row, until=self._kernel.now()))  # others take what is left at once

    async def work(self, id: str) -> None:
        """Do a run, as far as it goes now: to its end, or until it waits for approvals. Others go on if it is left."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # a coroutine runs in a task
        self._doing.add(task)
        try:
            await self._work(id)
        except asyncio.CancelledError:
            if not self._is_stopping:
                raise
            await self._release(id, 0)
        finally:
            self._doing.discard(task)

    async def _work(self, id: str) -> None:
        while not self._is_stopping:
            try:
                run = await self._kernel.store.runs.get(id)
                if run is None or run.state not in ("queued", "running"):
                    return
                if await self._go_on(run):
                    return
            except StoreError as error:
                _log.warning("the run %s is looked at again: %s", id, error.message)
            await asyncio.sleep(LOOK_SECONDS)
        await self._release(id, 0)

    async def _go_on(self, run: RunRow) -> bool:
        """Begin a run's turn, or see how it stands; return whether this worker has done its part."""
        try:
            if run.kind == "call":
                return await do_call(self._service, run)
            if run.state == "queued":
                await self._begin(run)
            await self._service.turns.turns.wait(run.id)
            return await self._is_over(run)
        except (TurnRunning, TurnSuspended, NotHere):
            await self._release(run.id, LATER_SECONDS)
            return True
        except TooManyTurns:
            return False
        except StoreError:
            raise
        except CallerAway:
            return True  # only a key's turns are queued
        except CapsetError as error:
            await self._fail(run, error)
            return True

    async def _begin(self, run: RunRow) -> None:
        turns = self._service.turns
        caller = await turns.find_caller(from_json(run.caller))
        row = await self._service.session_row(caller, run.session)

        async def open_session(hooks: Hooks) -> Session:
            return await self._service.open_turn(caller, row, hooks)

        new = NewTurn(from_json(run.content), run.correlation, from_json(run.caller), open_session, run=run.id)
        try:
            await turns.turns.begin(row, new)
        except StateError as error:
            if error.status != 409:
                raise
            # Another worker began it, or it was cancelled: how it stands says the store.

    async def _is_over(self, run: RunRow) -> bool:
        """Return whether a run has ended or waits; have its turn continued if the worker that held it is dead."""
        now = await self._kernel.store.runs.get(run.id)
        if now is None or now.state not in ("queued", "running"):
            return True
        if now.state == "queued":
            return False
        events = self._kernel.store.events
        seen = (await events.read(run.session, after=0, limit=1)).running
        if seen is None or seen.turn != run.id:
            again = await self._kernel.store.runs.get(run.id)
            if again is not None and again.state == "running":  # ended by a version of capset that knows no runs
                await self._fail(again, Interrupted("The turn has ended; the events of its session say how"))
            return True
        now_at = self._kernel.now()
        alive = {_holder(one.id) for one in await self._kernel.store.workers.list() if one.until > now_at}
        if seen.holder.startswith(_HOLDER) and seen.holder not in alive and seen.until > now_at:
            await events.take(seen, replace(seen, until=now_at))
            self._service.turns.turns.wake()
        return False

    async def _fail(self, run: RunRow, error: CapsetError) -> None:
        outcome = failed_event(error, run.correlation).data
        ended = replace(run, state="failed", due_at=None, ended_at=self._kernel.now(), outcome=outcome)
        await self._kernel.store.runs.change(run, ended)

    async def _release(self, id: str, seconds: int) -> None:
        """Let go of a run, to be handed on again after some seconds, unless it has ended or waits."""
        while (run := await self._kernel.store.runs.get(id)) is not None and run.state in ("queued", "running"):
            due = iso(self._kernel.clock.time_ns() + seconds * 1_000_000_000)
            if await self._kernel.store.runs.change(run, replace(run, due_at=due, attempts=run.attempts + 1)):
                return

    async def _hand_on(self, engine: Engine) -> None:
        """Hand the runs that are due to the engine, until cancelled."""
        runs = self._kernel.store.runs
        while True:
            try:
                for queue in self._queues:
                    for run in await runs.due(queue, now=self._kernel.now()):
                        # The id of the workflow says which attempt it is: two workers hand on the same.
                        workflow = run.id if not run.attempts else f"{run.id}.{run.attempts}"
                        await engine.enqueue(queue, workflow, run.id)
                        await runs.change(run, replace(run, due_at=None))
            except CapsetError as error:
                _log.warning("runs are handed on again: %s", error.message)
            await asyncio.sleep(LOOK_SECONDS)

    async def _wake_calls(self) -> None:
        """Queue the calls again whose requests were decided, until cancelled."""
        runs, approvals = self._kernel.store.runs, self._kernel.store.approvals
        while True:
            after = ""
            with suppress(CapsetError):  # as above: looked at again
                while some := await runs.waiting(after=after):
                    for run in some:
                        request = None if run.approval is None else await approvals.get(run.org, run.approval)
                        now = self._kernel.now()
                        if request is None or request.status != "pending" or request.expires_at <= now:
                            await runs.change(run, replace(run, state="queued", due_at=now))
                    after = some[-1].id
            await asyncio.sleep(LOOK_SECONDS)

    async def _beat(self, row: WorkerRow, engine: Engine) -> None:
        """Say that this worker is alive, and take the runs of those that are not, until cancelled."""
        workers = self._kernel.store.workers
        while True:
            with suppress(StoreError):  # others take its runs if that goes on
                await workers.renew(replace(row, until=self._until()))
                now = self._kernel.now()
                for other in await workers.list():
                    if other.until <= now and other.id != self.id and await workers.take(other, until=self._until()):
                        await self._take_over(other, engine)
            await asyncio.sleep(min(BEAT_SECONDS, self._dead_seconds / 3))

    async def _take_over(self, dead: WorkerRow, engine: Engine) -> None:
        count = await engine.recover(dead.id)
        await self._kernel.store.workers.remove(dead.id)
        if count:
            _log.warning("the worker %s is dead; its %d runs go on elsewhere", dead.id, count)

    def _until(self) -> str:
        """Return the time until which this worker is alive from now on."""
        return iso(self._kernel.clock.time_ns() + self._dead_seconds * 1_000_000_000)


def _holder(worker: str) -> str:
    return _HOLDER + worker
