"""Two saved runs in one table: what is better, as good, worse and new."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.benchmarks import compare


def row(name: str, value: float, direction: str = "at most", unit: str = "times", target: float = 5) -> dict[str, Any]:
    met = value <= target if direction == "at most" else value >= target
    return {"name": name, "value": value, "unit": unit, "direction": direction, "target": target, "met": met}


def test_a_row_is_better_or_worse_by_the_direction_of_its_target() -> None:
    before = [row("call", 10.0), row("peer", 2.0, "at least"), row("same", 1.0), row("other", 1.0, unit="ms")]
    after = [row("call", 5.0), row("peer", 1.0, "at least"), row("same", 1.04), row("other", 1.0), row("new", 1.0)]
    shares = {compared_row["name"]: share for _, compared_row, share in compare.compared(before, after)}
    assert shares["call"] == pytest.approx(1.0)
    assert shares["peer"] == pytest.approx(-0.5)
    assert (shares["other"], shares["new"]) == (None, None)
    lines = compare.table(before, after).splitlines()
    assert lines[2] == "| call | 10 | 5 times | 100% better | at most 5 |"
    assert lines[3] == "| peer | 2 | 1 times | 50% **worse** | at least 5: **not met** |"
    assert lines[4] == "| same | 1 | 1.04 times | as good | at most 5 |"
    assert lines[6] == "| new | – | 1 times |  | at most 5 |"


@pytest.mark.parametrize(("value", "status"), [(1.0, 0), (1.2, 1)])
def test_a_worse_row_is_told_by_the_exit_status(
    value: float, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, measured in (("before", 1.0), ("after", value)):
        (tmp_path / name).write_text(json.dumps({"rows": [row("call", measured)]}))
    monkeypatch.setattr(sys, "argv", ["compare", str(tmp_path / "before"), str(tmp_path / "after")])
    assert compare.main() == status
    assert "| call |" in capsys.readouterr().out
