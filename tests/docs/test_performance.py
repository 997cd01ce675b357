"""The pages and the chart of performance are those of the saved run."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from lab import growth
from lab.performance import CHART, CURVES, GROWTH, LOAD, PAGE, RESULT, ROWS, chart, page, rows_page

ANEW = "write it anew: python -m lab.performance"
SVG = "{http://www.w3.org/2000/svg}"


def test_the_pages_and_the_chart_say_what_was_measured() -> None:
    result, grown, load = (json.loads(path.read_text(encoding="utf-8")) for path in (RESULT, CURVES, LOAD))
    assert PAGE.read_text(encoding="utf-8") == page(result), ANEW
    assert ROWS.read_text(encoding="utf-8") == rows_page(result, grown, load), ANEW
    assert GROWTH.read_text(encoding="utf-8") == growth.chart(grown, load), ANEW
    assert CHART.read_text(encoding="utf-8") == chart(result), ANEW


def test_each_row_that_is_not_met_is_named_with_what_was_asked() -> None:
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    unmet_section = ROWS.read_text(encoding="utf-8").partition("## Not met")[2].partition("## All rows")[0]
    for row in result["rows"]:
        line = f"- {row['name']}: {row['value']:g} {row['unit']}; target {row['direction']} {row['target']:g}, missed"
        assert (line in unmet_section) == (not row["met"])


def test_a_saved_run_has_the_peers_and_names_no_machine() -> None:
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    assert result.keys() == {"machine", "packages", "quick", "rows"}
    assert result["machine"].keys() == {"cores", "system", "python"}
    names = [row["name"] for row in result["rows"]]
    assert {"pydantic-ai ToolManager.handle_call", "FastMCP call_tool", "LangChain ainvoke"} <= set(names)
    assert "OpenAI Agents on_invoke_tool" in names


def test_a_bar_is_as_long_as_the_logarithm_of_its_time() -> None:
    times = {"bare": "1.00 µs", "bare, after one suspension": "10.00 µs", "governed <call>": "100.00 µs"}
    row = {"name": "one", "unit": "times a bare validated await", "peers": {**times, "FastMCP": "not installed"}}
    drawn = ElementTree.fromstring(chart({"rows": [row]}))
    first, second, third = [float(bar.get("width", "")) for bar in drawn.iter(f"{SVG}rect")]
    assert (first, third) == (0, pytest.approx(2 * second, rel=0.01))
    texts = [text.text for text in drawn.iter(f"{SVG}text")]
    assert {"governed <call>", "1 µs", "100 µs"} <= set(texts)
    assert "FastMCP" not in texts


def test_a_line_of_growth_rises_by_the_logarithm_of_what_it_shows() -> None:
    curve = {"name": "a < b", "of": "tools", "unit": "µs", "lines": {"call": [[10, 1], [100, 10], [1000, 100]]}}
    rows = [{"cores_each": 0.25, "servers": count, "workers": count, "rate": 100 * count} for count in (1, 2)]
    load = {"replicas": {"rows": rows}, "workers": {"rows": rows}}
    drawn = ElementTree.fromstring(growth.chart({"one": {"curves": [curve]}}, load))
    first = next(drawn.iter(f"{SVG}polyline"))
    points = [[float(coordinate) for coordinate in point.split(",")] for point in first.get("points", "").split()]
    (left, low), (middle, between), (right, high) = points
    assert (middle, between) == (pytest.approx((left + right) / 2), pytest.approx((low + high) / 2))
    assert low > high
    assert "a < b, µs" in [text.text for text in drawn.iter(f"{SVG}text")]
    assert len(list(drawn.iter(f"{SVG}polyline"))) == 3


def test_the_saved_curves_reach_the_numbers_that_were_asked_for() -> None:
    grown = json.loads(CURVES.read_text(encoding="utf-8"))
    reached = {
        curve["of"]: max(x for x, _ in points)
        for part in grown.values()
        for curve in part["curves"]
        for points in curve["lines"].values()
    }
    assert reached == {
        "registered tools": 10_000, "open sessions": 1_000_000, "stored sessions": 1_000_000, "records": 10_000_000,
    }  # fmt: skip
