"""Calls that are runs: one that was broken off, or is under way elsewhere, is decided by what is on record of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from capset.errors import StoreError
from capset.stores.base import ApprovalQuery, RunRow
from capset_server.http import idempotency
from capset_server.http.idempotency import Idempotency
from tests.helpers.server.runs.engines import worker_of
from tests.helpers.server.runs.working import ADA, ended, look_at, queued
from tests.helpers.server.runs.workshop import DAY, Bench, workshop


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncGenerator[Bench]:
    """Give two services on one database, whose tools wait until they are told to go on."""
    async with workshop(f"sqlite:///{tmp_path}/a.db") as bench:
        yield bench


@asynccontextmanager
async def making(bench: Bench, run: RunRow) -> AsyncGenerator[asyncio.Task[bool]]:
    """Have one service make a call until its tool waits, and let it end in the end."""
    task = asyncio.create_task(bench.do(run))
    async with asyncio.timeout(60):
        await bench.began.wait()
    await bench.one.kernel.audit.flush()
    try:
        yield task
    finally:
        bench.gate.set()
        await task


@pytest.mark.spec("D13")
async def test_a_call_within_a_call_is_not_taken_for_it(bench: Bench) -> None:
    """The tool has made a call that succeeded, and is at its own work: another worker waits for the end of that."""
    run = await queued(bench.one, call=("pay", {"text": "a"}))
    async with making(bench, run):
        assert not await bench.do(run, at=bench.two)
        assert (await look_at(bench.two, run)).state == "running"
    ended = await look_at(bench.two, run)
    assert (ended.state, bench.deeds) == ("failed", ["look a", "pay a"])
    assert "too expensive" in str(ended.outcome)


@pytest.mark.spec("D13", "D14")
async def test_a_question_for_an_approval_is_not_taken_for_the_approved_call(bench: Bench) -> None:
    run = await queued(bench.one, call=("burn", {"text": "a"}))
    await bench.do(run)
    await bench.decide(run, is_approved=True)
    waiting = await look_at(bench.one, run)
    assert await bench.one.kernel.store.runs.change(waiting, replace(waiting, state="queued"))
    async with making(bench, run):
        assert not await bench.do(run, at=bench.two)
        assert (await look_at(bench.two, run)).state == "running"
    assert ((await look_at(bench.two, run)).state, bench.deeds) == ("succeeded", ["burn a"])


@pytest.mark.spec("D13")
async def test_a_call_that_was_broken_off_is_not_made_again_days_later(bench: Bench) -> None:
    """Its key is forgotten then, but what is on record of it is not."""
    run = await queued(bench.one, call=("send", {"text": "a"}))
    task = asyncio.create_task(bench.do(run))
    await bench.began.wait()
    task.cancel()
    await asyncio.wait([task])
    await bench.one.kernel.audit.flush()
    bench.clock.ahead = 2 * DAY
    bench.gate.set()
    assert await bench.do(run, at=bench.two)
    ended = await look_at(bench.two, run)
    assert (ended.state, bench.deeds) == ("failed", ["send a"])
    assert '"code":"interrupted"' in str(ended.outcome)


@pytest.mark.spec("D13")
async def test_a_call_that_had_not_begun_is_made_days_later(bench: Bench) -> None:
    run = await queued(bench.one, call=("send", {"text": "a"}))
    assert await bench.one.kernel.store.runs.change(run, replace(run, state="running"))
    bench.clock.ahead = 2 * DAY
    bench.gate.set()
    assert await bench.do(run, at=bench.two)
    assert ((await look_at(bench.two, run)).state, bench.deeds) == ("succeeded", ["send a"])


@pytest.mark.spec("D13")
async def test_a_call_is_made_once_its_store_takes_its_intent(bench: Bench) -> None:
    """Nothing was done while the store was away, whichever worker tries again."""
    run = await queued(bench.one, call=("send", {"text": "a"}))
    bench.gate.set()
    bench.failing = 2
    for _ in range(2):
        with pytest.raises(StoreError):
            await bench.do(run)
        assert (await look_at(bench.one, run)).state == "running"
    await bench.one.kernel.audit.flush()
    assert await bench.do(run, at=bench.two)
    assert ((await look_at(bench.one, run)).state, bench.deeds) == ("succeeded", ["send a"])


@pytest.mark.spec("D14")
async def test_a_call_whose_approval_does_not_come_in_time_fails(bench: Bench) -> None:
    """It does not ask again; one that is approved is made, and one that is rejected ends with that."""
    bench.gate.set()
    late, good, bad = [await queued(bench.one, call=("burn", {"text": text})) for text in ("late", "good", "bad")]
    await bench.do(late)
    bench.clock.ahead = 8 * DAY
    for run in (good, bad):
        await bench.do(run)
        await bench.decide(run, is_approved=run is good)
    other = await queued(bench.one, call=("burn", {"text": "other"}), queue="other")
    await bench.do(other)
    await bench.decide(other, is_approved=True)
    async with worker_of(bench.one):
        done = [await ended(bench.one, run) for run in (late, good, bad)]
    assert [run.state for run in done] == ["failed", "succeeded", "failed"]
    assert ('"code":"approval_expired"' in str(done[0].outcome), "rejected" in str(done[2].outcome)) == (True, True)
    assert bench.deeds == ["burn good"]
    assert (await look_at(bench.one, other)).state == "waiting", "another queue's workers see to it"
    assert len((await bench.one.kernel.store.approvals.list(ApprovalQuery("acme"))).items) == 4


@pytest.mark.spec("D13")
async def test_runs_take_no_idempotency_keys_from_their_organisation(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are made although it has as many as it may have, and leave it those that are free."""
    monkeypatch.setattr(idempotency, "MAX_KEYS", 1)
    bench.gate.set()
    first = await queued(bench.one, call=("send", {"text": "a"}))
    await bench.do(first)
    request = Idempotency(bench.one, ADA, first.session, "of-a-client", b"")
    assert await request.begin() is None
    run = await queued(bench.one, call=("send", {"text": "b"}))
    await bench.do(run)
    assert (await look_at(bench.one, run)).state == "succeeded"
    assert bench.deeds == ["send a", "send b"]
