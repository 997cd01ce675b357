"""The commands that run a configuration file's actions: ``--agent`` (spec 4, G8, G27)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import capset
from tests.helpers.cli.support import Command, Run, clean_environment
from tests.helpers.connect.config_file.support import CONFIGURATION, folder

HERE = str(Path(capset.__file__).parents[1])
PARIS = '{"location": "Paris"}'


@pytest.mark.spec("G27")
def test_call_runs_an_action_under_its_governance(run: Run, tmp_path: Path) -> None:
    folder(tmp_path, {"capset.json": CONFIGURATION})
    call = ("call", "get-weather", "--agent", "capset.json", "--args", PARIS, "--json")
    refused = run(*call)
    assert (refused.code, refused.json["error"]["code"]) == (3, "permission_denied")
    done = run(*call, "--grant", "weather:read")
    assert (done.code, done.json["data"]) == (0, {"location": "Paris", "for": "local"})
    (last, first) = run("audit", "query", "--json").json["items"]
    assert (last["agent"], last["tool"], last["outcome"], first["outcome"]) == (
        *("capset", "get-weather", "succeeded", "denied"),
    )


@pytest.mark.spec("G8", "G27")
def test_what_the_file_grants_to_everybody_is_granted(run: Run, tmp_path: Path) -> None:
    text = CONFIGURATION.replace('"default_permissions": []', '"default_permissions": ["weather:read"]')
    folder(tmp_path, {"capset.json": text})
    done = run("call", "get-weather", "--agent", "capset.json", "--args", PARIS, "--json")
    assert done.code == 0
    assert "every principal holds weather:read" in done.said


@pytest.mark.spec("G27")
def test_a_session_goes_on_with_its_file(run: Run, tmp_path: Path) -> None:
    folder(tmp_path, {"capset.json": CONFIGURATION})
    call = ("call", "get-weather", "--args", PARIS, "--json", "--grant", "weather:read")
    session = run(*call, "--agent", "capset.json").json["session"]
    resumed = run(*call, "--session", session)
    assert (resumed.code, resumed.json["session"]) == (0, session)
    (tmp_path / "handlers" / "weather.py").write_text("def handler(params): return 1", encoding="utf-8")
    other = run(*call, "--session", session)
    assert (other.code, "has changed since the session" in other.json["error"]["message"]) == (2, True)


@pytest.mark.spec("G28")
@pytest.mark.parametrize("command", [("call", "get-weather"), ("kernel",), ("mcp",), ("serve", "--port", "0")])
def test_a_bad_file_runs_nothing_and_makes_no_database(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    folder(tmp_path, {"capset.json": CONFIGURATION.replace('"./handlers/notify.py"', '"./handlers/no.py"')})
    option = () if command[0] == "serve" else ("--agent",)
    done = run(*command, *option, "capset.json")
    assert done.code == 2
    assert "line 9: actions.1.handler (action 'send-notification')" in done.said
    assert not list(tmp_path.glob("capset.db*"))


def test_a_session_has_its_own_agent(run: Run) -> None:
    for command in (("call", "x"), ("kernel",), ("mcp",)):
        done = run(*command, "--agent", "other", "--session", "s")
        assert (done.code, "give --agent or --session, not both" in done.said) == (2, True)


@pytest.mark.realtime
@pytest.mark.spec("G27")
def test_the_kernel_takes_messages_for_its_actions(tmp_path: Path) -> None:
    folder(tmp_path, {"capset.json": CONFIGURATION})
    command = Command(tmp_path, clean_environment(tmp_path, PYTHONPATH=HERE))
    line = json.dumps({"kind": "command", "type": "get-weather", "data": {"location": "Oslo"}}) + "\n"
    done = command("kernel", "--agent", "capset.json", "--grant", "weather:read", stdin=line)
    assert done.code == 0
    assert json.loads(done.out)["data"] == {"location": "Oslo", "for": "local"}
