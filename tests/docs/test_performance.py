"""The page and the chart of performance are those of the saved run."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from scripts.performance import CHART, PAGE, RESULT, chart, page

ANEW = "write it anew: python -m scripts.performance"
SVG = "{http://www.w3.org/2000/svg}"


def test_the_page_and_the_chart_say_what_was_measured() -> None:
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    assert PAGE.read_text(encoding="utf-8") == page(result), ANEW
    assert CHART.read_text(encoding="utf-8") == chart(result), ANEW


def test_a_saved_run_has_the_peers_and_names_no_machine() -> None:
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    assert result.keys() == {"machine", "packages", "quick", "rows"}
    assert result["machine"].keys() == {"cores", "system", "python"}
    names = [row["name"] for row in result["rows"]]
    assert {"pydantic-ai ToolManager.handle_call", "FastMCP call_tool", "LangChain ainvoke"} <= set(names)
    assert "OpenAI Agents on_invoke_tool" in names


def test_a_bar_is_as_long_as_the_logarithm_of_its_time() -> None:
    told = {"bare": "1.00 µs", "bare, after one suspension": "10.00 µs", "governed <call>": "100.00 µs"}
    row = {"name": "one", "unit": "times a bare validated await", "peers": {**told, "FastMCP": "not installed"}}
    drawn = ElementTree.fromstring(chart({"rows": [row]}))
    first, second, third = [float(bar.get("width", "")) for bar in drawn.iter(f"{SVG}rect")]
    assert (first, third) == (0, pytest.approx(2 * second, rel=0.01))
    texts = [text.text for text in drawn.iter(f"{SVG}text")]
    assert {"governed <call>", "1 µs", "100 µs"} <= set(texts)
    assert "FastMCP" not in texts
