"""A worker: it does the runs of its queues, and those of workers that have died (spec 10, D12).

Every second it hands what is due to the engine, which gives each run to one worker with a free slot. What it does for a
run is the same at any time and in any process: it begins the turn if that has not begun, and watches it to its end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, Protocol

from pydantic_core import from_json

from capset.clock import iso
from capset.definitions.governance.hooks import Hooks
from capset.errors import ApprovalExpired, CapsetError, Interrupted, StateError, StoreError, TurnRunning, TurnSuspended
from capset.kernel.call.session import Session
from capset.stores.base import RunRow, WorkerRow
from capset.wire.turns import failed_event
from capset_agents.execution import TooManyTurns
from capset_agents.hosts import CallerAway, NewTurn, NotHere
from capset_server.runs.calls import do_call
from capset_server.runs.schedules import queue_due
from capset_server.service import Service

BEAT_SECONDS: Final = 2.0
"""How often a worker says that it is alive."""
DEAD_SECONDS: Final = 10
"""After how long without that others take its runs."""
LOOK_SECONDS: Final = 0.5
"""How often a worker looks for runs to hand on, and at a turn that another process runs."""
AGAIN_SECONDS: Final = 20.0
"""When the engine is first asked again whether it still has a run; then each time after as long as the run is old."""
_MOST_AGAIN_SECONDS: Final = 600.0
TIDY_SECONDS: Final = 300.0
"""How often the engine is to delete what has ended, and to take over what unknown workers left."""
SCHEDULE_SECONDS: Final = 2.0
"""How often a worker looks for schedules that are due."""
LATER_SECONDS: Final = 5
"""When a run is tried again whose session is in another turn, or whose caller this worker does not know."""
_HOLDER: Final = "worker:"
"""Begins the names by which workers hold turns."""
_log = logging.getLogger("capset.runs")


class Engine(Protocol):
    """The engine that gives runs to workers, within the limits of queues: ``capset_agents.dbos.RunEngine``."""

    async def enqueue(self, queue: str, workflow: str, run: str) -> bool:
        """Queue a run, and return whether its workflow is queued or under way now, not over.

        An id of a workflow stands for one: to queue it again does nothing.
        """
        ...

    async def start(self) -> None:
        """Begin to do what is queued."""
        ...

    async def holders(self) -> Collection[str]:
        """Return the workers that hold workflows of its queues, which count in the limits of these."""
        ...

    async def recover(self, workers: Collection[str]) -> int:
        """Queue again what workers hold, which must be dead, and return how many workflows there were."""
        ...

    async def forget(self) -> int:
        """Delete what is kept of workflows that ended some time ago, and return how many there were."""
        ...

    async def stop(self) -> None:
        """Take nothing more, and return when the workflows under way have ended."""
        ...


class Worker:
    """One worker, while its service's kernel is open. ``id`` names it among all."""

    def __init__(
        self,
        service: Service,
        id: str,
        queues: Sequence[str],
        *,
        dead_seconds: int = DEAD_SECONDS,
        again_seconds: float = AGAIN_SECONDS,
    ) -> None:
        """``dead_seconds`` is how long after its last sign of life others take its runs.

        ``again_seconds`` is when the engine is first asked again whether it still has a run.
        """
        self.id = id
        self._service = service
        self._kernel = service.kernel
        self._queues = tuple(queues)
        self._doing: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self._dead_seconds = dead_seconds
        self._again_seconds = again_seconds
        service.turns.turns.holder = _holder(id)  # by which others see that it holds a turn

    async def start(self, engine: Engine) -> None:
        """Say that this worker is alive, and then start the engine: what unknown workers hold is taken from them."""
        await self._kernel.store.workers.renew(self._row())
        await engine.start()

    async def run(self, engine: Engine) -> None:
        """Work until cancelled; then let go of what it does, so that others go on with it, and stop the engine."""
        row = self._row()
        workers = self._kernel.store.workers
        beat_seconds = min(BEAT_SECONDS, self._dead_seconds / 3)
        loops = [
            _repeat(lambda: self._beat(row, engine), beat_seconds, "the worker says later that it is alive"),
            _repeat(lambda: self._hand_on(engine), LOOK_SECONDS, "runs are handed on again"),
            _repeat(self._wake_calls, LOOK_SECONDS, "calls that wait are looked at again"),
            _repeat(lambda: self._tidy(engine), TIDY_SECONDS, "the engine is tidied later"),
            _repeat(self._queue_due, SCHEDULE_SECONDS, "schedules are looked at again"),
        ]
        if self._kernel.generator is not None:
            loops.append(_repeat(self._service.turns.turns.watch, LOOK_SECONDS, "turns are looked at again"))
        tasks = [asyncio.create_task(loop) for loop in loops]
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
        except Exception:
            _log.exception("the run %s is handed on again", id)
        finally:
            self._doing.discard(task)

    async def _work(self, id: str) -> None:
        while not self._is_stopping:
            try:
                run = await self._under_way(id)
                if run is None or await self._go_on(run):
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
            if self._kernel.generator is None:
                raise NotHere
            if run.state == "queued":
                await self._begin(run)
            await self._service.turns.turns.wait(run.id)
            return await self._is_over(run)
        except (TurnRunning, TurnSuspended, NotHere, CallerAway):
            await self._release(run.id, LATER_SECONDS)
            return True
        except TooManyTurns:
            return False
        except StoreError:
            raise
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
        now = await self._under_way(run.id)
        if now is None:
            return True
        if now.state == "queued":
            return False
        events = self._kernel.store.events
        running_turn = (await events.read(run.session, after=0, limit=1)).running
        if running_turn is None or running_turn.turn != run.id:
            current_run = await self._kernel.store.runs.get(run.id)
            if (
                current_run is not None and current_run.state == "running"
            ):  # ended by a version of capset that knows no runs
                await self._fail(current_run, Interrupted("The turn has ended; the events of its session say how"))
            return True
        now_at = self._kernel.now()
        alive = {_holder(worker.id) for worker in await self._kernel.store.workers.list() if worker.until > now_at}
        if running_turn.holder.startswith(_HOLDER) and running_turn.holder not in alive and running_turn.until > now_at:
            await events.take(running_turn, replace(running_turn, until=now_at))
            self._service.turns.turns.wake()
        return False

    async def _fail(self, expected: RunRow, error: CapsetError) -> None:
        """End a run, unless it has ended or waits, or its turn has begun elsewhere since."""
        while (run := await self._under_way(expected.id)) is not None and (
            run.kind == "call" or run.state == expected.state
        ):
            if await self._kernel.store.runs.change(run, self._failed(run, error)):
                return

    def _failed(self, run: RunRow, error: CapsetError) -> RunRow:
        outcome = failed_event(error, run.correlation).data
        return replace(run, state="failed", due_at=None, ended_at=self._kernel.now(), outcome=outcome)

    async def _release(self, id: str, seconds: int) -> None:
        """Let go of a run, to be handed on again after some seconds, unless it has ended or waits."""
        while (run := await self._under_way(id)) is not None:
            then = replace(run, due_at=self._later(seconds), attempts=run.attempts + 1)
            if await self._kernel.store.runs.change(run, then):
                return

    async def _under_way(self, id: str) -> RunRow | None:
        """Return a run as it stands now, unless it has ended or waits."""
        run = await self._kernel.store.runs.get(id)
        return run if run is not None and run.state in ("queued", "running") else None

    async def _hand_on(self, engine: Engine) -> None:
        """Hand the runs that are due to the engine.

        A run stays due, later and later, as long as it has not ended and does not wait: what the engine has lost is
        handed on again.
        """
        runs = self._kernel.store.runs
        for queue in self._queues:
            for run in await runs.due(queue, now=self._kernel.now()):
                if await self._has_to_wait(run):  # without the engine, where it would count in the queue's rate
                    await runs.change(run, replace(run, due_at=self._later(LATER_SECONDS)))
                    continue
                # The id of the workflow says which attempt it is: two workers hand on the same.
                workflow = run.id if not run.attempts else f"{run.id}.{run.attempts}"
                if await engine.enqueue(queue, workflow, run.id):
                    then = replace(run, due_at=self._again(run))
                else:
                    then = replace(run, attempts=run.attempts + 1)
                await runs.change(run, then)

    async def _has_to_wait(self, run: RunRow) -> bool:
        """Return whether a run could only be let go of again: no turn can be run here, or its session is in another."""
        if run.kind == "call":
            return False
        if self._kernel.generator is None:
            return True
        if run.state == "running":
            return False
        running_turn = (await self._kernel.store.events.read(run.session, after=0, limit=1)).running
        return running_turn is not None and (
            running_turn.checkpoint is not None or running_turn.until > self._kernel.now()
        )

    def _again(self, run: RunRow) -> str:
        """Return when the engine is asked again whether it has a run."""
        now = self._kernel.clock.time_ns()
        age = now / 1e9 - datetime.fromisoformat(run.created_at).timestamp()
        return iso(now + int(1e9 * max(self._again_seconds, min(age, _MOST_AGAIN_SECONDS))))

    async def _tidy(self, engine: Engine) -> float | None:
        """Have the engine take over what unknown workers left, and delete what has ended.

        A store that was restored, alone, to an earlier time knows no worker of the time between.
        """
        await self._take_over(engine)
        return LOOK_SECONDS if await engine.forget() else None  # there may be more

    async def _queue_due(self) -> None:
        """Queue the runs that are due by schedules."""
        await queue_due(self._service, self._queues)

    async def _wake_calls(self) -> None:
        """Queue the calls again whose requests were decided, and end those whose requests were not in time."""
        runs, approvals, now = self._kernel.store.runs, self._kernel.store.approvals, self._kernel.now()
        for run in await runs.decided(self._queues, now=now):
            request = None if run.approval is None else await approvals.get(run.org, run.approval)
            if request is None or request.status in ("pending", "expired"):  # made again, it would only ask again
                error = ApprovalExpired("The approval of this call did not come, or was not used, in time.")
                await runs.change(run, self._failed(run, error))
            else:
                await runs.change(run, replace(run, state="queued", due_at=now))

    async def _beat(self, row: WorkerRow, engine: Engine) -> None:
        """Say that this worker is alive, and take the runs of those that are not."""
        workers = self._kernel.store.workers
        await workers.renew(replace(row, until=self._until()))
        now = self._kernel.now()
        for other in await workers.list():
            if other.until <= now and other.id != self.id and await workers.take(other, until=self._until()):
                await self._take_over(engine, without=other.id)
                await workers.remove(other.id)

    async def _take_over(self, engine: Engine, *, without: str | None = None) -> None:
        """Have the engine queue again what was left by workers that are dead, or that the store does not know."""
        holders = {*await engine.holders()} - {self.id}  # first: a worker is known before it holds anything
        now = self._kernel.now()
        workers = await self._kernel.store.workers.list()
        dead = holders - {worker.id for worker in workers if worker.until > now and worker.id != without}
        if dead and (count := await engine.recover(dead)):
            _log.warning("%d runs of dead workers go on elsewhere", count)

    def _row(self) -> WorkerRow:
        return WorkerRow(self.id, self._queues, self._kernel.now(), self._until())

    def _until(self) -> str:
        """Return the time until which this worker is alive from now on."""
        return self._later(self._dead_seconds)

    def _later(self, seconds: int) -> str:
        return iso(self._kernel.clock.time_ns() + seconds * 1_000_000_000)


async def _repeat(step: Callable[[], Awaitable[float | None]], seconds: float, message: str) -> None:
    """Repeat a step until cancelled, after the seconds that it returns or these; errors are logged with ``message``.

    Nothing that it raises ends the worker: another one would meet the same, and end, too.
    """
    while True:
        pause = None
        try:
            pause = await step()
        except CapsetError as error:
            _log.warning("%s: %s", message, error.message)
        except Exception:
            _log.exception("%s", message)
        await asyncio.sleep(seconds if pause is None else pause)


def _holder(worker: str) -> str:
    return _HOLDER + worker
