"""The benchmarks print what they document; how fast anything is, no test says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lab.benchmarks.row import Row

ROOT = Path(__file__).parents[2]


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_quick_run_prints_one_json_list_and_saves_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lab.benchmarks", "--quick", "--json", "--save", str(tmp_path / "saved.json")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=880,  # it takes little over a minute, where nothing runs beside it
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    saved = json.loads((tmp_path / "saved.json").read_text(encoding="utf-8"))
    assert saved["rows"] == rows
    assert saved["quick"] is True
    assert saved["machine"].keys() == {"cores", "system", "python"}
    names = [row["name"] for row in rows]
    assert len(names) == len(set(names))
    assert "governed call, three policies, one suspends" in names
    assert [name for name in names if name.startswith("durable intent and outcome")]
    assert [name for name in names if name.startswith("governed call by name, among")]
    assert {"read call with a shared limit, 64 at once", "write call with a shared limit, 64 at once"} <= set(names)
    assert {"import of capset's names", "capset --version", "a 1.5 kB tool's first hash"} <= set(names)
    for row in rows:
        assert set(row) == {"name", "value", "unit", "target", "direction", "met", "peers"}
        assert row["direction"] in ("at most", "at least")
        # Memory that the process had let go before may serve again.
        assert row["value"] > 0 or (row["unit"] == "MB" and row["value"] == 0)
        assert row["met"] is (
            row["value"] <= row["target"] if row["direction"] == "at most" else row["value"] >= row["target"]
        )
        assert row["peers"], "a value alone says little: what was measured beside it stands with it"


@pytest.mark.parametrize(
    ("value", "direction", "met"),
    [(5, "at most", True), (6, "at most", True), (7, "at most", False), (7, "at least", True), (5, "at least", False)],
)
def test_a_target_is_met_or_not(value: float, direction: str, met: bool) -> None:
    assert direction in ("at most", "at least")
    row = Row("x", value, "times", 6, "at most" if direction == "at most" else "at least")
    assert row.plain()["met"] is met
