"""DBOS as the engine of runs: which worker does which run, within the limits of queues (spec 10, D11).

Its tables hold ids of runs, queues and workers, and nothing else: what a run is, and what came of it, is in capset's
store. They are in a schema of their own of a PostgreSQL database, and beside SQLite's file in one of their own.
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
"""The schema of its tables in PostgreSQL."""
SUFFIX: Final = ".runs"
"""Ends the name of its file beside that of SQLite."""
VERSION: Final = "1"
"""That of the one workflow: workers of different versions of capset do each other's runs while it is the same."""
POLL_SECONDS: Final = 0.2
"""How often a queue is looked at: a worker that does 8 runs at once begins at most 40 of it a second."""
LEAVE_SECONDS: Final = 10
"""How long the end of its workflows is waited for when it stops."""
KEPT_SECONDS: Final = 3_600.0
"""How long workflows that have ended are kept, or longer if a queue's rate counts them for longer."""
_CONNECTIONS: Final = 6
_BUSY_SECONDS: Final = 30.0
"""How long a transaction waits for those of others in a file of SQLite."""
_BEGIN: Final = "BEGIN IMMEDIATE"
_AT_ONCE: Final = 500
_UNDER_WAY: Final = ("ENQUEUED", "PENDING")
_ENDED: Final = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]

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
        self._engine: Engine | None = None
        """That of its database, where DBOS's own would not do."""
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

    async def enqueue(self, queue: str, workflow: str, run: str) -> bool:
        """Queue a run, and return whether its workflow is queued or under way now, not over.

        An id of a workflow stands for one: to queue it again does nothing. Raises ``StoreError``, as all methods do,
        while its database is not available.
        """

        def enqueue() -> bool:
            with SetWorkflowID(workflow):
                return DBOS.enqueue_workflow(queue, do_run, run).get_status().status in _UNDER_WAY

        return await _in_thread(enqueue)

    async def holders(self) -> Collection[str]:
        """Return the workers that hold workflows of its queues, which count in the limits of these."""

        def holders() -> Collection[str]:
            return {workflow.executor_id for workflow in self._under_way() if workflow.executor_id is not None}

        return await _in_thread(holders)

    async def recover(self, workers: Collection[str]) -> int:
        """Queue again what workers hold, which must be dead, and return how many workflows there were."""

        def recover() -> int:
            workflows = [workflow for workflow in self._under_way() if workflow.executor_id in workers]
            for workflow in workflows:
                DBOS.resume_workflow(workflow.workflow_id, queue_name=workflow.queue_name)
            return len(workflows)

        return await _in_thread(recover)

    def _under_way(self) -> Sequence[WorkflowStatus]:
        names = [queue.name for queue in self._queues]
        return DBOS.list_workflows(queue_name=names, status="PENDING", load_input=False, load_output=False)

    async def forget(self) -> int:
        """Delete workflows of its queues that ended some time ago, and return how many there were."""

        def forget() -> int:
            count = 0
            for queue in self._queues:
                retention = max(KEPT_SECONDS, 0.0 if queue.rate is None else queue.rate[1])
                before = datetime.fromtimestamp(time.time() - retention, UTC).isoformat()
                workflows = DBOS.list_workflows(
                    queue_name=queue.name, status=_ENDED, completed_before=before, limit=_AT_ONCE,
                    load_input=False, load_output=False,
                )  # fmt: skip
                DBOS.delete_workflows([workflow.workflow_id for workflow in workflows])
                count += len(workflows)
            return count

        return await _in_thread(forget)

    async def stop(self) -> None:
        """Take nothing more, and return when the workflows under way have ended, or after a while."""
        await _in_thread(lambda: DBOS.destroy(workflow_completion_timeout_sec=LEAVE_SECONDS))
        _waiting.clear()
        if self._engine is not None:
            self._engine.dispose()

    def _launch(self) -> None:
        logger = logging.getLogger("dbos")
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())  # or it would write to stderr by itself
        self._engine = sqlite_engine(self._url) if self._url.startswith("sqlite") else None
        config = DBOSConfig(
            name="capset",
            system_database_url=self._url,
            system_database_engine=self._engine,
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
        DBOS.listen_queues([queue.name for queue in self._queues])
        DBOS.launch()
        for queue in self._queues:  # only now: registered before, they would not be in the database
            DBOS.register_queue(
                queue.name,
                global_concurrency=queue.concurrency,
                worker_concurrency=queue.worker_concurrency,
                limiter=None if queue.rate is None else {"limit": queue.rate[0], "period": queue.rate[1]},
                polling_interval_sec=POLL_SECONDS,
                on_conflict="always_update",
            )


_waiting: list[Callable[[str], None]] = []
"""The function by which workflows wait for a run, while an engine has started: they are functions of the process."""


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


def sqlite_engine(url: str) -> Engine:
    """Return an engine whose transactions wait for each other from their beginning, also those that read first.

    DBOS's own begin with what they write: two workers that took from a queue at the same moment had both counted
    before, and together took more than its limits allow.
    """
    engine = create_engine(url, connect_args={"timeout": _BUSY_SECONDS}, pool_size=_CONNECTIONS)

    def connected(raw: sqlite3.Connection, _: object) -> None:
        raw.isolation_level = None  # or the driver would begin transactions, too
        raw.execute("PRAGMA foreign_keys = ON")

    def begun(connection: Connection) -> None:
        connection.exec_driver_sql(_BEGIN)

    def skip_nested_begin(
        connection: Connection, cursor: sqlite3.Cursor, statement: str, parameters: Any, *_: object
    ) -> tuple[str, Any]:  # of the driver's own type
        # The migrations of DBOS begin a transaction by themselves, inside the one that has begun.
        return ("SELECT 1" if statement == _BEGIN and cursor.connection.in_transaction else statement), parameters

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)
    event.listen(engine, "before_cursor_execute", skip_nested_begin, retval=True)
    return engine


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
        except (SQLAlchemyError, errors.DBOSException) as error:
            refused = StoreError(f"the engine of runs did not do its work, and is asked again: {error}")
            refused.__cause__ = error
            loop.call_soon_threadsafe(settle, done.set_exception, refused)
        except BaseException as error:  # raised where it is awaited
            loop.call_soon_threadsafe(settle, done.set_exception, error)
        else:
            loop.call_soon_threadsafe(settle, done.set_result, result)

    Thread(target=run, name="capset-runs", daemon=True).start()
    return await done
