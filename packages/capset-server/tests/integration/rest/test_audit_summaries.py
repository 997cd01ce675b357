"""Summaries of calls over REST: counts, latency and tools, by time (spec 5, P55)."""

from __future__ import annotations

from typing import Any

import pytest

from capset.stores.base import Measured, MeasuredCall
from capset.wire.audit import summary_shape
from capset_testing.store_suite.support import entry
from tests.helpers.server.support import Site, call, make_session, problem, site

pytestmark = pytest.mark.spec("P55")


async def filled(server: Site) -> None:
    """Put calls of two hours on record, and some of others."""
    for number in range(100):
        time = f"2026-01-01T{number // 50:02}:{number % 50:02}:30.000000Z"
        outcome, decision = ("denied", "deny") if number % 10 == 0 else ("succeeded", "allow")
        more = {"act": None, "outcome": outcome, "decision": decision, "duration_us": number + 1, "time": time}
        server.kernel.audit.append(entry(f"e{number}", org="acme", tool=f"tool-{number % 12:02}", **more))
        server.kernel.audit.append(entry(f"f{number}", org="globex", tool="secret", **more))
    await server.kernel.audit.flush()


DAY = {"since": "2026-01-01T00:00:00Z", "until": "2026-01-01T02:00:00Z"}


async def test_calls_are_counted_by_time_and_tool() -> None:
    async with site() as server, server.client() as client:
        await filled(server)
        summary = (await client.get("/v1/audit/summary", params={**DAY, "bucket": "1h"})).json()
        assert (summary["calls"], summary["is_partial"], summary["covered_from"]) == (
            100,
            False,
            "2026-01-01T00:00:00.000000Z",
        )
        assert summary["decisions"] == {"allow": 90, "deny": 10}
        assert summary["outcomes"] == {"succeeded": 90, "denied": 10}
        assert (summary["p50_us"], summary["p95_us"], summary["p99_us"]) == (50, 95, 99)
        assert [
            (bucket["start"][11:13], bucket["calls"], bucket["p50_us"], bucket["p99_us"])
            for bucket in summary["buckets"]
        ] == [
            ("00", 50, 25, 50),
            ("01", 50, 75, 100),
        ]
        assert [row["tool"] for row in summary["tools"]] == [f"tool-{number:02}" for number in range(10)]
        assert summary["tools"][0]["calls"] == 9
        assert "secret" not in str(summary)
        chosen = (await client.get("/v1/audit/summary", params=DAY)).json()
        assert (chosen["bucket_seconds"], len(chosen["buckets"])) == (300, 24)
        assert chosen["buckets"][-1]["calls"] == 0, "a bucket without calls is there"
        assert chosen["buckets"][-1]["p50_us"] is None
        denied_summary = (
            await client.get("/v1/audit/summary", params={**DAY, "tool": "tool-00", "outcome": "denied"})
        ).json()
        assert denied_summary["calls"] == 2
        none = (await client.get("/v1/audit/summary", params={**DAY, "principal": "nobody"})).json()
        assert (none["calls"], none["tools"], none["p50_us"]) == (0, [], None)


async def test_by_default_it_is_about_the_last_day() -> None:
    async with site() as server, server.client() as client:
        await filled(server)
        session = await make_session(client, "kit")
        await call(client, session, "echo", text="now")
        summary = (await client.get("/v1/audit/summary")).json()
        assert [(row["tool"], row["calls"]) for row in summary["tools"]] == [("echo", 1)]
        assert sum(bucket["calls"] for bucket in summary["buckets"]) == 1
        assert summary["bucket_seconds"] == 900
        acts = (await client.get("/v1/audit", params={"act": "log.read"})).json()["items"]
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
async def test_times_that_make_no_sense_are_refused(query: dict[str, str]) -> None:
    async with site() as server, server.client() as client:
        problem(await client.get("/v1/audit/summary", params=query), 422, "invalid_arguments")


async def test_the_end_of_the_calendar_is_a_time() -> None:
    async with site() as server, server.client() as client:
        response = await client.get("/v1/audit/summary", params={"until": "9999-12-31T23:59:59.9Z"})
        assert (response.status_code, response.json()["calls"]) == (200, 0)
        days = {"since": "0001-01-01T00:00:00Z", "until": "0001-01-02T00:00:00Z", "bucket": "7d"}
        first = await client.get("/v1/audit/summary", params=days)
        assert (first.status_code, first.json()["buckets"][0]["start"]) == (200, "0001-01-01T00:00:00.000000Z")


def test_what_is_partial_says_from_when_on_it_is_whole() -> None:
    calls = [MeasuredCall("2026-01-01T01:30:00.000000Z", "t", None, None, None)]
    start = 1_767_225_600
    summary: Any = summary_shape(
        Measured(calls, "2026-01-01T01:10:00.000000Z"), since=start, until=start + 7_200, bucket=3_600
    )
    assert (summary.is_partial, summary.covered_from) == (True, "2026-01-01T01:10:00.000000Z")
    assert [bucket.start for bucket in summary.buckets] == ["2026-01-01T01:00:00.000000Z"]
    assert (summary.decisions, summary.outcomes, summary.p50_us) == ({"none": 1}, {"none": 1}, None)
