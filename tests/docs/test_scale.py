"""The page of scale and its chart are those of the saved runs."""

from __future__ import annotations

import json

from lab.scale import CHART, LOAD, PAGE, SOAK, page
from lab.siege.mixed.chart import chart

ANEW = "write it anew: python -m lab.scale"


def test_the_page_and_the_chart_say_what_was_measured() -> None:
    load, soak = (json.loads(path.read_text(encoding="utf-8")) for path in (LOAD, SOAK))
    assert PAGE.read_text(encoding="utf-8") == page(load, soak), ANEW
    assert CHART.read_text(encoding="utf-8") == chart(soak), ANEW


def test_saved_runs_name_no_machine() -> None:
    load, soak = (json.loads(path.read_text(encoding="utf-8")) for path in (LOAD, SOAK))
    for run in (*load.values(), soak):
        assert run["machine"].keys() == {"cores", "system", "python", "load"}
