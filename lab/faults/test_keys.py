"""Idempotency keys of a server that is killed: free again where its call had no effect (spec 5, P45)."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.helpers.cli.support import Command, clean_environment, install
from tests.helpers.server.running import EVERYTHING
from tests.waiting import wait_until

PIT = '''
import asyncio
import os
import time
from pathlib import Path

from capset import Capability, tool


def say(word):
    with Path(os.environ["PIT"]).open("a") as file:
        file.write(word + "\\n")


@tool(effect="read")
async def look(seconds: float) -> str:
    """Look for a while."""
    say("look")
    await asyncio.sleep(seconds)
    return "seen"


@tool(effect="write")
async def dig(seconds: float) -> str:
    """Dig for a while."""
    say("dig")
    await asyncio.sleep(seconds)
    return "dug"


@tool(effect="write")
def fill(seconds: float) -> str:
    """Fill in, in a thread."""
    say("fill")
    time.sleep(seconds)
    return "filled"


pit = Capability("pit", tools=[look, dig, fill])
'''


class Pit:
    """A server on a database, which is killed and started again."""

    def __init__(self, folder: Path, url: str) -> None:
        packages = folder / "packages"
        packages.mkdir()
        install(packages, "pit", PIT, capabilities={"pit": "pit:pit"})
        self.said = folder / "said.txt"
        self.said.touch()
        self._folder = folder
        more = {"CAPSET_DB": url, "PYTHONPATH": str(packages), "PIT": str(self.said)}
        self._command = Command(folder, clean_environment(folder, **more))
        scopes = [word for scope in EVERYTHING for word in ("--scope", scope)]
        created = self._command("key", "create", "k", "--principal", "ada", *scopes, "--json")
        self._headers = {"Authorization": f"Bearer {created.json['key']}"}
        self.process = self._start()
        self.session = ""

    def _start(self) -> subprocess.Popen[str]:
        process = self._command.start("serve", "--port", "0")
        assert process.stderr is not None
        self._url = process.stderr.readline().split()[2]
        return process

    def _post(self, path: str, body: dict[str, Any], **headers: str) -> httpx2.Response:
        with httpx2.Client(headers={**self._headers, **headers}, timeout=20, trust_env=False) as client:
            return client.post(f"{self._url}{path}", json=body)

    def open(self) -> None:
        agent = self._post("/v1/agents", {"name": "digger", "capabilities": ["pit"]}).json()
        self.session = self._post("/v1/sessions", {"agent_id": agent["id"]}).json()["id"]

    def call(self, key: str, tool: str, seconds: float) -> httpx2.Response:
        body = {"tool": tool, "arguments": {"seconds": seconds}}
        path = f"/v1/sessions/{self.session}/calls"
        # One correlation for each key, as of one who tries again.
        headers = {"Idempotency-Key": key, "X-Correlation-Id": f"try-{key}"}
        return self._post(path, body, **headers)

    def begin(self, key: str, tool: str) -> None:
        """Begin a call that takes long, and return once its handler has begun."""
        before = self.said.read_text().count(tool)

        def call() -> None:
            with contextlib.suppress(httpx2.TransportError):  # its server is killed
                self.call(key, tool, 60)

        threading.Thread(target=call, daemon=True).start()
        wait_until(lambda: self.said.read_text().count(tool) > before, f"{tool} to begin")

    def again(self) -> subprocess.Popen[str]:
        """Start another server on the database, which takes the calls from now on."""
        first, self.process = self.process, self._start()
        return first

    def restart(self) -> None:
        self.stop(signal.SIGKILL)
        self.process = self._start()

    def stop(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        self.process.communicate(timeout=120)


@pytest.fixture
def pit(tmp_path: Path, url: str) -> Generator[Pit]:
    """Give a server, and stop it in the end."""
    server = Pit(tmp_path, url)
    try:
        server.open()
        yield server
    finally:
        server.stop(signal.SIGKILL)


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("P45", "P9")
def test_a_key_is_free_again_just_where_its_call_had_no_effect(pit: Pit) -> None:
    pit.begin("reading", "look")
    pit.begin("writing", "dig")
    pit.begin("threaded", "fill")
    pit.restart()
    free = pit.call("reading", "look", 0)
    assert (free.status_code, free.json()["data"]) == (200, "seen")
    for key, tool in (("writing", "dig"), ("threaded", "fill")):
        taken = pit.call(key, tool, 60)
        assert (taken.status_code, taken.json()["code"]) == (409, "conflict"), key
    assert pit.said.read_text().split() == ["look", "dig", "fill", "look"]


@pytest.mark.realtime
@pytest.mark.spec("P45", "P9")
def test_a_key_of_a_server_that_lives_stays_taken_when_another_starts(pit: Pit) -> None:
    pit.begin("reading", "look")
    other = pit.again()
    try:
        taken = pit.call("reading", "look", 60)
        assert (taken.status_code, taken.json()["code"]) == (409, "conflict")
    finally:
        other.kill()
        other.communicate()
    assert pit.said.read_text().split() == ["look"]
