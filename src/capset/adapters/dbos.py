"""DBOS as the engine of runs: which worker does which run, within the limits of queues (spec 10, D11).

Its tables hold ids of runs, queues and workers, and nothing else: what a run is, and what came of it, is in capset's
store. They are in a schema of their own of a PostgreSQL database, and beside SQLite's file in one of their own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from threading import Thread
from typing import Any, Final, TypeVar

from sqlalchemy import make_url

from capset.errors import DefinitionError
from capset.extras import install_command

try:
    from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer, SetWorkflowID
except ImportError:
    raise DefinitionError(
        "workers need the extra 'dbos', which is not installed", hint=install_command("dbos")
    ) from None

SCHEMA: Final = "capset_runs"
"""The schema of its tables in PostgreSQL."""
SUFFIX: Final = ".runs"
"""Ends the name of its file beside that of SQLite."""
VERSION: Final = "1"
"""That of the one workflow: workers of different versions of capset do each other's runs while it is the same."""
POLL_SECONDS: Final = 0.5
"""How often a queue is looked at."""
LEAVE_SECONDS: Final = 10
"""How long the end of its workflows is waited for when it stops."""
_CONNECTIONS: Final = 6

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue and its limits, which all its workers share: those of the worker that started last.

    ``concurrency`` limits how many of its runs all workers do at once, ``worker_concurrency`` how many one does;
    ``rate`` limits how many begin, as a number and the seconds within which they do.
    """

    name: str
    concurrency: int | None = None
    worker_concurrency: int | None = None
    rate: tuple[int, float] | None = None


class RunEngine:
    """DBOS in this process, of which there can be one at a time. ``work`` does a run, on the loop that started it.

    It never blocks the event loop: it has threads of its own, and each workflow waits in one for what the loop does.
    """

    def __init__(
        self, store: str, worker: str, queues: Sequence[Queue], work: Callable[[str], Awaitable[None]]
    ) -> None:
        """``store`` is the URL of the store, ``worker`` the id of this worker.

        Raises ``DefinitionError`` for a store that workers cannot share with servers.
        """
        self._url = _database_of(store)
        self._worker = worker
        self._queues = queues
        self._work = work

    async def start(self) -> None:
        """Make its tables if they are missing, and begin to do what is queued."""
        loop = asyncio.get_running_loop()

        async def work(run: str) -> None:
            await self._work(run)

        def wait(run: str) -> None:
            done = asyncio.run_coroutine_threadsafe(work(run), loop)
            try:
                done.result()
            except CancelledError:
                return  # the run was let go of, and is handed on again

        _waiting[:] = [wait]
        await _in_thread(self._launch)

    async def enqueue(self, queue: str, workflow: str, run: str) -> None:
        """Queue a run. An id of a workflow stands for one: to queue it again does nothing."""

        def enqueue() -> None:
            with SetWorkflowID(workflow):
                DBOS.enqueue_workflow(queue, do_run, run)

        await _in_thread(enqueue)

    async def recover(self, worker: str) -> int:
        """Queue again what a dead worker did not finish, and return how many there were."""

        def recover() -> int:
            found = DBOS.list_workflows(executor_id=worker, status="PENDING", load_input=False, load_output=False)
            for one in found:
                DBOS.resume_workflow(one.workflow_id, queue_name=one.queue_name)
            return len(found)

        return await _in_thread(recover)

    async def stop(self) -> None:
        """Take nothing more, and return when the workflows under way have ended, or after a while."""
        await _in_thread(lambda: DBOS.destroy(workflow_completion_timeout_sec=LEAVE_SECONDS))
        _waiting.clear()

    def _launch(self) -> None:
        logger = logging.getLogger("dbos")
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())  # or it would write to stderr by itself
        config = DBOSConfig(
            name="capset",
            system_database_url=self._url,
            dbos_system_schema=SCHEMA,
            sys_db_pool_size=_CONNECTIONS,
            application_version=VERSION,
            executor_id=self._worker,
            serializer=DBOSPortableJSONSerializer(),
            log_level="WARNING",
            enable_otlp=False,
            use_listen_notify=False,
        )
        DBOS(config=config)
        DBOS.listen_queues([one.name for one in self._queues])
        DBOS.launch()
        for one in self._queues:  # only now: registered before, they would not be in the database
            DBOS.register_queue(
                one.name,
                global_concurrency=one.concurrency,
                worker_concurrency=one.worker_concurrency,
                limiter=None if one.rate is None else {"limit": one.rate[0], "period": one.rate[1]},
                polling_interval_sec=POLL_SECONDS,
                on_conflict="always_update",
            )


_waiting: list[Callable[[str], None]] = []
"""What waits for the loop to do a run, while an engine has started: a workflow is a function of the whole process."""


@DBOS.workflow(name="capset.run")
def do_run(run: str) -> None:
    """Do a run, as far as it goes now."""
    if _waiting:
        _waiting[0](run)


def _database_of(store: str) -> str:
    url = make_url(store)
    scheme = url.drivername.partition("+")[0]
    if scheme == "sqlite" and url.database and url.database != ":memory:":
        return f"sqlite:///{url.database}{SUFFIX}"
    if scheme in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
    raise DefinitionError(
        f"workers share a database with servers; got the store {scheme}://",
        hint="name a file of SQLite or a database of PostgreSQL with --db",
    )


async def _in_thread(function: Callable[[], _Result]) -> _Result:
    """Return what a function returns in a thread of its own, without the loop that DBOS would otherwise take over."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_Result] = loop.create_future()

    def settle(set_outcome: Callable[[Any], None], outcome: Any) -> None:
        if not done.done():
            set_outcome(outcome)

    def run() -> None:
        try:
            result = function()
        except BaseException as error:  # raised where it is awaited
            loop.call_soon_threadsafe(settle, done.set_exception, error)
        else:
            loop.call_soon_threadsafe(settle, done.set_result, result)

    Thread(target=run, name="capset-runs", daemon=True).start()
    return await done
