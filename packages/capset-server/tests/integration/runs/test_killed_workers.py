"""Workers as real processes, of which some are killed: runs go on elsewhere, and no effect comes twice."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from capset.definitions.governance.approvals import Answer
from capset.definitions.principals import Principal
from capset.stores.base import ApprovalQuery, AuditQuery
from tests.helpers.server.runs.working import Notes, await_start, ended, queued, service_on, working

ANYTIME = pytest.param("3", id="soon")
AS_IT_IS = pytest.param("10", id="as_it_is", marks=pytest.mark.nightly)


@pytest.mark.realtime
@pytest.mark.spec("D12", "D13")
@pytest.mark.parametrize("dead", [ANYTIME, AS_IT_IS])
async def test_runs_of_a_killed_worker_end_on_another(url: str, tmp_path: Path, dead: str) -> None:
    """A turn, a call whose effect is unknown then, and one that may be made again: all on record, in one chain."""
    notes = Notes(tmp_path / "notes")
    async with service_on(url, notes.path) as service:
        with working(url, notes.path, DEAD=dead) as worker:
            await_start(worker)
            turn = await queued(service)
            broken = await queued(service, call=("linger", {"text": "four", "seconds": 60}))
            renewed = await queued(service, call=("renew", {"text": "five"}))
            for deed in ("begin two", "begin four", "begin five"):
                await notes.process_of(deed)
            with working(url, notes.path, DEAD=dead) as two:
                await_start(two)
                os.kill(worker.pid, signal.SIGKILL)
                killed = time.monotonic()
                runs = [await ended(service, run) for run in (turn, broken, renewed)]
                assert time.monotonic() - killed < 30
        assert [run.state for run in runs] == ["succeeded", "failed", "succeeded"], [run.outcome for run in runs]
        assert '"code":"interrupted"' in str(runs[1].outcome)
        deeds = notes.deeds
        assert [deeds.count(deed) for deed in ("put one", "begin two", "put three", "begin four")] == [1, 1, 1, 1]
        assert (deeds.count("begin five"), deeds.count("end five")) == (2, 1), "this tool says that it may be"
        assert dict(notes.lines)["put three"] == two.pid
        verified = await service.kernel.audit.verify()
        assert verified.ok, verified.problem


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("D13")
async def test_a_finished_call_is_not_made_again(url: str, tmp_path: Path) -> None:
    """Its worker dies between its outcome and the run's end: the run ends by what is on record."""
    notes = Notes(tmp_path / "notes")
    async with service_on(url, notes.path) as service:
        runs = service.kernel.store.runs
        with working(url, notes.path, DEAD="3") as worker:
            await_start(worker)
            done = await ended(service, await queued(service, call=("put", {"text": "one"})))
            assert done.state == "succeeded"
            undone = replace(done, state="running", due_at=done.created_at, outcome=None, ended_at=None, attempts=1)
            assert await runs.change(done, undone)
            assert (await ended(service, done)).state == "succeeded"
        assert notes.deeds == ["put one"]


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("D14")
async def test_a_run_waits_for_its_approval_while_workers_come_and_go(url: str, tmp_path: Path) -> None:
    """It holds no worker: all processes end meanwhile, and others go on with the turn, and with the call."""
    notes = Notes(tmp_path / "notes")
    async with service_on(url, notes.path) as service:
        with working(url, notes.path, "default=1", ASKING="1") as worker:
            await_start(worker)
            turn = await queued(service)
            call = await queued(service, call=("burn", {"text": "three"}))
            for run in (turn, call):
                assert (await ended(service, run, or_in=["waiting"])).state == "waiting"
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(40) == 0
    assert notes.deeds == ["put one"]
    async with service_on(url, notes.path) as service:
        approvals = service.kernel.approvals
        for run in (turn, call):
            (record,) = (
                await service.kernel.store.approvals.list(ApprovalQuery("acme", session=run.session, status="pending"))
            ).items
            await approvals.decide(record.id, Answer(approved=True), by=Principal("eve", org="acme"))
    async with service_on(url, notes.path) as service:
        with working(url, notes.path, ASKING="1") as two:
            await_start(two)
            done = [await ended(service, run) for run in (turn, call)]
        assert [run.state for run in done] == ["succeeded", "succeeded"], [run.outcome for run in done]
        assert sorted(notes.deeds) == ["burn three", "burn two", "put one"]
        records = (await service.kernel.audit.query(AuditQuery(tool="burn", org="acme", outcome="succeeded"))).items
        assert len(records) == 2
