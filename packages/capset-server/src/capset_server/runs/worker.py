"""A worker, which executes the runs of its queues, including those of dead workers (spec 10, D12).

Every half second, it submits due runs to the engine, which gives each of them to one worker with a free slot. What a
worker does for a run is the same at any time and in any process: it begins the turn if that has not begun, and watches
it to its end.
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
from capset_agents.hosts import CallerAbsent, NewTurn, WrongProcess
from capset_agents.turns import process_of
from capset_server.runs.calls import do_call
from capset_server.runs.schedules import queue_due
from capset_server.service import Service

BEAT_SECONDS: Final = 2.0
"""How often a worker sends a heartbeat."""
DEAD_SECONDS: Final = 10
"""How long after its last heartbeat other workers take over its runs."""
LOOK_SECONDS: Final = 0.5
"""How often a worker looks for due runs, and at a turn that another process runs."""
AGAIN_SECONDS: Final = 20.0
"""How soon a run is submitted to the engine again, in case it was lost. Later, the interval is the run's age."""
_MOST_AGAIN_SECONDS: Final = 600.0
TIDY_SECONDS: Final = 300.0
"""How often the engine deletes ended workflows, and takes over those of unknown workers."""
SCHEDULE_SECONDS: Final = 2.0
"""How often a worker looks for due schedules."""
LATER_SECONDS: Final = 5
"""How long a run is delayed if its session is in another turn, or this worker does not know its caller."""
_WORKER: Final = "worker:"
"""The prefix of the names of workers as holders of turns."""
_log = logging.getLogger("capset.runs")


class Engine(Protocol):
    """The engine that gives runs to workers, within the limits of queues: ``capset_agents.dbos.RunEngine``."""

    async def enqueue(self, queue: str, workflow: str, run: str) -> bool:
        """Queue a run, and return whether its workflow is now queued or running, not ended.

        The id of a workflow is unique: queueing it again does nothing.
        """
        ...

    async def start(self) -> None:
        """Start executing queued runs."""
        ...

    async def holders(self) -> Collection[str]:
        """Return the workers that hold running workflows, which count towards the limits of the queues."""
        ...

    async def recover(self, workers: Collection[str]) -> int:
        """Queue the workflows of dead workers again, and return how many there were."""
        ...

    async def delete_ended(self) -> int:
        """Delete workflows that ended some time ago, and return how many there were."""
        ...

    async def stop(self) -> None:
        """Accept no more workflows, and return when the running ones have ended."""
        ...


