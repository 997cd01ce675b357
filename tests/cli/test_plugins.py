"""What third parties install: it works like a built-in, and what is broken is named and keeps out nothing else."""

from __future__ import annotations

import time

import pytest

from tests.cli.support import ADD, Command, install

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
    listed = workshop("list", "--json")
    statuses = {item["id"]: item["status"] for item in listed.json["items"]}
    assert statuses["test_math"] == "available"
    assert workshop(*ADD).code == 0
    assert workshop("call", "raises.anything").code == 2


@pytest.mark.spec("P2")
def test_a_status_says_what_a_capability_still_gives(workshop: Command) -> None:
    install(workshop.folder / "packages", "half", HALF, capabilities=POINTS)
    (workshop.folder / "a.yaml").write_text("name: a\ncapabilities: [old, soon, gone]\n", encoding="utf-8")
    composed = workshop("compose", "a.yaml", "--json")
    assert composed.code == 0
    assert composed.json["capabilities"] == ["old"]
    assert [tool["name"] for tool in composed.json["tools"]] == ["old_tool"]
    assert len(composed.json["notices"]) == 3
    shown = workshop("compose", "a.yaml")
    for said in ("'old' is deprecated", "'soon' is coming soon", "'gone' is retired"):
        assert said in shown.err
    assert workshop("call", "soon.new_tool", "--json").json["error"]["status"] == 404


def test_two_capabilities_of_one_name_are_refused_by_name(workshop: Command) -> None:
    code = 'from capset import Capability\nnoop = Capability("noop")\n'
    install(workshop.folder / "packages", "twin", code, capabilities={"noop": "twin:noop"})
    done = workshop("list")
    assert done.code == 2
    assert "two different capabilities named 'noop' are installed" in done.err


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
        assert (done.code, done.json["error"]["code"]) == (2, "tool_name_conflict")
        assert "workshop.echo and parrot.echo are two different tools" in done.json["error"]["message"]
    assert "rename one" in workshop("compose", "a.yaml").err


def test_progress_is_told_to_people_and_kept_from_programs(workshop: Command) -> None:
    steps = ("call", "workshop.steps", "--args", '{"count": 2}')
    done = workshop(*steps)
    assert done.out == "2\n"
    assert done.err.splitlines()[:2] == ["  0% [red]step 0[/]", " 50% [red]step 1[/]"]
    program = workshop(*steps, "--json")
    assert (program.json["data"], program.err) == (2, "")


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
    started = time.monotonic()
    done = workshop("call", "workshop.wait", "--args", '{"seconds": 60}', "--timeout", "0.2", "--json")
    assert time.monotonic() - started < 20
    assert (done.code, done.json["error"]["status"]) == (1, 504)
    (record,) = workshop("audit", "query", "--outcome", "timed_out", "--json").json["items"]
    assert record["id"] == done.json["record"]
    in_time = workshop("call", "workshop.wait", "--args", '{"seconds": 0.01}', "--timeout", "inf", "--json")
    assert (in_time.code, in_time.json["data"]) == (0, "waited")
