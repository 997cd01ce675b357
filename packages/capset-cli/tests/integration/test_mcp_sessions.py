"""``capset mcp`` keeps one session of each identity and agent, which is a server's too (spec 5, P16; spec 4, G18)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.helpers.cli.paying import Speaking, make_clerk, paid, requests, served, sessions, speaking
from tests.helpers.cli.support import Command
from tests.helpers.connect.config_file.support import CONFIGURATION, folder
from tests.helpers.server.running import running

PAYMENT: Mapping[str, Any] = {"to": "bob", "amount": 5}
FILE = "name: {name}\nsystem_prompt: {prompt}\ncapabilities: [test_math]\n"

pytestmark = [pytest.mark.spec("P16"), pytest.mark.realtime]


@pytest.fixture
def clerk(tmp_path: Path) -> Command:
    """Give the command where an agent is installed whose payments somebody has to approve."""
    return make_clerk(tmp_path)


def write(file: Path, *, name: str = "adder", prompt: str = "Add.") -> Path:
    """Write a configuration file."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(FILE.format(name=name, prompt=prompt), encoding="utf-8")
    return file


@pytest.mark.spec("G18")
def test_a_client_that_starts_it_again_goes_on_where_it_was(clerk: Command) -> None:
    with speaking(clerk, "--agent", "clerk") as client:
        assert client.call("pay", **PAYMENT)[0]
    (request,) = requests(clerk)
    for size in (6, 12):
        with speaking(clerk, "--agent", "clerk") as client:
            refusals = [client.call("pay", **PAYMENT) for _ in range(5)]
            assert requests(clerk) == [request]
            for refused, text in refusals:
                assert refused
                assert f"The request is {request['id']}; once it is approved, make the same call again." in text
            assert client.call("note", text="asked ") == (False, str(size))
    done = clerk("approvals", "approve", request["id"], "--principal", "boss")
    assert done.code == 0, done.err
    with speaking(clerk, "--agent", "clerk") as client:
        assert client.call("pay", **PAYMENT) == (False, "bob has 5")
        refused, text = client.call("pay", **PAYMENT)
        assert (refused, request["id"] in text) == (True, False), "the approval was for one call"
    assert [row["status"] for row in requests(clerk)] == ["pending", "used"]
    assert paid(clerk.folder) == ["bob 5"]
    assert sessions(clerk) == [request["session"]]


@pytest.mark.spec("G17")
def test_the_same_call_gets_its_rejection_after_a_new_start_too(clerk: Command) -> None:
    with speaking(clerk, "--agent", "clerk") as client:
        assert client.call("pay", **PAYMENT)[0]
    (request,) = requests(clerk)
    assert clerk("approvals", "reject", request["id"], "--principal", "boss", "--note", "too much").code == 0
    with speaking(clerk, "--agent", "clerk") as client:
        refused, text = client.call("pay", **PAYMENT)
        assert (refused, "rejected by user:boss: too much\ncode: approval_rejected" in text) == (True, True)
    assert len(requests(clerk)) == 1
    assert paid(clerk.folder) == []


@pytest.mark.spec("G18")
def test_it_is_the_session_that_a_server_has_of_the_agent(clerk: Command) -> None:
    """Asked for over standard streams, approved over REST, and made over HTTP; of agents in code and stored ones."""
    with running(clerk.folder, PYTHONPATH=clerk.environ["PYTHONPATH"]) as server:
        key = server.key("ada", scopes=["capset:call", "capset:write"])
        boss = server.key("boss", scopes=["capset:approve"])
        created = posted(f"{server.url}/v1/agents", key, {"name": "teller", "capabilities": ["till"]})
        stored = json.loads(created)["id"]
        payment = {"name": "pay", "arguments": PAYMENT}
        tool_call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": payment}
        for agent in ("clerk", stored):
            options = ("--agent", agent, "--principal", "ada")
            with speaking(clerk, *options) as client:
                assert client.call("pay", **PAYMENT)[0]
            request = requests(clerk)[0]
            posted(f"{server.url}/v1/approvals/{request['id']}/approve", boss, {})
            done = posted(f"{server.url}/mcp/agents/{agent}", key, tool_call)
            assert '"structuredContent":{"result":"bob has 5"}' in done
            assert sessions(clerk, "--principal", "ada")[0] == served(clerk, *options) == request["session"]
        assert len(sessions(clerk, "--principal", "ada")) == 2
    assert paid(clerk.folder) == ["bob 5"] * 2


