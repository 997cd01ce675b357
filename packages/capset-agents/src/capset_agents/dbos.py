"""DBOS as the engine of runs: it assigns runs to workers, within the limits of queues (spec 10, D11).

Its tables hold only the ids of runs, queues and workers; the content and the outcome of a run are in capset's store. In
PostgreSQL, the tables have their own schema; with SQLite, they are in a separate file next to the store's.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Thread
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import SQLAlchemyError

from capset.errors import DefinitionError, StoreError
from capset.extras import install_command

try:
    from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer, SetWorkflowID, WorkflowStatus
    from dbos import error as errors
except ImportError:
    raise DefinitionError(
        "workers need the extra 'dbos', which is not installed", hint=install_command("dbos")
    ) from None

SCHEMA: Final = "capset_runs"
"""The PostgreSQL schema of DBOS's tables."""
SUFFIX: Final = ".runs"
"""The suffix that, appended to the name of the store's SQLite file, gives the name of DBOS's file."""
WORKFLOW_VERSION: Final = "1"
"""The version of the workflow. Workers of different capset versions execute each other's runs while it is the same."""
RETENTION_SECONDS: Final = 3_600.0
"""How long ended workflows are kept; longer if a queue's rate limit covers a longer period."""
_CONNECTIONS: Final = 6
"""The size of the connection pool."""
_BEGIN_IMMEDIATE: Final = "BEGIN IMMEDIATE"
_ENDED_STATUSES: Final = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue and its limits. All workers of a queue use the limits of the worker that started last.

    ``concurrency`` is the maximum number of concurrent runs of all workers together, ``worker_concurrency`` that of one
    worker. ``rate`` limits how many runs start, as a number of runs and a period in seconds.
    """

    name: str
    concurrency: int | None = None
    worker_concurrency: int | None = None
    rate: tuple[int, float] | None = None


class RunEngine:
    """DBOS in this process. Only one engine can run in a process at a time.

    ``work`` executes a run, on the event loop that started the engine. The engine never blocks the loop: DBOS has its
    own threads, and each workflow waits in one of them for its run on the loop.
    """

    def __init__(
        self, store: str, worker: str, queues: Sequence[Queue], work: Callable[[str], Awaitable[None]]
    ) -> None:
        """``store`` is the URL of the store, ``worker`` the id of this worker.

        Raises ``DefinitionError`` for a store that workers cannot share with servers.
        """
        self._url = _database_of(store)
        self._engine: Engine | None = None
        """The engine for SQLite, in place of DBOS's own: see ``sqlite_engine``."""
        self._worker = worker
        self._queues = queues
        self._work = work

    async def start(self) -> None:
        """Create missing tables, and start processing queued runs."""
        loop = asyncio.get_running_loop()

        async def work(run: str) -> None:
            await self._work(run)

        def wait(run: str) -> None:
            future = asyncio.run_coroutine_threadsafe(work(run), loop)
            try:
                future.result()
            except CancelledError:
                return  # the run was released, and will be queued again

        _run_waiters[:] = [wait]
        await _in_thread(self._launch)

    async def enqueue(self, queue: str, workflow: str, run: str) -> bool:
        """Queue a run, and return whether its workflow is now queued or running, not ended.

        Queueing a workflow id again has no effect. Raises ``StoreError``, as all methods do, while the database is
        unavailable.
        """

        def enqueue() -> bool:
            with SetWorkflowID(workflow):
                return DBOS.enqueue_workflow(queue, do_run, run).get_status().status in ("ENQUEUED", "PENDING")

        return await _in_thread(enqueue)

    async def holders(self) -> Collection[str]:
        """Return the workers that hold running workflows, which count toward the limits of the queues."""

        def holders() -> Collection[str]:
            return {workflow.executor_id for workflow in self._running_workflows() if workflow.executor_id is not None}

        return await _in_thread(holders)

    async def recover(self, workers: Collection[str]) -> int:
        """Requeue the workflows of ``workers``, all of which must be dead, and return how many there were."""

        def recover() -> int:
            workflows = [workflow for workflow in self._running_workflows() if workflow.executor_id in workers]
            for workflow in workflows:
                DBOS.resume_workflow(workflow.workflow_id, queue_name=workflow.queue_name)
            return len(workflows)

        return await _in_thread(recover)

    def _running_workflows(self) -> Sequence[WorkflowStatus]:
        names = [queue.name for queue in self._queues]
        return DBOS.list_workflows(queue_name=names, status="PENDING", load_input=False, load_output=False)

    async def delete_ended(self) -> int:
        """Delete ended workflows that were kept long enough, and return how many there were."""

        def delete_ended() -> int:
            count = 0
            for queue in self._queues:
                retention = max(RETENTION_SECONDS, 0.0 if queue.rate is None else queue.rate[1])
                before = datetime.fromtimestamp(time.time() - retention, UTC).isoformat()
                workflows = DBOS.list_workflows(
                    queue_name=queue.name, status=_ENDED_STATUSES, completed_before=before, limit=500,
                    load_input=False, load_output=False,
                )  # fmt: skip
                DBOS.delete_workflows([workflow.workflow_id for workflow in workflows])
                count += len(workflows)
            return count

        return await _in_thread(delete_ended)

    async def stop(self) -> None:
        """Stop taking runs, and wait up to 10 seconds for running workflows to end."""
        await _in_thread(lambda: DBOS.destroy(workflow_completion_timeout_sec=10))
        _run_waiters.clear()
        if self._engine is not None:
            self._engine.dispose()

    def _launch(self) -> None:
        logger = logging.getLogger("dbos")
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())  # without a handler, DBOS would add one for stderr
        self._engine = sqlite_engine(self._url) if self._url.startswith("sqlite") else None
        config = DBOSConfig(
            name="capset",
            system_database_url=self._url,
            system_database_engine=self._engine,
            dbos_system_schema=SCHEMA,
            sys_db_pool_size=_CONNECTIONS,
            application_version=WORKFLOW_VERSION,
            executor_id=self._worker,
            serializer=DBOSPortableJSONSerializer(),
            log_level="WARNING",
            enable_otlp=False,
            use_listen_notify=False,
        )
        DBOS(config=config)
        DBOS.listen_queues([queue.name for queue in self._queues])
        DBOS.launch()
        for queue in self._queues:  # queues registered before the launch are not stored in the database
            DBOS.register_queue(
                queue.name,
                global_concurrency=queue.concurrency,
                worker_concurrency=queue.worker_concurrency,
                limiter=None if queue.rate is None else {"limit": queue.rate[0], "period": queue.rate[1]},
                polling_interval_sec=0.2,  # a worker with 8 concurrent runs starts at most 40 of a queue per second
                on_conflict="always_update",
            )


