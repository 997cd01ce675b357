"""What third parties install: it works like a built-in, and what is broken is named and keeps out nothing else."""

from __future__ import annotations

import pytest

from capset.extras import install_command
from tests.helpers.cli.support import ADD, Command, install

HALF = """
from capset import Capability, tool


@tool(effect="read")
async def old_tool() -> str:
    \"\"\"Do it the old way.\"\"\"
    return "old"


@tool(effect="read")
async def new_tool() -> str:
    \"\"\"Do it.\"\"\"
    return "new"


old = Capability("old", status="deprecated", tools=[old_tool])
soon = Capability("soon", status="coming_soon", tools=[new_tool])
gone = Capability("gone", status="retired", tools=[new_tool])
number = 5
"""
POINTS = {
    "raises": "raising:thing",
    "unwritten": "unwritten:thing",
    "missing": "half:nothing_of_that_name",
    "number": "half:number",
    "absent": "absent_module:thing",
    "old": "half:old",
    "soon": "half:soon",
    "gone": "half:gone",
}


@pytest.mark.spec("P1")
def test_what_is_broken_is_named_and_the_rest_works(workshop: Command) -> None:
    packages = workshop.folder / "packages"
    (packages / "raising.py").write_text("raise RuntimeError('[red]boom[/] :x: \\x1b[31m')", encoding="utf-8")
    (packages / "unwritten.py").write_text("thing = ", encoding="utf-8")
    install(packages, "half", HALF, capabilities=POINTS)
    done = workshop("list")
    assert done.code == 0
    warnings = dict(line.removeprefix("warning: ").split(": ", 1) for line in done.err.splitlines())
    assert set(warnings) == {"raises", "unwritten", "missing", "number", "absent"}
    assert warnings["raises"] == "RuntimeError while loading raising:thing: [red]boom[/] :x: \\x1b[31m"
    assert "SyntaxError while loading unwritten:thing" in warnings["unwritten"]
    assert "nothing_of_that_name" in warnings["missing"]
    assert warnings["number"] == "half:number is int, not Capability"
    assert "No module named 'absent_module'" in warnings["absent"]
    assert [name for name in ("test_math", "workshop", "old") if name not in done.out] == []
    listing = workshop("list", "--json")
    statuses = {item["id"]: item["status"] for item in listing.json["items"]}
    assert statuses["test_math"] == "available"
    problems = {problem["entry_point"]: problem["message"] for problem in listing.json["problems"]}
    assert problems == {name: problem.replace("\\x1b", "\x1b") for name, problem in warnings.items()}
    (workshop.folder / "a.yaml").write_text("name: a\ncapabilities: [number]\n", encoding="utf-8")
    for line in (("describe", "number"), ("call", "number.x"), ("compose", "a.yaml")):
        refused = workshop(*line)
        assert refused.code == 2
        assert "capability 'number' is installed, but could not be loaded: half:number is int" in refused.said
    assert workshop(*ADD).code == 0
    assert workshop("call", "raises.anything").code == 2


def test_what_needs_an_extra_that_is_missing_is_listed_with_the_command_that_installs_it(workshop: Command) -> None:
    install(workshop.folder / "packages", "half", HALF, capabilities={"old": "half:old [far]", "soon": "half:soon"})
    (metadata,) = (workshop.folder / "packages").glob("half-*.dist-info/METADATA")
    metadata.write_text(metadata.read_text() + "Requires-Dist: no-such-package ; extra == 'far'\n", encoding="utf-8")
    done = workshop("list")
    assert done.code == 0
    (old,) = [line.split() for line in done.out.splitlines() if line.startswith("old ")]
    assert old[:3] == ["old", "needs", "[far]"]
    assert done.err == f"old needs: {install_command('far', package='half')}\n"
    assert workshop("list", "--json").json["missing_extras"] == {"old": ["far"]}


@pytest.mark.spec("P2")
def test_a_status_says_what_a_capability_still_gives(workshop: Command) -> None:
    install(workshop.folder / "packages", "half", HALF, capabilities=POINTS)
    (workshop.folder / "a.yaml").write_text("name: a\ncapabilities: [old, soon, gone]\n", encoding="utf-8")
    composed = workshop("compose", "a.yaml", "--json")
    assert composed.code == 0
    assert composed.json["capabilities"] == ["old"]
    assert [tool["name"] for tool in composed.json["tools"]] == ["old_tool"]
    assert len(composed.json["notices"]) == 3
    composition = workshop("compose", "a.yaml")
    for notice in ("'old' is deprecated", "'soon' is coming soon", "'gone' is retired"):
        assert notice in composition.err
    assert workshop("call", "soon.new_tool", "--json").json["error"]["status"] == 404


def test_two_capabilities_of_one_name_are_refused_by_name(workshop: Command) -> None:
    code = 'from capset import Capability\nnoop = Capability("noop")\n'
    install(workshop.folder / "packages", "twin", code, capabilities={"noop": "twin:noop"})
    done = workshop("list")
    assert done.code == 2
    assert "two different capabilities named 'noop' are installed: noop = " in done.err
    assert "noop = twin:noop of twin" in done.err
    assert " of capset" in done.err


