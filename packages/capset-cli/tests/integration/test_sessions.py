"""``--session`` goes on with what an earlier command began; ``--agent`` says who begins it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.cli.support import FILES, Command, Done, Run

AGENT = """
name: librarian
system_prompt: You keep a library.
instructions: [Answer briefly.]
capabilities: [session_file_system, test_math]
"""


@pytest.fixture
def agent(run: Run, tmp_path: Path) -> str:
    (tmp_path / "librarian.yaml").write_text(AGENT, encoding="utf-8")
    return "librarian.yaml"


def call(run: Run, tool: str, *options: str, **arguments: Any) -> Done:
    """Call a tool with whatever arguments it takes."""
    return run("call", tool, "--args", json.dumps(arguments), *FILES, "--json", *options)


@pytest.mark.spec("P25")
def test_a_session_goes_on_with_its_agent_and_its_files(run: Run, agent: str) -> None:
    first = call(run, "write_file", "--agent", agent, path="/a.txt", content="mine")
    assert first.code == 0
    session = first.json["session"]
    Path(agent).unlink()
    resumed = call(run, "read_file", "--session", session, path="/a.txt")
    assert resumed.json["data"]["content"] == "mine"
    assert resumed.json["session"] == session
    assert resumed.json["prompt_hash"] == first.json["prompt_hash"], "the agent is as it was, though its file is gone"
    assert resumed.json["runtime_hash"] == first.json["runtime_hash"]
    assert call(run, "test_math.add", "--session", session, a=1, b=2).json["data"]["result"] == 3
    other = call(run, "session_file_system.read_file", path="/a.txt")
    assert other.json["session"] != session
    assert other.code == 1, "a session never reaches another's files"
    records = run("audit", "query", "--session", session, "--json").json["items"]
    assert {record["agent"] for record in records} == {"librarian"}


def test_another_principal_finds_no_such_session(run: Run, agent: str) -> None:
    session = call(run, "list_directory", "--agent", agent).json["session"]
    refused = call(run, "list_directory", "--session", session, "--principal", "mallory")
    assert refused.code == 2
    assert (refused.json["error"]["status"], "record" in refused.json) == (404, False)
    missing = call(run, "list_directory", "--session", "0" * 36)
    assert (missing.code, missing.json["error"]["status"]) == (2, 404)


def test_a_session_whose_agent_lost_a_capability_says_so(workshop: Command) -> None:
    done = workshop("call", "nothing", "--agent", "foreman", "--json")
    assert done.code == 0
    without = Command(workshop.folder, {**workshop.environ, "PYTHONPATH": ""})
    lost = without("call", "nothing", "--session", done.json["session"], "--json")
    assert lost.code == 2
    assert "unknown capability 'workshop'" in lost.json["error"]["message"]


def test_an_agent_comes_by_file_or_by_name(workshop: Command) -> None:
    (workshop.folder / "mine.yml").write_text("name: mine\ncapabilities: [workshop]\n", encoding="utf-8")
    for named, name in (("foreman", "foreman"), ("foreman-1.5", "foreman-1.5"), ("mine.yml", "mine")):
        done = workshop("call", "nothing", "--agent", named, "--json")
        assert done.code == 0, done.out
        (record,) = workshop("audit", "query", "--record", done.json["record"], "--json").json["items"]
        assert record["agent"] == name
    misspelt = workshop("call", "nothing", "--agent", "forman", "--json")
    assert (misspelt.code, misspelt.json["error"]["message"]) == (
        2,
        "unknown agent 'forman'; did you mean 'foreman'?",
    )


@pytest.mark.spec("G2")
def test_a_capability_alone_has_its_own_tools_only(run: Run) -> None:
    done = call(run, "test_math.read_file", path="/x")
    assert done.code == 3
    assert done.json["error"]["status"] == 404
    (record,) = run("audit", "query", "--json").json["items"]
    assert (record["agent"], record["tool"], record["outcome"]) == ("test_math", "test_math.read_file", "not_found")
