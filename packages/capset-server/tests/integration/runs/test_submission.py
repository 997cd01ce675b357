"""Runs that their callers cancel."""

from __future__ import annotations

from pathlib import Path

import pytest

from capset_server.runs.calls import do_call
from capset_server.runs.submission import cancel_run, content_of_call, submit
from tests.helpers.server.runs.working import ADA, look_at, service_on


@pytest.mark.spec("D10", "D14")
async def test_a_request_is_withdrawn_with_the_last_run_that_waits_for_it(tmp_path: Path) -> None:
    """Equal calls of one session share it: to cancel one takes it from no other."""
    async with service_on("memory://", tmp_path / "notes") as service:
        session = await service.new_session(ADA, "scribe")
        content = content_of_call("burn", {"text": "a"})
        runs = [
            await submit(service, ADA, session, "call", content, queue="default", correlation="c-1") for _ in range(2)
        ]
        for run in runs:
            await do_call(service, run)
        (request,) = {(await look_at(service, run)).approval for run in runs}
        assert request is not None
        statuses: list[str] = []
        for run in runs:
            assert (await cancel_run(service, ADA, run.id)).state == "cancelled"
            statuses.append((await service.kernel.approvals.get(request, org="acme")).status)
        assert statuses == ["pending", "expired"]
