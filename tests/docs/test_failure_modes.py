"""The page about failure modes says what a saved run found, and names tests that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lab.failure_modes import PAGE, RESULT, page
from lab.faults.matrix.cells import ROWS

ROOT = Path(__file__).parents[2]
TEST = re.compile(r"((?:packages|tests|lab)/[\w/-]+\.py)::(\w+)")


@pytest.mark.spec("D47")
def test_the_page_says_what_was_found() -> None:
    report = json.loads(RESULT.read_text(encoding="utf-8"))
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(report, text), "write it anew: python -m lab.failure_modes"
    assert f"of {report['runs']} runs" in text


@pytest.mark.spec("D47")
def test_the_saved_run_is_of_the_whole_matrix_and_names_no_machine() -> None:
    report = json.loads(RESULT.read_text(encoding="utf-8"))
    assert report["machine"].keys() == {"cores", "system", "python"}
    assert report["runs"] == sum(cell["runs"] for cell in report["cells"]) >= 300
    expected = {(row.component, row.fault, row.engine, moment) for row in ROWS for moment in row.moments}
    assert {(cell["component"], cell["fault"], cell["engine"], cell["moment"]) for cell in report["cells"]} == expected


def test_the_tests_that_the_page_names_exist() -> None:
    named = TEST.findall(PAGE.read_text(encoding="utf-8"))
    assert len(named) >= 6
    for file, function in named:
        assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file} has no {function}"
