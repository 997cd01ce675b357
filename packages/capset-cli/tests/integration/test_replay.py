"""``capset replay``: what an agent could do then, and what it can do now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capset.evaluation.snapshot.envelope import read_envelope
from capset.wire.diffs import ReplayShape
from tests.helpers.cli.support import FILES, Command, Run, install
from tests.helpers.cli.versions import keep

pytestmark = pytest.mark.spec("F33")
AGENT: dict[str, Any] = {"name": "librarian", "capabilities": ["session_file_system", "test_math"]}


@pytest.fixture
def then(run: Run, tmp_path: Path) -> Path:
    """Keep the envelope of the agent in a file."""
    (tmp_path / "a.json").write_text(json.dumps(AGENT), encoding="utf-8")
    env = ("--env", "tier=pro", "--env", "db_password=hunter2")
    assert run("fingerprint", "a.json", *FILES, *env, "--principal", "ada", "--envelope", "then.json").code == 0
    return tmp_path


def test_where_nothing_changed(run: Run, then: Path) -> None:
    done = run("replay", "then.json", "--agent", "a.json", "--exit-code")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "librarian as seen by ada: 12 tools then, 12 now"
    for line in ("= add", "= accepts the envelope", "env that was not stored", "  db_password"):
        assert line in lines
    assert "hunter2" not in done.out


def test_what_changed(run: Run, then: Path) -> None:
    today = {**AGENT, "capabilities": ["session_file_system", {"id": "test_math", "rename": {"add": "plus"}}]}
    (then / "b.json").write_text(json.dumps(today), encoding="utf-8")
    assert run("replay", "then.json", "--agent", "b.json").code == 0
    done = run("replay", "then.json", "--agent", "b.json", "--exit-code")
    assert done.code == 3
    lines = done.out.splitlines()
    assert "- add  the agent has no tool of that name" in lines
    assert "~ refuses the envelope" in lines
    done = run("replay", "then.json", "--agent", "b.json", "--exit-code", "--json")
    replay = done.json
    assert done.code == 3
    assert ReplayShape.model_validate(replay).plain() == replay
    assert (replay["differs"], replay["only_now"], replay["dropped"]) == (True, ["plus"], ["db_password"])
    assert replay["only_then"] == [{"name": "add", "reason": "the agent has no tool of that name"}]
    assert [tool["name"] for tool in replay["hydrate"]["refused"]] == ["add"]
    assert replay["hydrate"]["accepts"] is False
    assert replay["diff"]["differs"] is True


def test_whoever_acts_may_be_another(run: Run, then: Path) -> None:
    def replay(*more: str) -> Any:
        return run("replay", "then.json", "--agent", "a.json", "--json", *more).json

    assert (replay()["principal"], replay()["permissions"]) == ("ada", ["session_files:read", "session_files:write"])
    other = replay("--principal", "bob")
    assert (other["principal"], other["permissions"]) == ("bob", [])
    assert {"name": "read_file", "reason": "bob lacks the permission session_files:read"} in other["only_then"]
    assert other["hydrate"]["accepts"] is True
    less = replay("--grant", "session_files:read")
    assert (less["principal"], less["permissions"]) == ("ada", ["session_files:read"])
    assert replay("--env", "db_password=x")["dropped"] == []
    assert replay("--env", "more=x")["dropped"] == ["db_password"]


def test_settings_of_today_do_not_change_who_acted(run: Run, then: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPSET_PRINCIPAL", "eve")
    monkeypatch.setenv("CAPSET_GRANT", "")
    (then / "capset.toml").write_text('[env]\ntier = "free"\n', encoding="utf-8")
    done = run("replay", "then.json", "--agent", "a.json", "--exit-code", "--json")
    assert (done.code, done.json["principal"]) == (0, "ada")


def test_stdin_and_ids(run: Run, then: Path) -> None:
    text = (then / "then.json").read_text(encoding="utf-8")
    expected = run("replay", "then.json", "--agent", "a.json", "--json").json
    assert run("replay", "-", "--agent", "a.json", "--json", stdin=text).json == expected
    link = keep(read_envelope(text))
    assert run("replay", link, "--agent", "a.json", "--json").json == expected
    theirs = keep(read_envelope(text), org="acme")
    assert run("replay", theirs, "--agent", "a.json").code == 2
    assert run("replay", theirs, "--agent", "a.json", "--org", "acme", "--json").json == expected
    bare = keep(read_envelope(text).link)
    done = run("replay", bare, "--agent", "a.json")
    assert done.code == 2
    assert "is a link, which has hashes only" in done.said


def test_the_agent_is_the_one_that_the_envelope_names(run: Run, then: Path) -> None:
    done = run("replay", "then.json")
    assert done.code == 2
    assert "there is no agent 'librarian', and none named 'librarian'" in done.said
    assert "--agent" in done.said
    run("fingerprint", "test_math", "--envelope", "math.json")
    assert run("replay", "math.json", "--exit-code").code == 0


def test_an_installed_agent_that_changed(workshop: Command) -> None:
    assert workshop("fingerprint", "foreman", "--envelope", "then.json").code == 0
    assert workshop("replay", "then.json", "--exit-code").code == 0
    shop = workshop.folder / "packages" / "shop.py"
    shop.write_text(shop.read_text(encoding="utf-8").replace("Give back what", "Return what"), encoding="utf-8")
    done = workshop("replay", "then.json", "--exit-code", "--json")
    assert done.code == 3
    (changed,) = done.json["diff"]["tools"]["changed"]
    assert (changed["name"], changed["changes"][0]["path"]) == ("echo", "description")
    assert done.json["hydrate"]["refused"][0]["name"] == "echo"


GATED = '''
from capset import Agent, Capability, policy, tool, deny, allow

@policy
def by_tier(request):
    return allow() if request.env.get("tier") == "pro" else deny("the tier is too low")

@tool(effect="read")
async def export() -> str:
    """Export."""
    raise RuntimeError("a replay runs no tool")

gated = Agent("gated", uses=[Capability("exports", tools=[export], policies=[by_tier])])
'''


def test_a_policy_that_flips(workshop: Command) -> None:
    install(workshop.folder / "packages", "gates", GATED, agents={"gated": "gates:gated"})
    assert workshop("fingerprint", "gated", "--env", "tier=pro", "--envelope", "then.json").code == 0
    replay = workshop("replay", "then.json", "--env", "tier=free", "--json").json
    assert replay["flipped"] == ["by_tier"]
    assert replay["only_then"] == [{"name": "export", "reason": "the tier is too low"}]
    assert "~ by_tier  allow → deny (the tier is too low)" in workshop("replay", "then.json", "--env", "tier=free").out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nowhere.json", "there is no file 'nowhere.json'"),
        ("a.json --agent a.json", "a.json is a configuration file: replay needs an envelope"),
        ("forged.json --agent a.json", "does not match its hash"),
        ("then.json --agent nobody", "nor is a capability of that name installed"),
        ("then.json --agent a.json --env x", "--env must be KEY=VALUE"),
        ("then.json --agent a.json --grant x", "a permission must match"),
    ],
)
def test_what_cannot_be_replayed_ends_with_2(run: Run, then: Path, line: str, message: str) -> None:
    text = (then / "then.json").read_text(encoding="utf-8")
    (then / "forged.json").write_text(text.replace('"effect":"read"', '"effect":"write"'), encoding="utf-8")
    done = run("replay", *line.split())
    assert done.code == 2
    assert message in done.said
