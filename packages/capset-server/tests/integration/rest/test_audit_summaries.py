"""Summaries of calls over REST: counts, latency and tools, by time (spec 5, P55)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from capset.stores.base import Measured, MeasuredCall
from capset.wire.audit import summary_shape
from capset_testing.store_suite.support import entry
from tests.helpers.server.support import Site, call, make_session, problem, site

pytestmark = pytest.mark.spec("P55")


DAY = {"since": "2026-01-01T00:00:00Z", "until": "2026-01-01T02:00:00Z"}


@pytest.fixture(scope="module")
async def shared() -> AsyncGenerator[Site]:
    """Give a server with calls of two hours on record, and as many of another organisation."""
    async with site() as server:
        for number in range(100):
            time = f"2026-01-01T{number // 50:02}:{number % 50:02}:30.000000Z"
            outcome, decision = ("denied", "deny") if number % 10 == 0 else ("succeeded", "allow")
            more = {"act": None, "outcome": outcome, "decision": decision, "duration_us": number + 1, "time": time}
            server.kernel.audit.append(entry(f"e{number}", org="acme", tool=f"tool-{number % 12:02}", **more))
            server.kernel.audit.append(entry(f"f{number}", org="globex", tool="secret", **more))
        await server.kernel.audit.flush()
        yield server


async def summary_of(client: httpx2.AsyncClient, **query: str) -> dict[str, Any]:
    response = await client.get("/v1/audit/summary", params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def test_calls_are_counted_by_time_and_tool(asker: httpx2.AsyncClient) -> None:
    summary = await summary_of(asker, **DAY, bucket="1h")
    assert (summary["calls"], summary["is_partial"]) == (100, False)
    assert summary["covered_from"] == "2026-01-01T00:00:00.000000Z"
    assert summary["decisions"] == {"allow": 90, "deny": 10}
    assert summary["outcomes"] == {"succeeded": 90, "denied": 10}
    assert (summary["p50_us"], summary["p95_us"], summary["p99_us"]) == (50, 95, 99)
    buckets = [(row["start"][11:13], row["calls"], row["p50_us"], row["p99_us"]) for row in summary["buckets"]]
    assert buckets == [("00", 50, 25, 50), ("01", 50, 75, 100)]
    assert [row["tool"] for row in summary["tools"]] == [f"tool-{number:02}" for number in range(10)]
    assert summary["tools"][0]["calls"] == 9
    assert "secret" not in str(summary)
    chosen = await summary_of(asker, **DAY)
    assert (chosen["bucket_seconds"], len(chosen["buckets"])) == (300, 24)
    last = chosen["buckets"][-1]
    assert (last["calls"], last["p50_us"]) == (0, None), "a bucket without calls is there"
    assert (await summary_of(asker, **DAY, tool="tool-00", outcome="denied"))["calls"] == 2
    none = await summary_of(asker, **DAY, principal="nobody")
    assert (none["calls"], none["tools"], none["p50_us"]) == (0, [], None)


async def test_by_default_it_is_about_the_last_day(asker: httpx2.AsyncClient) -> None:
    await call(asker, await make_session(asker, "kit"), "echo", text="now")
    summary = await summary_of(asker)
    assert [(row["tool"], row["calls"]) for row in summary["tools"]] == [("echo", 1)]
    assert sum(bucket["calls"] for bucket in summary["buckets"]) == 1
    assert summary["bucket_seconds"] == 900
    acts = (await asker.get("/v1/audit", params={"act": "log.read"})).json()["items"]
    assert acts == [], "it shows no record"


@pytest.mark.parametrize(
    "query",
    [
        {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"},
        {"since": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:00:00Z"},
        {"since": "2026-01-01T00:00:00Z", "until": "2026-02-01T00:00:00Z", "bucket": "1m"},
        {"since": "0001-01-01T00:00:00Z", "until": "9999-12-31T23:59:59.9Z"},
        {"since": "1767225600"},
        {"bucket": "2m"},
        {"until": "0001-01-01T00:00:00+14:00"},
    ],
)
async def test_times_that_make_no_sense_are_refused(asker: httpx2.AsyncClient, query: dict[str, str]) -> None:
    problem(await asker.get("/v1/audit/summary", params=query), 422, "invalid_arguments")


async def test_the_calendar_can_be_asked_for_from_its_beginning_to_its_end(asker: httpx2.AsyncClient) -> None:
    assert (await summary_of(asker, until="9999-12-31T23:59:59.9Z"))["calls"] == 0
    days = await summary_of(asker, since="0001-01-01T00:00:00Z", until="0001-01-02T00:00:00Z", bucket="7d")
    assert days["buckets"][0]["start"] == "0001-01-01T00:00:00.000000Z"


def test_what_is_partial_says_from_when_on_it_is_whole() -> None:
    calls = [MeasuredCall("2026-01-01T01:30:00.000000Z", "t", None, None, None, "kit", "ada")]
    measured, start = Measured(calls, "2026-01-01T01:10:00.000000Z"), 1_767_225_600
    summary: Any = summary_shape(measured, since=start, until=start + 7_200, bucket=3_600)
    assert (summary.is_partial, summary.covered_from) == (True, "2026-01-01T01:10:00.000000Z")
    assert [bucket.start for bucket in summary.buckets] == ["2026-01-01T01:00:00.000000Z"]
    assert (summary.decisions, summary.outcomes, summary.p50_us) == ({"none": 1}, {"none": 1}, None)