def posted(url: str, key: str, body: Mapping[str, Any]) -> str:
    """Return what a server answers to a request that it grants."""
    headers = {"Authorization": f"Bearer {key}", "Accept": "application/json, text/event-stream"}
    answer = httpx2.post(url, json=dict(body), headers=headers, timeout=60, trust_env=False)
    assert answer.is_success, answer.text
    return answer.text


def test_a_session_is_of_one_principal_and_one_agent(clerk: Command) -> None:
    path, other_path = write(clerk.folder / "adder.yaml"), write(clerk.folder / "other" / "adder.yaml")
    (clerk.folder / "link.yaml").symlink_to(path)
    first = served(clerk, "--agent", "adder.yaml")
    for same in (str(path), "other/../adder.yaml", "link.yaml"):
        assert served(clerk, "--agent", same) == first
    others = [
        served(clerk, "--agent", str(other_path)),
        served(clerk, "--agent", "adder.yaml", "--principal", "ada"),
        served(clerk, "--agent", "clerk"),
        served(clerk, "--agent", "clerk", "--principal", "ada"),
    ]
    assert len({first, *others}) == 5


def test_a_session_moves_to_what_its_file_says_now(clerk: Command) -> None:
    file = write(clerk.folder / "adder.yaml")
    first = served(clerk, "--agent", "adder.yaml")
    before = clerk("sessions", "show", first, "--json").json
    write(file, prompt="Add, and say so.")
    assert served(clerk, "--agent", "adder.yaml") == first
    after = clerk("sessions", "show", first, "--json").json
    assert before["static_hash"] != after["static_hash"]
    write(file, name="summer")
    assert served(clerk, "--agent", "adder.yaml") != first, "another agent that stands where the first one did"
    write(file)
    assert served(clerk, "--agent", "adder.yaml") == first


def test_a_configuration_file_has_one_too(clerk: Command) -> None:
    file = folder(clerk.folder, {"capset.json": CONFIGURATION}) / "capset.json"
    first = served(clerk, "--agent", "capset.json")
    assert served(clerk, "--agent", str(file)) == first
    assert served(clerk, "--agent", "capset.json", "--principal", "ada") != first


def test_a_new_session_is_had_by_asking_for_it(clerk: Command) -> None:
    session = served(clerk, "--agent", "clerk")
    first, second = (served(clerk, "--agent", "clerk", "--new-session") for _ in range(2))
    assert served(clerk, "--agent", "clerk") == session
    assert served(clerk, "--session", second) == second
    assert sessions(clerk) == [second, first, session]


def test_one_that_was_deleted_begins_again(clerk: Command) -> None:
    first = served(clerk, "--agent", "clerk")
    assert clerk("sessions", "delete", first).code == 0
    renewed = served(clerk, "--agent", "clerk")
    assert renewed != first
    assert sessions(clerk) == [renewed]


def test_two_processes_share_it(clerk: Command) -> None:
    with speaking(clerk, "--agent", "clerk") as first, speaking(clerk, "--agent", "clerk") as other:
        assert [client.call("pay", **PAYMENT)[0] for client in (first, other)] == [True, True]
        (request,) = requests(clerk)
        assert clerk("approvals", "approve", request["id"], "--principal", "boss").code == 0
        assert [client.call("pay", **PAYMENT)[0] for client in (other, first)] == [False, True]
        assert first.call("note", text="seen") == (False, "4")
        assert other.call("note", text="too") == (False, "7")
        assert first.end() == other.end()
    assert paid(clerk.folder) == ["bob 5"]


def test_processes_that_start_at_once_make_one(clerk: Command) -> None:
    started = [Speaking(clerk.start("mcp", "--agent", "clerk", stdin=subprocess.PIPE)) for _ in range(4)]
    (session,) = {process.end() for process in started}
    assert sessions(clerk) == [session]
