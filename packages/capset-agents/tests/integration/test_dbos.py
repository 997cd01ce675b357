"""DBOS as the engine of runs: what it is asked to do and tells, on a file of SQLite."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path
from threading import Thread

import pytest
from sqlalchemy import Engine

from capset.errors import StoreError
from capset_agents import dbos
from capset_agents.dbos import Queue, RunEngine
from tests.waiting import until

pytestmark = pytest.mark.realtime


@pytest.mark.spec("D11", "D16")
async def test_an_ended_workflow_is_told_and_is_deleted_after_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_end = asyncio.Event(), asyncio.Event()

    async def work(run: str) -> None:
        began.set()
        await may_end.wait()

    engine = RunEngine(f"sqlite:///{tmp_path}/a.db", "worker", [Queue("a", worker_concurrency=1)], work)
    await engine.start()
    try:
        assert await engine.enqueue("a", "run", "run"), "it is queued"
        async with asyncio.timeout(60):
            await began.wait()
        assert await engine.enqueue("a", "run", "run"), "it is under way"
        may_end.set()

        async def has_ended() -> bool:
            return not await engine.enqueue("a", "run", "run")

        await until(has_ended, "the workflow to end")
        assert await engine.delete_ended() == 0, "it has only just ended"
        monkeypatch.setattr(dbos, "RETENTION_SECONDS", 0.0)
        assert await until(engine.delete_ended, "the workflow to be old enough") == 1
        assert await engine.delete_ended() == 0
        with sqlite3.connect(tmp_path / "a.db.runs") as file:
            assert file.execute("SELECT count(*) FROM workflow_status").fetchone() == (0,)
            file.execute("DROP TABLE workflow_status")
        with pytest.raises(StoreError, match="the run engine failed"):
            await engine.enqueue("a", "other", "other")
    finally:
        await engine.stop()


@pytest.mark.spec("D15")
async def test_workers_on_sqlite_count_what_is_taken_one_after_the_other(tmp_path: Path) -> None:
    """A transaction that has only read holds up the next: what it counted is still so when it takes."""

    async def work(run: str) -> None: ...

    url = f"sqlite:///{tmp_path}/a.db.runs"
    engine = RunEngine(f"sqlite:///{tmp_path}/a.db", "worker", [Queue("a")], work)
    await engine.start()
    other = dbos.sqlite_engine(url)
    try:
        with other.begin() as first:
            first.exec_driver_sql("SELECT count(*) FROM workflow_status").scalar_one()
            reading = asyncio.ensure_future(engine.holders())
            await asyncio.sleep(0.5)
            assert not reading.done()
        assert await reading == set()
    finally:
        other.dispose()
        await engine.stop()


@pytest.mark.spec("D15")
def test_two_transactions_that_read_first_wait_for_each_other(tmp_path: Path) -> None:
    first, other = (dbos.sqlite_engine(f"sqlite:///{tmp_path}/a.db") for _ in range(2))
    done: list[str] = []

    def read_and_write(engine: Engine, name: str) -> None:
        with engine.begin() as connection:
            taken = connection.exec_driver_sql("SELECT count(*) FROM taken").scalar_one()
            time.sleep(0.05)
            if taken == 0:
                connection.exec_driver_sql("INSERT INTO taken VALUES (1)")
                done.append(name)

    with first.begin() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # as DBOS's migrations do
        connection.exec_driver_sql("CREATE TABLE taken (number INTEGER)")
    threads = [Thread(target=read_and_write, args=arguments) for arguments in ((first, "one"), (other, "other"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 1
    for engine in (first, other):
        engine.dispose()
