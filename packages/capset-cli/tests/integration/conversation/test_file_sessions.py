"""Sessions of agents in files go on by their ids alone (spec 7, M6)."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.cli.support import Run
from tests.helpers.connect.mcp.opening import SCRIPT

pytestmark = pytest.mark.realtime

STEPS: tuple[dict[str, Any], ...] = (
    {"calls": [{"tool": "shelf_add", "arguments": {"a": 1, "b": 2}}]},
    {"text": "Three."},
)


def shelf(folder: Path) -> dict[str, Any]:
    """Return the declaration of a server of the tests."""
    return {"mcp_servers": {"shelf": {"command": [sys.executable, str(SCRIPT), "shelf", str(folder)]}}}


def adder(folder: Path, **more: Any) -> None:
    """Write a configuration file that declares its server, and approve its tool."""
    definition = {"name": "adder", "description": "Adds.", "capabilities": ["mcp:shelf"], **shelf(folder), **more}
    (folder / "adder.json").write_text(json.dumps(definition))


def newest(run: Run) -> str:
    return run("sessions", "list", "--json").json["items"][0]["id"]


@pytest.fixture
def model(tmp_path: Path) -> tuple[str, str]:
    """Return the options of a model that adds in each of two turns."""
    (tmp_path / "script.json").write_text(json.dumps({"steps": [*STEPS, *STEPS]}))
    return "--model", f"script:{tmp_path / 'script.json'}"


@pytest.mark.spec("M6")
def test_a_session_knows_the_file_that_declares_its_servers(
    run: Run, tmp_path: Path, model: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    adder(tmp_path)
    assert run("mcp", "approve", "shelf", "add", "--agent", "adder.json").code == 0
    first = run("run", "adder.json", "add", *model)
    assert (first.code, first.out) == (0, "Three.\n"), first.said
    session = newest(run)
    adder(tmp_path, system_prompt="You add.")
    monkeypatch.setenv("CAPSET_DB", f"sqlite:///{tmp_path / 'capset.db'}")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    resumed = run("run", "--session", session, "and again", *model)
    assert (resumed.code, resumed.out) == (0, "Three.\n"), resumed.said
    called = run("call", "shelf_add", "--session", session, "--args", '{"a": 2, "b": 2}')
    assert json.loads(called.out) == {"total": 4}, called.said
    chat = run("chat", "--resume", session, *model, stdin="")
    assert chat.code == 0, chat.said
    outcomes = [(record["tool"], record["outcome"]) for record in run("audit", "query", "--json").json["items"]]
    assert outcomes.count(("shelf_add", "succeeded")) == 3
    (tmp_path / "adder.json").unlink()
    other = run("run", "--session", session, "and again", *model, "--principal", "eve")
    assert (other.code, "adder" in other.said) == (2, False), other.said
    gone = run("run", "--session", session, "and again", *model)
    assert (gone.code, f"{tmp_path / 'adder.json'}: cannot be read" in gone.said) == (2, True), gone.said
    assert f"the session {session!r} needs the file with which it was started" in gone.said


@pytest.mark.spec("M6")
def test_servers_of_agents_within_are_known_too(run: Run, tmp_path: Path, model: tuple[str, str]) -> None:
    adder(tmp_path)
    assert run("mcp", "approve", "shelf", "add", "--agent", "adder.json").code == 0
    (tmp_path / "head.json").write_text(json.dumps({"name": "head", "agents": ["./adder.json"]}))
    steps: dict[str, Any] = {
        "head": [{"calls": [{"tool": "adder", "arguments": {"input": "add"}}]}, {"text": "Done."}] * 2
    }
    steps["adder"] = [*STEPS, *STEPS]
    (tmp_path / "script.json").write_text(json.dumps({"agents": steps}))
    assert run("run", "head.json", "add", *model).out == "Done.\n"
    resumed = run("run", "--session", newest(run), "and again", *model)
    assert (resumed.code, resumed.out) == (0, "Done.\n"), resumed.said
    outcomes = [(record["tool"], record["outcome"]) for record in run("audit", "query", "--json").json["items"]]
    assert outcomes.count(("shelf_add", "succeeded")) == 2


@pytest.mark.spec("M6")
def test_a_session_of_a_file_is_governed_as_the_file_says(run: Run, tmp_path: Path, model: tuple[str, str]) -> None:
    adder(tmp_path)
    assert run("mcp", "approve", "shelf", "add", "--agent", "adder.json").code == 0
    assert run("run", "adder.json", "add", *model).out == "Three.\n"
    session = newest(run)
    adder(tmp_path, governance={"allowance": {"session": {"calls": 1}}})
    call = ("call", "shelf_add", "--session", session, "--args", '{"a": 2, "b": 2}')
    assert [run(*call).code, run(*call).code] == [0, 3], "the second call is over the budget"


@pytest.mark.spec("M6", "G27")
def test_a_policy_that_a_file_gets_later_is_not_left_out(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "sums.json"
    definition: dict[str, Any] = {"name": "sums", "capabilities": ["test_math"], "governance": {}}
    file.write_text(json.dumps(definition))
    first = run("call", "add", "--agent", "sums.json", "--args", '{"a": 1, "b": 2}')
    assert first.code == 0, first.said
    again = ("call", "add", "--session", newest(run), "--args", '{"a": 1, "b": 2}')
    assert run(*again).code == 0
    (tmp_path / "policies.py").write_text(
        "from capset import deny\n\ndef closed(request):\n    return deny('closed')\n"
    )
    file.write_text(json.dumps(definition | {"policies": ["./policies.py:closed"]}))
    refused = run(*again)
    assert (refused.code, "has changed since the session" in refused.said) == (2, True), refused.said
    file.write_text(json.dumps(definition))
    assert run(*again).code == 0


@pytest.mark.spec("M6")
def test_a_session_is_continued_under_a_file_that_is_named(run: Run, tmp_path: Path) -> None:
    definition = {"name": "sums", "capabilities": ["test_math"]}
    (tmp_path / "sums.json").write_text(json.dumps(definition))
    assert run("call", "add", "--agent", "sums.json", "--args", '{"a": 1, "b": 2}').code == 0
    session = newest(run)
    governed = definition | {"governance": {"allowance": {"session": {"calls": 1}}}}
    (tmp_path / "moved.json").write_text(json.dumps(governed))
    call = ("call", "add", "--session", session, "--args", '{"a": 1, "b": 2}')
    assert [run(*call, "--agent", "moved.json").code for _ in range(2)] == [0, 3]
    assert run(*call).code == 0
    both = run(*call, "--agent", "other")
    assert (both.code, "not both" in both.said) == (2, True), both.said


@pytest.mark.spec("M6")
@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no such owners on Windows")
def test_a_file_that_others_can_change_is_not_read_because_a_database_names_it(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "sums.json"
    file.write_text(json.dumps({"name": "sums", "capabilities": ["test_math"], "governance": {}}))
    assert run("call", "add", "--agent", "sums.json", "--args", '{"a": 1, "b": 2}').code == 0
    call = ("call", "add", "--session", newest(run), "--args", '{"a": 1, "b": 2}')
    file.chmod(0o666)
    refused = run(*call)
    assert (refused.code, "other users can change" in refused.said) == (2, True), refused.said
    assert run(*call, "--agent", "sums.json").code == 0, "the person who names it trusts it"
