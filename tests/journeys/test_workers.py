"""``capset worker``: a run goes from a server to a worker, on one SQLite file; and what it refuses."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.helpers.cli.support import Command, clean_environment, run_here
from tests.helpers.server.running import running
from tests.waiting import until

CALL = {"tool": "write_file", "arguments": {"path": "/a.txt", "content": "hi"}}
SCRIPT = json.dumps({"steps": [{"calls": [CALL]}, {"text": "Done."}]})


@pytest.mark.parametrize("queue", ["A", "mail=0", "mail=1,", "mail=,3", "mail=1,3/1x", "-"])
def test_a_queue_that_cannot_be_read_is_refused(queue: str) -> None:
    done = run_here("worker", f"--queue={queue}")
    assert done.code == 2
    assert "--queue" in done.err or "window" in done.err or "limit" in done.err


def test_workers_share_a_database_with_servers() -> None:
    done = run_here("worker", "--db", "memory://")
    assert done.code == 2
    assert "workers share a database with servers" in done.err
    assert "twice" in run_here("worker", "--queue", "a", "--queue", "a=2").err


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("D12")
async def test_a_worker_does_what_a_server_took(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(SCRIPT)
    with running(tmp_path) as server:
        key = server.key(scopes=["capset:admin"], grant=["session_files:read", "session_files:write"])
        command = Command(tmp_path, clean_environment(tmp_path))
        options = ("worker", "--model", "script:script.json", "--queue", "mail=2,10/1m")
        worker = command.start(*options, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            await _one_run(server.url, key)
            worker.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(worker.wait, 40) == 0
        finally:
            worker.kill()
            worker.wait()


async def _one_run(url: str, key: str) -> None:
    headers = {"authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=30) as ada:
        agent = {"name": "helper", "capabilities": ["session_file_system"]}
        created_agent = (await ada.post("/v1/agents", json=agent)).json()
        body = {"agent_id": created_agent["id"], "content": "Write.", "queue": "mail"}
        run = (await ada.post("/v1/runs", json=body)).json()
        path = f"/v1/runs/{run['id']}"

        async def ended() -> Any:
            current_run = (await ada.get(path)).json()
            return current_run if current_run["state"] in ("succeeded", "failed") else None

        run = await until(ended, "the run to end")
        assert (run["state"], run["outcome"]) == ("succeeded", {"output": "Done."})
        assert (await ada.get(f"/v1/sessions/{run['session']}/files/a.txt")).text == "hi"
