"""What stands around MCP-GuardBench: its environment, the operators, the relay to its servers, and the tables."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.guardbench import report
from lab.guardbench.__main__ import BEGIN, PAGE, render
from lab.guardbench.environment import ROOT, find_python
from lab.guardbench.lab.operators import OPERATORS

PINS, RULES = OPERATORS
UV = Path(sys.executable).with_name("uv")


def offer(tool: str, **hints: bool) -> dict[str, Any]:
    return {"tool": tool, "now": {"name": tool, "annotations": hints} if hints else {"name": tool}}


def found(*results: dict[str, Any]) -> report.Report:
    """Return a report of an attack and a case that is none; what is not given went well."""
    outcomes = {(outcome["control"], outcome["case"]): outcome for outcome in results}
    quiet = {"status": "completed", "error": None, "detected": False, "prevented": False, "false_positive": False}
    return report.read(
        {
            "cases": [
                {"id": "AB-001", "name": "Attack", "is_attack": True},
                {"id": "CD-001", "name": "None", "is_attack": False},
            ],
            "results": [
                {"control": control, "case": case, "unsafe": [], "said": []} | quiet | outcomes.get((control, case), {})
                for control in report.CONTROLS
                for case in ("AB-001", "CD-001")
            ],
        }
    )


@pytest.mark.realtime
def test_without_a_python_for_it_that_is_said_in_one_line(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path), "HOME": str(tmp_path), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    command = [sys.executable, "-m", "lab.guardbench"]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    message = "guardbench: nothing was run: mcp-guardbench needs Python 3.12 or newer, and there is none\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, message, "")


@pytest.mark.realtime
def test_a_python_is_found_where_pyenv_keeps_its_versions(tmp_path: Path) -> None:
    if (real := find_python(UV, dict(os.environ))) is None:
        pytest.skip("there is no Python of 3.12 or newer here")
    folder = tmp_path / ".pyenv" / "versions" / "3.12.0" / "bin"
    folder.mkdir(parents=True)
    (folder / "python3").symlink_to(Path(real).resolve())
    python = find_python(UV, {"PATH": "", "HOME": str(tmp_path)})
    assert python is not None
    assert Path(python).is_relative_to(folder)


@pytest.mark.realtime
def test_an_option_that_there_is_not_is_refused() -> None:
    command = [sys.executable, "-m", "lab.guardbench", "--wrote"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "guardbench: the only option is --write; got --wrote\n")


def test_an_operator_asks_for_all_that_is_not_said_to_read_only() -> None:
    offers = [offer("look", readOnlyHint=True), offer("send", readOnlyHint=False), offer("mute")]
    assert RULES.rules(offers) == {"*": {"approval": "ask"}, "look": {"effect": "read", "approval": "auto"}}
    assert RULES.governance(4_096) == {"result_bytes": 4_096}


def test_the_other_operator_declares_nothing() -> None:
    assert (PINS.rules([offer("send")]), PINS.governance(4_096)) == ({}, {})


@pytest.mark.realtime
def test_the_relay_passes_bytes_on_both_ways_and_ends_with_the_lab() -> None:
    with socket.create_server(("127.0.0.1", 0)) as lab:
        lab.settimeout(30)
        script = ROOT / "lab" / "guardbench" / "lab" / "relay.py"
        command = [sys.executable, "-I", "-S", script, str(lab.getsockname()[1])]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            connection, _ = lab.accept()
            with connection:
                process.stdin.write(b"asked\n")
                process.stdin.flush()
                assert connection.recv(100) == b"asked\n"
                connection.sendall(b"answered\n")
                assert process.stdout.readline() == b"answered\n"
            assert process.wait(30) == 0


def test_the_marks_are_of_every_control_with_their_sums() -> None:
    detected = {"control": "reference-static", "case": "AB-001", "detected": True}
    both = {"control": "capset-rules", "case": "AB-001", "detected": True, "prevented": True}
    alarm = {"control": "capset-rules", "case": "CD-001", "detected": True, "false_positive": True}
    assert found(detected, both, alarm).marks() == [
        ["case", "nothing", "static", "runtime", "pins", "pins, rules"],
        ["AB-001 Attack", "–", "D", "–", "–", "D P"],
        ["CD-001 None", "–", "–", "–", "–", "alarm"],
        ["attacks detected, prevented", "0, 0", "1, 0", "0, 0", "0, 0", "1, 1"],
    ]


def test_the_reasons_are_what_of_capset_it_was_and_what_happened_all_the_same() -> None:
    reports = [
        {"tool": "send", "rule": "approval_required", "text": ""},
        {"tool": "run", "rule": "approval_required", "text": ""},
        {"tool": "send", "rule": "approval_required", "text": ""},
        {"tool": "send", "rule": "limit_exceeded", "text": ""},
    ]
    attack = {"control": "capset-rules", "case": "AB-001", "said": reports, "unsafe": ["injection_reached_model"]}
    assert found(attack).reasons() == [
        ["case", "stopped or found by", "happens all the same"],
        ["AB-001", "an approval of `send`, `run`; limit_exceeded at `send`", "injection reached model"],
    ]
    assert found().reasons()[1] == ["AB-001", "–", "–"]


def test_a_case_that_could_not_be_played_is_no_result() -> None:
    broken = {"control": "capset-pins", "case": "AB-001", "status": "error", "error": "RuntimeError: no gateway"}
    skipped = {"control": "capset-pins", "case": "CD-001", "status": "skipped"}
    report = found(broken, skipped)
    assert [row[4] for row in report.marks()[1:3]] == ["error", "error"]
    assert report.errors == [
        "AB-001 before capset-pins: RuntimeError: no gateway",
        "CD-001 before capset-pins: skipped",
    ]


def test_the_tables_are_written_below_what_is_written_by_hand() -> None:
    page = render(f"By hand.\n\n{BEGIN}\n\nold\n", found())
    assert page.startswith(f"By hand.\n\n{BEGIN}\n\n| case | nothing | static | runtime | pins | pins, rules |\n|---|")
    assert page.endswith("| case | stopped or found by | happens all the same |\n|---|---|---|\n| AB-001 | – | – |\n")
    assert render(page, found()) == page


def test_lines_have_their_columns_below_each_other() -> None:
    assert report.plain([["a", "bc"], ["def", ""]]) == "a    bc\ndef"


def test_the_guide_has_the_tables_of_all_controls() -> None:
    _, _, tables = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    assert f"| case | {' | '.join(report.CONTROLS.values())} |" in tables
    assert tables.count("\n| TP-001") == 2
