"""``capset bench``: what calls of a tool cost (spec 5, P62)."""

from __future__ import annotations

from pathlib import Path

import pytest

from capset.kernel.call.compiled_tools import PHASES
from tests.helpers.cli.mcp_servers import declare
from tests.helpers.cli.support import ADD, FILES, Run

WRITE = ("session_file_system.write_file", "--args", '{"path": "/a.txt", "content": "x"}', *FILES)
pytestmark = pytest.mark.spec("P62")


def test_it_says_what_a_call_costs_and_where(run: Run) -> None:
    done = run("bench", *ADD[1:], "--calls", "20")
    assert done.code == 0
    named = [line.rpartition("  ")[0].strip() or line for line in done.out.splitlines()]
    for part in ("bare: validation and the handler", "governed", *PHASES, "on record"):
        assert any(part in line for line in named), (part, done.out)
    assert "best of 5 rounds of 20 calls" in done.said
    report = run("bench", *ADD[1:], "--calls", "20", "--json").json
    assert (report["tool"], report["effect"], report["calls"]) == ("add", "read", 20)
    assert list(report["phases_us"]) == list(PHASES)
    assert 0 < report["bare_us"] < report["governed_us"]
    assert report["phases_us"]["run"] > 0
    assert report["recorded_cpu_us"] > report["bare_us"]


def test_the_records_go_to_a_file_that_is_removed_or_to_the_one_that_is_named(run: Run, tmp_path: Path) -> None:
    assert run("bench", *ADD[1:], "--calls", "3").code == 0
    assert list(tmp_path.glob("**/*.db")) == []
    assert run("bench", *ADD[1:], "--calls", "3", "--db", "mine.db").code == 0
    records = run("audit", "query", "--db", "mine.db", "--json").out
    assert records.count('"add"') > 3 * 5
    assert run("audit", "verify", "--db", "mine.db").code == 0


def test_a_tool_that_changes_something_is_called_only_if_it_may_be(run: Run) -> None:
    refused = run("bench", *WRITE)
    assert (refused.code, refused.out, "--effects" in refused.said) == (2, "", True)
    report = run("bench", *WRITE, "--effects", "--calls", "2", "--json").json
    assert (report["bare_us"], report["effect"]) == (None, "write")
    assert report["phases_us"]["admit"] > 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("test_math.divide", "--args", '{"a": 1, "b": 0}'), "zero"),
        (("test_math.add", "--args", '{"a": 1}'), "b"),
        (("test_math.multiplied",), "did you mean"),
        (("session_file_system.list_directory",), "lacks the permission"),
    ],
)
def test_the_first_call_that_does_not_succeed_ends_it(run: Run, args: tuple[str, ...], message: str) -> None:
    done = run("bench", *args, "--calls", "5")
    assert done.code != 0
    assert (done.out, message in done.said) == ("", True)


@pytest.mark.realtime
def test_a_tool_of_a_server_is_measured_as_it_is_approved_elsewhere(run: Run, tmp_path: Path) -> None:
    file = declare(tmp_path, "shelf", more="    rules: {add: {effect: read}}\n")
    line = ("bench", "shelf_add", "--agent", file, "--args", '{"a": 1, "b": 2}', "--calls", "2")
    refused = run(*line)
    assert refused.code != 0
    assert "no tool of shelf is approved in this database: name yours with --db" in refused.said
    assert not (tmp_path / "capset.db").exists()
    assert run("mcp", "approve", "--agent", file, "shelf", "add").code == 0
    assert run(*line, "--json").json["tool"] == "shelf_add"
    assert "shelf_add" not in run("audit", "query", "--json").out
    assert "name yours with --db" in run(*line, "--db", "other.db").said
    assert run(*line, "--db", "capset.db").code == 0