class Worker:
    """A worker, which runs while its service's kernel is open. ``id`` is unique among all workers."""

    def __init__(
        self,
        service: Service,
        id: str,
        queues: Sequence[str],
        *,
        dead_seconds: int = DEAD_SECONDS,
        again_seconds: float = AGAIN_SECONDS,
    ) -> None:
        """``dead_seconds`` is how long after its last heartbeat others take over its runs.

        ``again_seconds`` is when a run is first submitted to the engine again.
        """
        self.id = id
        self._service = service
        self._kernel = service.kernel
        self._queues = tuple(queues)
        self._doing: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self._dead_seconds = dead_seconds
        self._again_seconds = again_seconds
        service.turns.turns.process = _process(id)  # shows other workers who holds a turn

    async def start(self, engine: Engine) -> None:
        """Send a heartbeat, and then start the engine, since others take over the workflows of unknown workers."""
        await self._kernel.store.workers.renew(self._row())
        await engine.start()

    async def run(self, engine: Engine) -> None:
        """Work until cancelled. Then release the runs under way, so that others continue them, and stop the engine."""
        row = self._row()
        workers = self._kernel.store.workers
        beat_seconds = min(BEAT_SECONDS, self._dead_seconds / 3)
        loops = [
            _repeat(lambda: self._beat(row, engine), beat_seconds, "the heartbeat failed and is retried"),
            _repeat(lambda: self._hand_on(engine), LOOK_SECONDS, "submitting runs failed and is retried"),
            _repeat(self._wake_calls, LOOK_SECONDS, "waking calls failed and is retried"),
            _repeat(lambda: self._tidy(engine), TIDY_SECONDS, "tidying the engine failed and is retried"),
            _repeat(self._queue_due, SCHEDULE_SECONDS, "queueing scheduled runs failed and is retried"),
        ]
        if self._kernel.generator is not None:
            loops.append(_repeat(self._service.turns.turns.watch, LOOK_SECONDS, "watching turns failed and is retried"))
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
        """Execute a run to its end, or until it waits for approvals. If it is released, others continue it."""
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
            _log.exception("the run %s failed unexpectedly and will be queued again", id)
        finally:
            self._doing.discard(task)

    async def _work(self, id: str) -> None:
        while not self._is_stopping:
            try:
                run = await self._under_way(id)
                if run is None or await self._go_on(run):
                    return
            except StoreError as error:
                _log.warning("reading the run %s failed and is retried: %s", id, error.message)
            await asyncio.sleep(LOOK_SECONDS)
        await self._release(id, 0)

    async def _go_on(self, run: RunRow) -> bool:
        """Begin a run's turn or make its call, or check on it. Return whether this worker is done with it."""
        try:
            if run.kind == "call":
                return await do_call(self._service, run)
            if self._kernel.generator is None:
                raise WrongProcess
            if run.state == "queued":
                await self._begin(run)
            await self._service.turns.turns.wait(run.id)
            return await self._is_over(run)
        except (TurnRunning, TurnSuspended, WrongProcess, CallerAbsent):
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
            # Another worker began it, or it was cancelled: the store has its state.

    async def _is_over(self, run: RunRow) -> bool:
        """Return whether a run has ended or waits. If the worker that holds its turn is dead, release the turn."""
        now = await self._under_way(run.id)
        if now is None:
            return True
        if now.state == "queued":
            return False
        events = self._kernel.store.events
        running_turn = (await events.read(run.session, after=0, limit=1)).running
        if running_turn is None or running_turn.turn != run.id:
            current_run = await self._kernel.store.runs.get(run.id)
            if current_run is not None and current_run.state == "running":  # ended by a version of capset without runs
                await self._fail(current_run, Interrupted("The turn has ended; the events of its session say how"))
            return True
        now_at = self._kernel.now()
        alive = {_process(worker.id) for worker in await self._kernel.store.workers.list() if worker.until > now_at}
        process = process_of(running_turn.holder)
        if process.startswith(_WORKER) and process not in alive and running_turn.until > now_at:
            await events.take(running_turn, replace(running_turn, until=now_at))
            self._service.turns.turns.wake()
        return False

    async def _fail(self, expected: RunRow, error: CapsetError) -> None:
        """Mark a run as failed, unless it has ended or waits, or its turn has begun elsewhere since."""
        while (run := await self._under_way(expected.id)) is not None and (
            run.kind == "call" or run.state == expected.state
        ):
            if await self._kernel.store.runs.change(run, self._failed(run, error)):
                return

    def _failed(self, run: RunRow, error: CapsetError) -> RunRow:
        outcome = failed_event(error, run.correlation).data
        return replace(run, state="failed", due_at=None, ended_at=self._kernel.now(), outcome=outcome)

    async def _release(self, id: str, seconds: int) -> None:
        """Release a run, to be submitted again after some seconds, unless it has ended or waits."""
        while (run := await self._under_way(id)) is not None:
            then = replace(run, due_at=self._later(seconds), attempts=run.attempts + 1)
            if await self._kernel.store.runs.change(run, then):
                return

    async def _under_way(self, id: str) -> RunRow | None:
        """Return the current state of a run, or ``None`` if it has ended or waits."""
        run = await self._kernel.store.runs.get(id)
        return run if run is not None and run.state in ("queued", "running") else None

    async def _hand_on(self, engine: Engine) -> None:
        """Submit due runs to the engine.

        Until it ends or waits, a run becomes due again at growing intervals, so that a run that the engine has lost is
        submitted again.
        """
        runs = self._kernel.store.runs
        for queue in self._queues:
            for run in await runs.due(queue, now=self._kernel.now()):
                if await self._has_to_wait(run):  # here, since in the engine it would count towards the queue's rate
                    await runs.change(run, replace(run, due_at=self._later(LATER_SECONDS)))
                    continue
                # The id of the workflow includes the attempt, so that two workers submit the same one.
                workflow = run.id if not run.attempts else f"{run.id}.{run.attempts}"
                if await engine.enqueue(queue, workflow, run.id):
                    then = replace(run, due_at=self._again(run))
                else:
                    then = replace(run, attempts=run.attempts + 1)
                await runs.change(run, then)

    async def _has_to_wait(self, run: RunRow) -> bool:
        """Return whether a run cannot begin now: this worker runs no turns, or the session is in another turn."""
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
        """Return when a run is submitted to the engine again."""
        now = self._kernel.clock.time_ns()
        age = now / 1e9 - datetime.fromisoformat(run.created_at).timestamp()
        return iso(now + int(1e9 * max(self._again_seconds, min(age, _MOST_AGAIN_SECONDS))))

    async def _tidy(self, engine: Engine) -> float | None:
        """Have the engine take over the workflows of unknown workers, and delete ended ones.

        Workers are unknown if only the store was restored, to a time before they started.
        """
        await self._take_over(engine)
        return LOOK_SECONDS if await engine.delete_ended() else None  # there may be more

    async def _queue_due(self) -> None:
        await queue_due(self._service, self._queues)

    async def _wake_calls(self) -> None:
        """Queue calls again whose approval requests were decided, and fail those whose requests expired."""
        runs, approvals, now = self._kernel.store.runs, self._kernel.store.approvals, self._kernel.now()
        for run in await runs.decided(self._queues, now=now):
            request = None if run.approval is None else await approvals.get(run.org, run.approval)
            if request is None or request.status in ("pending", "expired"):  # made again, it would only ask again
                error = ApprovalExpired("The approval of this call did not come, or was not used, in time.")
                await runs.change(run, self._failed(run, error))
            else:
                await runs.change(run, replace(run, state="queued", due_at=now))

    async def _beat(self, row: WorkerRow, engine: Engine) -> None:
        """Send a heartbeat, and take over the runs of dead workers."""
        workers = self._kernel.store.workers
        await workers.renew(replace(row, until=self._until()))
        now = self._kernel.now()
        for other in await workers.list():
            if other.until <= now and other.id != self.id and await workers.take(other, until=self._until()):
                await self._take_over(engine, without=other.id)
                await workers.remove(other.id)

    async def _take_over(self, engine: Engine, *, without: str | None = None) -> None:
        """Have the engine queue the workflows of dead workers again, and of those that the store does not know."""
        holders = {*await engine.holders()} - {self.id}  # first: a worker is known before it holds anything
        now = self._kernel.now()
        workers = await self._kernel.store.workers.list()
        dead = holders - {worker.id for worker in workers if worker.until > now and worker.id != without}
        if dead and (count := await engine.recover(dead)):
            _log.warning("%d runs of dead workers were queued again", count)

    def _row(self) -> WorkerRow:
        return WorkerRow(self.id, self._queues, self._kernel.now(), self._until())

    def _until(self) -> str:
        """Return the time until which this worker counts as alive if it sends a heartbeat now."""
        return self._later(self._dead_seconds)

    def _later(self, seconds: int) -> str:
        return iso(self._kernel.clock.time_ns() + seconds * 1_000_000_000)


async def _repeat(step: Callable[[], Awaitable[float | None]], seconds: float, message: str) -> None:
    """Repeat a step until cancelled, each time after the seconds that it returns, or else after ``seconds``.

    Errors are logged with ``message``. They do not end the worker, since any other worker would meet the same errors.
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


def _process(worker: str) -> str:
    return _WORKER + worker
