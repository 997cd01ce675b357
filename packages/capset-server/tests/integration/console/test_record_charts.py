"""The record in graphs: time line, charts, limits (spec 9)."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from functools import partial
from html import unescape
from typing import Any

import httpx2
import pytest

from capset import Principal
from capset.definitions.governance.allowances import Allowance
from capset.definitions.governance.limits import Limit
from capset_server.auth.keys import create_key
from tests.helpers.server.console.auditing import auditing, called, reading
from tests.helpers.server.support import Site


@pytest.fixture(scope="module")
async def shop() -> AsyncGenerator[Site]:
    async with auditing() as server:
        principal = Principal("limited", org="acme", allowance=Allowance(limits=Limit(500, "1h")))
        _, server.keys["limited"] = await create_key(server.kernel, "limited", principal, scopes=["capset:admin"])
        yield server


@pytest.fixture
async def boss(shop: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    async with reading(shop) as client:
        yield client


def data_of(page: httpx2.Response, name: str) -> dict[str, Any]:
    """Return the data of a chart as the script reads it."""
    match = re.search(rf'id="chart-{name}" data-chart="([^"]*)"', page.text)
    assert match is not None, page.text
    return json.loads(unescape(match[1]))


@pytest.mark.spec("N16")
async def test_the_time_line_leads_to_the_records_of_each_bar(shop: Site, boss: httpx2.AsyncClient) -> None:
    session = await called(shop, "one", "two")
    page = await boss.get("/audit/timeline", params={"session": session, "bucket": "1h"})
    (bar,) = re.findall(r'<tr class="went-wrong"><td class="nowrap"><a href="([^"]+)".*?</tr>', page.text)
    assert re.findall(r'<rect class="(\w+)"', page.text).count("ground") == 25
    assert {"succeeded", "refused", "failed"} <= {*re.findall(r'<rect class="(\w+)"', page.text)}
    listing = await boss.get(unescape(bar))
    assert listing.text.split("<tbody>", 1)[1].count("<tr") == 4
    assert f'value="{session}"' in listing.text


@pytest.mark.spec("N16")
async def test_charts_have_the_numbers_of_the_summary_and_a_table_of_them(shop: Site, boss: httpx2.AsyncClient) -> None:
    session = await called(shop, "one", "two", "three")
    page = await boss.get("/audit/charts", params={"session": session})
    assert "is_partial" not in page.text
    assert "There are more calls" not in page.text
    outcomes = {series["label"]: sum(series["values"]) for series in data_of(page, "outcomes")["series"]}
    assert outcomes == {"succeeded": 3, "failed": 1, "denied": 1}
    decisions = {series["label"]: sum(series["values"]) for series in data_of(page, "decisions")["series"]}
    assert decisions == {"allow": 4, "deny": 1}
    latency = data_of(page, "latency")
    assert [series["label"] for series in latency["series"]] == ["p50", "p95", "p99"]
    assert all(len(series["values"]) == len(latency["x"]) for series in latency["series"])
    for title in ("How calls ended", "What policies decided", "How long calls took"):
        assert re.search(rf'aria-label="{title}[^"]*"><table>', page.text), title
    assert '<code>echo</code></a></td>\n<td><progress max="5" value="3"' in page.text
    for name in ("uPlot.iife.min.js", "uPlot.min.css", "charts.js"):
        (path,) = re.findall(rf'"(/static/\w+/{re.escape(name)})"', page.text)
        assert (await boss.get(path)).status_code == 200
    assert "uPlot" not in (await boss.get("/audit")).text, "only where there are charts"


@pytest.mark.spec("N16")
async def test_it_is_said_when_not_all_calls_are_counted(
    shop: Site, boss: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await called(shop, "one", "two", "three")
    monkeypatch.setattr(shop.kernel.audit, "measure", partial(shop.kernel.audit.measure, measured=2))
    for path in ("/audit/timeline", "/audit/charts"):
        page = await boss.get(path)
        assert "There are more calls in this time than are counted" in page.text
        assert "the newest 2 calls" in page.text


@pytest.mark.spec("N16")
async def test_limits_are_shown_with_what_is_used(shop: Site, boss: httpx2.AsyncClient) -> None:
    async with reading(shop, "limited") as limited:
        own_charts = await limited.get("/audit/charts")
    other = await boss.get("/audit/charts", params={"principal": "limited"})
    for page in (own_charts, other):
        assert "of user:limited" in page.text
        assert '<meter min="0" max="500.0"' in page.text
        assert "of 500" in page.text
    assert "Nothing limits you here" in (await boss.get("/audit/charts")).text


@pytest.mark.spec("N16")
@pytest.mark.parametrize("path", ["/audit/timeline", "/audit/charts"])
async def test_what_is_no_time_or_step_is_said_at_its_field(boss: httpx2.AsyncClient, path: str) -> None:
    for wrong in ({"since": "x"}, {"bucket": "2s"}):
        (name,) = wrong
        page = await boss.get(path, params=wrong)
        assert (page.status_code, f'id="error-{name}"' in page.text) == (422, True)
    page = await boss.get(path, params={"since": "2026-01-01T00:00", "until": "2025-01-01T00:00"})
    assert (page.status_code, "since must be before until" in page.text) == (422, True)
    page = await boss.get(path, params={"since": "2020-01-01T00:00", "bucket": "1m"})
    assert (page.status_code, "would do" in page.text) == (422, True)
    for since, until in (
        ("2020-01-01T00:00", "2020-01-02T00:00"),
        ("0001-01-01T00:00:00", "0001-01-02T00:00:00"),
        ("9999-12-31T00:00:00", "9999-12-31T23:59:59.9"),
    ):
        page = await boss.get(path, params={"since": since, "until": until, "bucket": "7d"})
        assert (page.status_code, "No call ended" in page.text) == (200, True), (since, page.text)
