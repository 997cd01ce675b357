"""``capset doctor``: what is wrong with an installation is named, with the way to mend it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from capset.clock import iso
from capset.extras import extras_of
from tests.helpers.cli.support import Run
from tests.helpers.connect.mcp.opening import SCRIPT


def diagnoses(run: Run, *options: str) -> dict[str, list[dict[str, Any]]]:
    """Return what the doctor says, by check."""
    done = run("doctor", *options, "--json")
    items: dict[str, list[dict[str, Any]]] = {}
    for item in done.json["items"]:
        items.setdefault(item["check"], []).append(item)
    levels = [item["level"] for item in done.json["items"]]
    assert done.code == ("problem" in levels)
    return items


def test_a_new_installation_has_no_problem(run: Run, tmp_path: Path) -> None:
    items = diagnoses(run)
    assert {item["level"] for entries in items.values() for item in entries} <= {"ok", "note"}
    assert "no database yet" in items["database"][0]["message"]
    assert not list(tmp_path.glob("*.db"))
    text = run("doctor")
    assert (text.code, "sandbox" in text.out) == (0, True)


@pytest.mark.realtime
def test_a_server_without_approvals_a_secret_and_a_dead_one_are_problems(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = {"command": [sys.executable, str(SCRIPT), "shelf", str(tmp_path)], "env": {"SHELF": "${SHELF_KEY}"}}
    dead = {"command": [sys.executable, "-c", "raise SystemExit(3)"]}
    (tmp_path / "capset.json").write_text(json.dumps({"mcp_servers": {"shelf": shelf, "dead": dead}}))
    items = diagnoses(run, "capset.json")
    (secret,) = items["secrets"]
    assert (secret["level"], "SHELF_KEY is not set" in secret["message"]) == ("problem", True)
    monkeypatch.setenv("SHELF_KEY", "x")
    items = diagnoses(run, "capset.json")
    assert items["secrets"][0]["level"] == "ok"
    servers = {item["message"].partition(":")[0]: item for item in items["servers"]}
    assert {name: item["level"] for name, item in servers.items()} == {"shelf": "problem", "dead": "problem"}
    assert "0 of " in servers["shelf"]["message"]
    assert run(*servers["shelf"]["remedy"].split()[1:]).code == 0, "the remedy is a command that mends it"
    items = diagnoses(run, "capset.json")
    assert [item["level"] for item in items["servers"] if item["message"].startswith("shelf")] == ["ok"]


def test_an_invalid_file_and_a_file_that_is_no_database_are_problems(run: Run, tmp_path: Path) -> None:
    (tmp_path / "capset.yaml").write_text("nam: x\nactions: 5\n")
    (tmp_path / "other.db").write_text("not a database, but long enough to be taken for one by its size")
    items = diagnoses(run, "capset.yaml", "--db", "other.db")
    assert "(and 1 more)" in items["file"][0]["message"]
    assert items["database"][0]["level"] == "problem"


def test_a_record_from_the_future_is_a_problem_of_the_clock(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("call", "test_math.add", "--args", '{"a": 1, "b": 2}').code == 0
    assert diagnoses(run)["clock"][0]["level"] == "ok"
    monkeypatch.setattr("capset_cli.doctor.iso", lambda _: iso(0))
    assert diagnoses(run)["clock"][0]["level"] == "problem"


def test_extras_are_found_through_the_packages_beside() -> None:
    states = extras_of()
    assert states["mcp"]
    assert states["testing"]
    assert extras_of("no-such-package") == {}
