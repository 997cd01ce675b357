"""Queues over several workers: their limits hold, and the engine's tables hold nothing of what runs are."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.helpers.server.runs.working import Notes, await_start, ended, queued, service_on, working
from tests.waiting import until

SECRET = "the-secret-word"  # of this test


def engine_rows(url: str) -> list[str]:
    """Return every row of every table of the engine, as texts."""
    if url.startswith("sqlite"):
        with sqlite3.connect(f"{url.removeprefix('sqlite:///')}.runs") as file:
            tables = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return [f"{table} {row}" for table in tables for row in file.execute(f"SELECT * FROM {table}")]
    with psycopg.connect(url) as connection:
        named = "SELECT tablename FROM pg_tables WHERE schemaname = 'capset_runs'"
        tables = [name for (name,) in connection.execute(named)]
        assert tables
        rows: list[str] = []
        for table in tables:
            query = sql.SQL("SELECT * FROM {}").format(sql.Identifier("capset_runs", table))
            rows += [f"{table} {row}" for row in connection.execute(query)]
        return rows


async def lose(url: str, workflow: str) -> None:
    """Delete a workflow from the tables of the engine, once it is there."""

    def is_deleted() -> bool:
        if url.startswith("sqlite"):
            with sqlite3.connect(f"{url.removeprefix('sqlite:///')}.runs") as file:
                count = file.execute("DELETE FROM workflow_status WHERE workflow_uuid = ?", [workflow]).rowcount
        else:
            with psycopg.connect(url) as connection:
                statement = "DELETE FROM capset_runs.workflow_status WHERE workflow_uuid = %s"
                count = connection.execute(statement, [workflow]).rowcount
        return count == 1

    await until(is_deleted, "the workflow to be in the tables of the engine")


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("D11", "D15")
async def test_limits_hold_over_two_workers(url: str, tmp_path: Path) -> None:
    """Two at once at most, three within six seconds; and what is queued lies in capset's own tables alone."""
    notes = Notes(tmp_path / "notes")
    async with service_on(url, notes.path) as service:
        with (
            working(url, notes.path, "a=2", "b=,3/6s") as first_worker,
            working(url, notes.path, "a=2", "b=,3/6s") as two,
        ):
            await_start(first_worker, two)
            calls = [("linger", {"text": f"{SECRET} {number}", "seconds": 0.4}) for number in range(7)]
            runs = [await queued(service, call=call, queue="a") for call in calls]
            rated = [await queued(service, call=("put", {"text": SECRET}), queue="b") for _ in range(5)]
            done = [await ended(service, run) for run in (*runs, *rated)]
            assert {run.state for run in done} == {"succeeded"}
            for process in (first_worker, two):
                process.send_signal(signal.SIGTERM)
            assert [await asyncio.to_thread(process.wait, 40) for process in (first_worker, two)] == [0, 0]
    peak = now = 0
    for deed in notes.deeds:
        now += deed.startswith("begin") - deed.startswith("end")
        peak = max(peak, now)
    assert (peak, now) == (2, 0)
    begun = sorted(datetime.fromisoformat(str(run.begun_at)) for run in done[7:])
    late = [(after - before).total_seconds() for before, after in pairwise([begun[0], begun[3]])]
    assert late[0] > 3, "the fourth begins in the next window, and the first a moment after its own began"
    rows = engine_rows(url)
    assert any(runs[0].id in row for row in rows)
    assert [row for row in rows if SECRET in row or '"tool"' in row or "anyone" in row] == []


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("D12")
async def test_a_run_is_queued_while_no_worker_is_there(url: str, tmp_path: Path) -> None:
    """It is acknowledged by one write, and begins with the first worker of its queue."""
    notes = Notes(tmp_path / "notes")
    async with service_on(url, notes.path) as service:
        run = await queued(service, call=("put", {"text": "one"}))
        other = await queued(service, call=("put", {"text": "two"}), queue="other")
        with working(url, notes.path) as worker:
            await_start(worker)
            assert (await ended(service, run)).state == "succeeded"
            other_run = await service.kernel.store.runs.get(other.id)
            assert other_run is not None
            assert other_run.state == "queued"
    assert notes.deeds == ["put one"]


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("D16")
async def test_what_the_engine_lost_is_handed_on_again(url: str, tmp_path: Path) -> None:
    """A run is lost while it is queued behind another: it begins all the same, and once."""
    notes = Notes(tmp_path / "notes")
    async with service_on(url, notes.path) as service:
        with working(url, notes.path, "default=1", AGAIN="1") as worker:
            await_start(worker)
            first = await queued(service, call=("linger", {"text": "one", "seconds": 4}))
            second = await queued(service, call=("put", {"text": "two"}))
            await notes.process_of("begin one")
            await lose(url, second.id)
            assert [(await ended(service, run)).state for run in (first, second)] == ["succeeded", "succeeded"]
    assert notes.deeds == ["begin one", "end one", "put two"]


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("D15", "D16")
async def test_what_an_unknown_worker_left_takes_no_place_in_a_queue(url: str, tmp_path: Path) -> None:
    """The store was restored to a time before that worker: the queue's one place is free again all the same."""
    notes = Notes(tmp_path / "notes")
    async with service_on(url, notes.path) as service:
        with working(url, notes.path, "default=1") as first_worker:
            await_start(first_worker)
            lost = await queued(service, call=("linger", {"text": "one", "seconds": 60}))
            await notes.process_of("begin one")
        for worker in await service.kernel.store.workers.list():
            await service.kernel.store.workers.remove(worker.id)
        await service.kernel.store.sessions.delete(lost.session)
        with working(url, notes.path, "default=1") as two:
            await_start(two)
            run = await queued(service, call=("put", {"text": "two"}))
            assert (await ended(service, run)).state == "succeeded"
    assert notes.deeds == ["begin one", "put two"]