@pytest.mark.spec("C15")
def test_two_tools_of_one_name_are_refused_naming_both(workshop: Command) -> None:
    code = """
from capset import Capability, tool

@tool(effect="read")
async def echo(text: str) -> str:
    \"\"\"Say it again.\"\"\"
    return text

parrot = Capability("parrot", tools=[echo])
"""
    install(workshop.folder / "packages", "birds", code, capabilities={"parrot": "birds:parrot"})
    (workshop.folder / "a.yaml").write_text("name: a\ncapabilities: [workshop, parrot]\n", encoding="utf-8")
    for arguments in (("compose", "a.yaml"), ("call", "echo", "--agent", "a.yaml")):
        done = workshop(*arguments, "--json")
        assert (done.code, done.json["error"]["code"]) == (2, "invalid_definition")
        message = done.json["error"]["message"]
        assert "two different tools named 'echo'" in message
        assert "capability 'workshop' (a → workshop) and capability 'parrot' (a → parrot)" in message
    assert "rename one" in workshop("compose", "a.yaml").err


POLITE = """
import os

from capset import Capability, policy, tool

print("imported")


@policy
def for_pros(request: object) -> bool:
    return request.env.get("tier") == "pro" and request.env.get("seats", 0) > 1


@tool(effect="read", policies=[for_pros])
async def chatty() -> str:
    \"\"\"Print a lot.\"\"\"
    print("printed by a handler")
    return "result"


@tool(effect="read")
async def leave() -> str:
    \"\"\"End the process, or try to.\"\"\"
    raise SystemExit(0)


polite = Capability("polite", tools=[chatty, leave])
"""
PRO = ("--env", "tier=pro", "--env", "seats=2")


def test_what_a_handler_prints_is_beside_the_result(workshop: Command) -> None:
    install(workshop.folder / "packages", "polite", POLITE, capabilities={"polite": "polite:polite"})
    done = workshop("call", "polite.chatty", *PRO, "--json")
    assert (done.code, done.json["data"]) == (0, "result")
    assert done.err.splitlines() == ["imported", "printed by a handler"]
    assert workshop("call", "polite.chatty", *PRO).out == "result\n"


def test_policies_read_the_environment_of_the_flags_and_of_the_file(workshop: Command) -> None:
    install(workshop.folder / "packages", "polite", POLITE, capabilities={"polite": "polite:polite"})
    (workshop.folder / "a.yaml").write_text("name: a\ncapabilities: [polite]\n", encoding="utf-8")
    assert workshop("call", "polite.chatty").code == 3
    assert workshop("call", "polite.chatty", "--env", "tier=pro", "--env", 'seats="x"').code == 3
    assert "● chatty" in workshop("compose", "a.yaml", *PRO).out
    assert "○ chatty" in workshop("compose", "a.yaml").out
    (workshop.folder / "capset.toml").write_text('[env]\ntier = "pro"\nseats = 2\n', encoding="utf-8")
    assert "● chatty" in workshop("compose", "a.yaml").out
    assert workshop("call", "polite.chatty").code == 0
    assert workshop("call", "polite.chatty", "--env", "tier=free").code == 3


def test_a_tool_cannot_end_its_host(workshop: Command) -> None:
    install(workshop.folder / "packages", "polite", POLITE, capabilities={"polite": "polite:polite"})
    done = workshop("call", "polite.leave", "--json")
    assert (done.code, done.json["error"]["code"]) == (1, "internal_error")
    assert workshop("audit", "query", "--json").json["items"][0]["outcome"] == "failed"


def test_progress_is_told_to_people_and_kept_from_programs(workshop: Command) -> None:
    steps = ("call", "workshop.steps", "--args", '{"count": 2}')
    done = workshop(*steps)
    assert done.out == "2\n"
    assert done.err.splitlines()[:2] == ["  0% [red]step 0[/]", " 50% [red]step 1[/]"]
    program = workshop(*steps, "--json")
    assert (program.json["data"], program.err) == (2, "")


@pytest.mark.realtime
@pytest.mark.spec("G24")
def test_a_handler_that_breaks_shows_nothing_of_its_inside(workshop: Command) -> None:
    done = workshop("call", "workshop.crash", "--json")
    assert (done.code, done.json["error"]["code"], done.json["error"]["status"]) == (1, "internal_error", 500)
    assert "hunter2" not in f"{done.out}{done.err}"
    assert done.err.splitlines() == [f"error: tool 'crash' failed, correlation {done.json['error']['correlation']}"]
    debugged = workshop.start("call", "workshop.crash", env={"CAPSET_DEBUG": "1"})
    _, err = debugged.communicate(timeout=60)
    assert debugged.returncode == 1
    assert "RuntimeError: the password is hunter2" in err, "the log, for whoever asks for it"


@pytest.mark.spec("K16")
def test_a_timeout_ends_a_call(workshop: Command) -> None:
    done = workshop("call", "workshop.wait", "--args", '{"seconds": 3600}', "--timeout", "0.2", "--json")
    assert (done.code, done.json["error"]["status"]) == (1, 504)
    (record,) = workshop("audit", "query", "--outcome", "timed_out", "--json").json["items"]
    assert record["id"] == done.json["record"]
    in_time = workshop("call", "workshop.wait", "--args", '{"seconds": 0.01}', "--timeout", "inf", "--json")
    assert (in_time.code, in_time.json["data"]) == (0, "waited")
