"""Real servers: one that is killed with deliveries on the way, and two on one database (spec 9, N24)."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from tests.databases import require_scheme
from tests.helpers.cli.support import Command, clean_environment
from tests.helpers.connect.notifications.receiving import SECRET, Receiver, receiver, stall
from tests.helpers.server.running import EVERYTHING, Running, address_of, running

pytestmark = pytest.mark.realtime


def configure(folder: Path, target: Receiver, **more: Any) -> None:
    """Write a configuration whose one action has to be approved, and whose requests go to a receiver."""
    (folder / "handlers.py").write_text("async def careful(params, context):\n    return params['n']\n")
    hook = {
        "type": "webhook",
        "url": target.url,
        "secret": "${HOOK_SECRET}",
        "internal": [target.host],
        "events": ["approval.requested"],
        **more,
    }
    careful = {
        "name": "careful",
        "description": "Do it with care.",
        "handler": "./handlers.py:careful",
        "parameters": {"n": {"type": "integer", "required": True}},
        "permissions": [],
        "approval": "ask",
    }
    (folder / "capset.json").write_text(json.dumps({"actions": [careful], "notifications": {"ops": hook}}))


def asking(server: Running, key: str, *numbers: int) -> list[str]:
    """Call the action, and return the ids of the requests."""
    headers = {"authorization": f"Bearer {key}"}
    with httpx2.Client(base_url=server.url, headers=headers, trust_env=False, timeout=30) as client:
        session = client.post("/v1/sessions", json={"agent_id": "capset"}).json()["id"]
        responses = [
            client.post(f"/v1/sessions/{session}/calls", json={"tool": "careful", "arguments": {"n": number}})
            for number in numbers
        ]
    return [response.json()["approval"] for response in responses]


@contextmanager
def killed(folder: Path, **environ: str) -> Generator[Running]:
    """Start ``capset serve``, and end it by SIGKILL: nothing of it has time to do anything more."""
    command = Command(folder, clean_environment(folder, **environ))
    log = folder / "killed.log"
    with log.open("wb") as errors:
        process = command.start("serve", "--port", "0", "capset.json", stdout=subprocess.DEVNULL, stderr=errors)

    try:
        yield Running(address_of(process, log), command, process, log)
    finally:
        process.kill()
        process.wait()


@pytest.mark.gate
@pytest.mark.spec("N21", "N24")
async def test_a_killed_server_loses_nothing(postgres_url: str, tmp_path: Path) -> None:
    require_scheme()
    environ = {"HOOK_SECRET": SECRET, "CAPSET_DB": postgres_url}
    async with receiver(stall) as target:
        configure(tmp_path, target, timeout=30)
        with killed(tmp_path, **environ) as server:
            key = await asyncio.to_thread(server.key, scopes=EVERYTHING)
            requests = await asyncio.to_thread(asking, server, key, *range(6))
            await target.wait(4)
        assert len(target.got) == 4, "four were on the way, two had not begun"
    first = target.ids()
    with psycopg.connect(postgres_url, autocommit=True) as database:
        # The leases of the dead end now, and not in a minute.
        database.execute("UPDATE deliveries SET due_at = created_at WHERE holder <> ''")
    async with receiver() as target:
        configure(tmp_path, target)
        with running(tmp_path, "capset.json", **environ):
            got = await target.wait(6)
            assert sorted(delivery.verified()["data"]["request"]["id"] for delivery in got) == sorted(requests)
            assert set(first) < set(target.ids()), "those on the way come again, under the same ids"


@pytest.mark.spec("N24")
async def test_two_servers_on_one_database_send_each_once(postgres_url: str, tmp_path: Path) -> None:
    require_scheme()
    environ = {"HOOK_SECRET": SECRET, "CAPSET_DB": postgres_url}
    async with receiver() as target:
        folders = [tmp_path / name for name in ("one", "two")]
        for folder in folders:
            folder.mkdir()
            configure(folder, target)
        with (
            running(folders[0], "capset.json", **environ) as first,
            running(folders[1], "capset.json", **environ) as two,
        ):
            key = await asyncio.to_thread(first.key, scopes=EVERYTHING)
            ways = [asyncio.to_thread(asking, server, key, *range(20)) for server in (first, two)]
            requests = [request for some in await asyncio.gather(*ways) for request in some]
            await target.wait(40)
            await asyncio.sleep(1.5)  # long enough for both to look again
            sent = Counter(delivery.json["data"]["request"]["id"] for delivery in target.got)
            assert sent == Counter(requests)
            assert set(Counter(target.ids()).values()) == {1}


@pytest.mark.spec("N21")
async def test_what_a_command_queues_a_server_sends(tmp_path: Path) -> None:
    async with receiver() as target:
        configure(tmp_path, target)
        with running(tmp_path, "capset.json", HOOK_SECRET=SECRET) as server:
            deferred = await asyncio.to_thread(
                server.capset, "call", "careful", "--args", '{"n": 1}', "--agent", "capset.json", "--defer"
            )
            assert deferred.code == 3, deferred.err
            (got,) = await target.wait(1)
            assert got.verified()["data"]["request"]["tool"] == "careful"
