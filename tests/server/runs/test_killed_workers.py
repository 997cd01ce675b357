"""Workers as real processes, of which some are killed: runs go on elsewhere, and no effect comes twice (D12–D14)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.server.runs.working import Notes, await_start, ended, queued, service_on, working


@pytest.mark.spec("D12", "D13")
async def test_a_turn_of_a_killed_worker_ends_on_another(url: str, tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    async with service_on(url, notes.path) as service:
        with working(url, notes.path) as one, working(url, notes.path) as two:
            await_start(one, two)
            run = await queued(service)
            killed = await notes.process_of("begin two")
            os.kill(killed, signal.SIGKILL)
            done = await ended(service, run, seconds=30)
            assert done.state == "succeeded", done.outcome
            assert notes.deeds == ["put one", "begin two", "put three"], "each effect once, the broken one not again"
            assert {process for _, process in notes.lines} == {one.pid, two.pid}
            verified = await service.kernel.audit.verify()
            assert verified.ok, verified.problem