_run_waiters: list[Callable[[str], None]] = []
"""The running engine's function that waits for a run. It is global because workflows are global functions."""


@DBOS.workflow(name="capset.run")
def do_run(run: str) -> None:
    """Execute a run until it ends or has to wait."""
    if _run_waiters:
        _run_waiters[0](run)


def _database_of(store: str) -> str:
    url = make_url(store)
    scheme = url.drivername.partition("+")[0]
    if scheme == "sqlite" and url.database and url.database != ":memory:":
        return f"sqlite:///{url.database}{SUFFIX}"
    if scheme in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
    raise DefinitionError(
        f"workers share a database with servers; got the store {scheme}://",
        hint="set --db to a SQLite file or a PostgreSQL database",
    )


def sqlite_engine(url: str) -> Engine:
    """Return an engine whose transactions take the write lock when they begin, even if they read first.

    DBOS's own transactions take it at their first write. Two workers that dequeued at the same moment then both counted
    the running workflows before either had written, and together exceeded the queue's limits.
    """
    # In seconds: how long a transaction waits for others.
    engine = create_engine(url, connect_args={"timeout": 30.0}, pool_size=_CONNECTIONS)

    def configure_connection(raw: sqlite3.Connection, _: object) -> None:
        raw.isolation_level = None  # otherwise the driver begins transactions, too
        raw.execute("PRAGMA foreign_keys = ON")

    def begin_immediate(connection: Connection) -> None:
        connection.exec_driver_sql(_BEGIN_IMMEDIATE)

    def skip_nested_begin(
        connection: Connection, cursor: sqlite3.Cursor, statement: str, parameters: Any, *_: object
    ) -> tuple[str, Any]:  # parameters have the driver's own type
        # DBOS's migrations begin their own transaction, inside the one that is already open.
        return (
            "SELECT 1" if statement == _BEGIN_IMMEDIATE and cursor.connection.in_transaction else statement
        ), parameters

    event.listen(engine, "connect", configure_connection)
    event.listen(engine, "begin", begin_immediate)
    event.listen(engine, "before_cursor_execute", skip_nested_begin, retval=True)
    return engine


async def _in_thread(function: Callable[[], _Result]) -> _Result:
    """Run a function in a new thread, where DBOS finds no event loop to take over, and return its result."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_Result] = loop.create_future()

    def settle(set_outcome: Callable[[Any], None], outcome: Any) -> None:
        if not done.done():
            set_outcome(outcome)

    def run() -> None:
        try:
            result = function()
        except (SQLAlchemyError, errors.DBOSException) as error:
            refused = StoreError(f"the run engine failed, and will be tried again: {error}")
            refused.__cause__ = error
            loop.call_soon_threadsafe(settle, done.set_exception, refused)
        except BaseException as error:  # raised where it is awaited
            loop.call_soon_threadsafe(settle, done.set_exception, error)
        else:
            loop.call_soon_threadsafe(settle, done.set_result, result)

    Thread(target=run, name="capset-runs", daemon=True).start()
    return await done
