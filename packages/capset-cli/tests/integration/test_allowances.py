"""``--limit``, ``--session-budget``, ``--run-budget`` and ``--usage-limit`` (spec 4, G36; spec 6, R24)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capset.errors import DefinitionError
from capset.ext import Allowance, Budget
from capset_cli.common.allowances import allowance_from_options, load_allowance
from tests.helpers.cli.foundry import message
from tests.helpers.cli.mcp import client
from tests.helpers.cli.support import ADD, Command, Run
from tests.helpers.connect.config_file.support import folder

FILE = '[allowance]\nlimits = ["3/1m"]\nsession = {calls = 3}\nrun = {cost = 3}\n'
VARIABLES = {"CAPSET_LIMIT": "2/1m, 20/1h,", "CAPSET_SESSION_BUDGET": "calls=2", "CAPSET_RUN_BUDGET": "cost=2"}


@pytest.mark.spec("G36")
def test_the_nearer_source_wins_and_the_others_fill_in(tmp_path: Path) -> None:
    def load(*options: Any, environ: dict[str, str]) -> Allowance | None:
        arguments = (*options, None, None, None)[:3]
        return load_allowance(*arguments, environ=environ, folder=tmp_path)

    assert load(environ={}) is None
    (tmp_path / "capset.toml").write_text(FILE, encoding="utf-8")
    assert load(environ={}) == Allowance(limits="3/1m", session=Budget(3), run=Budget(cost=3))
    environed = Allowance(limits=["2/1m", "20/1h"], session=Budget(2), run=Budget(cost=2))
    assert load(environ=VARIABLES) == environed
    flagged = load(["1/1m"], "calls=1,cost=1.5", environ=VARIABLES)
    assert flagged == Allowance(limits="1/1m", session=Budget(1, 1.5), run=Budget(cost=2))
    assert load(environ=dict.fromkeys(VARIABLES, "")) is None, "an empty variable wins over the file"
    assert allowance_from_options(None, None, None) is None


@pytest.mark.spec("G36", "R24")
def test_limits_on_usage_come_from_the_nearest_source(tmp_path: Path) -> None:
    def load_usage(*limits: str, **environ: str) -> str:
        return str(load_allowance(None, None, None, list(limits), environ=environ, folder=tmp_path))

    assert load_usage() == "None"
    (tmp_path / "capset.toml").write_text('[allowance]\nusage = ["cost=5/1d", {tokens = 9, per = "session"}]\n')
    assert load_usage() == "cost=5.0/1d; tokens=9 per session"
    environ = {"CAPSET_USAGE_LIMIT": "tokens=7,cost=1/1d; steps=2/1h per org;"}
    assert load_usage(**environ) == "tokens=7,cost=1.0/1d; steps=2/1h per org"
    assert load_usage("steps=3/1m", "steps=9/1h", **environ) == "steps=3/1m; steps=9/1h"
    assert load_usage(CAPSET_USAGE_LIMIT="") == "None", "an empty variable wins over the file"


@pytest.mark.spec("G36", "R24")
def test_a_wrong_limit_on_usage_is_one_clear_sentence(run: Run, tmp_path: Path) -> None:
    key = ("key", "create", "k", "--principal", "a")
    for line in (key, ("serve", "--port", "0"), ("run", "a.yaml", "go"), ("chat", "a.yaml")):
        done = run(*line, "--usage-limit", "tokens=5")
        assert (done.code, "--usage-limit: a usage limit has a window, such as '1d'" in done.said) == (2, True), (
            done.said
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("G36", "G13")
@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--limit", "100/1w", "--limit: a window is a whole number and s, m, h or d, such as '1h'; got '1w'"),
        ("--limit", "100", "--limit: a limit is written as '100/1h'; got '100'"),
        ("--limit", "0/1h", "--limit: a limit's requests are a whole number"),
        ("--session-budget", "calls=-1", "--session-budget: a budget's calls are a whole number, 0 to"),
        ("--session-budget", "tokens=5", "--session-budget must be calls=100, cost=2.5, or both"),
        ("--session-budget", "100", "--session-budget must be calls=100, cost=2.5, or both"),
        ("--run-budget", "calls=1.5", "--run-budget must be calls=100, cost=2.5, or both"),
        ("--run-budget", "calls=1,calls=2", "--run-budget must be calls=100, cost=2.5, or both"),
        ("--run-budget", "cost=nan", "--run-budget: a budget's cost is a number, 0 or more"),
        ("--run-budget", "cost=1_0", "--run-budget must be"),
        ("--run-budget", "", "--run-budget must be"),
    ],
)
def test_what_is_none_is_one_clear_sentence_and_makes_nothing(
    run: Run, tmp_path: Path, option: str, value: str, expected: str
) -> None:
    key = ("key", "create", "k", "--principal", "a")
    for line in (ADD, key, ("serve", "--port", "0"), ("mcp", "--agent", "a.yaml")):
        done = run(*line, option, value)
        assert (done.code, expected in done.said) == (2, True), (line, done.said)
    done = run("kernel", "--agent", "a.yaml", option.replace("--limit", "--rate-limit"), value)
    assert (done.code, expected.replace("--limit", "--rate-limit") in done.said) == (2, True), done.said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("G36")
@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("CAPSET_LIMIT", "1/1w", "CAPSET_LIMIT: a window is"),
        ("CAPSET_SESSION_BUDGET", "calls", "CAPSET_SESSION_BUDGET must be calls=100"),
        ("CAPSET_RUN_BUDGET", "cost=-1", "CAPSET_RUN_BUDGET: a budget's cost"),
    ],
)
def test_a_variable_that_is_wrong_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, expected: str
) -> None:
    monkeypatch.setenv(variable, value)
    done = run(*ADD)
    assert (done.code, expected in done.said) == (2, True), done.said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("allowance = 5", "capset.toml: allowance must be a table, such as [allowance]; got 5"),
        ("[allowance]\nlimit = 5", "capset.toml: allowance: an allowance: unknown field 'limit'"),
        ("[allowance]\nlimits = 5", "capset.toml: allowance: an allowance: limits: a limit is"),
        ("[allowance]\nrun = {calls = -1}", "capset.toml: allowance: a budget's calls"),
    ],
)
def test_a_settings_file_that_is_wrong_is_named(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "capset.toml").write_text(text, encoding="utf-8")
    with pytest.raises(DefinitionError) as error:
        load_allowance(None, None, None, environ={}, folder=tmp_path)
    assert expected in error.value.message


@pytest.mark.spec("G36", "G14")
def test_a_limit_holds_from_one_call_to_the_next(run: Run) -> None:
    """Each is a kernel of its own; the database is theirs together."""
    assert [run(*ADD, "--limit", "2/1h").code for _ in range(3)] == [0, 0, 3]
    refused = run(*ADD, "--limit", "2/1h", "--json").json["error"]
    assert (refused["code"], "this server is limited to 2/1h" in refused["message"]) == ("limit_exceeded", True)
    assert run(*ADD).code == 0, "who sets no limit has none"


@pytest.mark.spec("G36", "G15")
def test_a_session_has_one_budget_in_all_its_openings(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(*ADD, "--session-budget", "calls=2", "--json").json
    call = (*ADD, "--session", first["session"], "--json")
    assert run(*call, "--session-budget", "calls=2").code == 0
    spent = run(*call, "--session-budget", "calls=2")
    assert (spent.code, spent.json["error"]["code"]) == (3, "budget_exceeded")
    monkeypatch.setenv("CAPSET_SESSION_BUDGET", "calls=1")
    assert run(*ADD).code == 0
    assert run(*call).code == 3


@pytest.mark.spec("G36")
def test_a_budget_for_an_unknown_session_is_refused_as_the_session_is(run: Run) -> None:
    nowhere = ("--session", "nope", "--session-budget", "calls=1")
    done = run(*ADD, *nowhere)
    assert (done.code, Path("capset.db").exists()) == (2, False)
    assert run(*ADD).code == 0
    records = len(run("audit", "query", "--json").json["items"])
    done = run(*ADD, *nowhere, "--json")
    assert (done.code, done.json["error"]["code"]) == (2, "not_found")
    assert done.json["error"]["message"] == "there is no session 'nope' of 'local'"
    assert len(run("audit", "query", "--json").json["items"]) == records
    assert len(run("sessions", "list", "--json").json["items"]) == 1


@pytest.mark.spec("G36")
def test_a_server_has_its_own(run: Run) -> None:
    for option in (("--limit", "1/1h"), ("--session-budget", "calls=1"), ("--run-budget", "calls=1")):
        done = run(*ADD, "--session", "x", "--url", "http://127.0.0.1:1", *option)
        assert (done.code, f"{option[0]} is for work on this machine" in done.said) == (2, True), done.said


SUMS = """
actions: [{name: add, tool: test_math.add, permissions: []}]
governance: {allowance: {limits: [%s], session: {calls: 100}}}
"""


@pytest.mark.spec("G36", "G27")
@pytest.mark.parametrize(("filed", "flag_limit"), [("1/1h", "2/1h"), ("2/1h", "1/1h")])
def test_of_the_file_and_the_command_line_the_lower_holds(
    run: Run, tmp_path: Path, filed: str, flag_limit: str
) -> None:
    folder(tmp_path, {"capset.yaml": SUMS % filed})
    call = ("call", "add", "--agent", "capset.yaml", "--args", '{"a": 1, "b": 2}', "--json", "--limit", flag_limit)
    assert run(*call).code == 0
    assert "is limited to 1/1h" in run(*call).json["error"]["message"]
    report = run("check", "capset.yaml", "--json").json
    assert report["allowance"] == {"limits": [filed], "session": {"calls": 100}}
    assert f"within {filed}; session calls=100" in run("check", "capset.yaml").said


@pytest.mark.realtime
@pytest.mark.spec("G36")
def test_the_kernel_command_has_both_limits(foundry: Command) -> None:
    """``--limit`` says there how many calls run at once."""
    lines = "\n".join(message("echo", {"text": "x"}, f"{number}", kind="query") for number in range(3))
    served = ("kernel", "--agent", "founder", "--limit", "1", "--rate-limit", "2/1h")
    answers = [json.loads(line) for line in foundry(*served, stdin=lines).out.splitlines()]
    assert [answer["kind"] for answer in answers] == ["reply", "reply", "error"]
    assert answers[-1]["data"]["code"] == "limit_exceeded"


@pytest.mark.nightly
@pytest.mark.spec("G36")
async def test_an_mcp_server_holds_its_client_to_them(capset: Command) -> None:
    (capset.folder / "agent.yaml").write_text(
        "name: adder\ncapabilities: [test_math]\nallowance: {session: {calls: 2}}\n", encoding="utf-8"
    )
    for options, calls in (((), 2), (("--limit", "1/1h", "--principal", "eve"), 1)):
        async with client(capset, "--agent", "agent.yaml", *options) as mcp_client:
            failed = [(await mcp_client.call_tool("add", {"a": 1, "b": 2})).is_error for _ in range(3)]
        assert failed == [False] * calls + [True] * (3 - calls)


@pytest.mark.spec("G36", "P14")
def test_a_key_is_made_with_an_allowance_and_lists_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "capset.toml").write_text(FILE, encoding="utf-8")
    options = ("--limit", "5/1m", "--limit", "50/1d", "--session-budget", "calls=9,cost=0.5", "--run-budget", "cost=2")
    options += ("--usage-limit", "tokens=1000,cost=2/1d per org")
    created = run("key", "create", "k", "--principal", "ada", *options, "--json").json
    expected = {
        "limits": ["5/1m", "50/1d"],
        "session": {"calls": 9, "cost": 0.5},
        "run": {"cost": 2.0},
        "usage": [{"tokens": 1000, "cost": 2.0, "window": "1d", "per": "org"}],
    }
    assert created["allowance"] == expected
    assert "allowance" not in run("key", "create", "plain", "--principal", "bob", "--json").json, "none from the file"
    plain, limited = run("key", "list", "--json").json["items"]
    assert (limited["allowance"], "allowance" in plain) == (expected, False)
    listing = " ".join(run("key", "list").out.split())
    assert "5/1m; 50/1d;" in listing
    assert "tokens=1000,cost=2/1d per org" in listing
