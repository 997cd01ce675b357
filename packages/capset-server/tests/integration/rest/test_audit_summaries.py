"""Summaries of calls over REST: counts, latency and tools, by time (spec 5, P55)."""

from __future__ import annotations

from typing import Any

import pytest

from capset.stores.base import Measured, MeasuredCall
from capset.wire.audit import summary_shape
from capset_testing.store_suite.support import entry
from tests.helpers.server.support import Site, call, make_session, problem, site

pytestmark = pytest.mark.spec("P55")


async def filled(here: Site) -> None:
    """Put calls of two hours on record, and some of others."""
    for number in range(100):
        time = f"2026-01-01T{number // 50:02}:{number % 50:02}:30.000000Z"
        outcome, decision = ("denied", "deny") if number % 10 == 0 else ("succeeded", "allow")
        more = {"act": None, "outcome": outcome, "decision": decision, "duration_us": number + 1, "time": time}
        here.kernel.audit.append(entry(f"e{number}", org="acme", tool=f"tool-{number % 12:02}", **more))
        here.kernel.audit.append(entry(f"f{number}", org="globex", tool="secret", **more))
    await here.kernel.audit.flush()


DAY = {"since": "2026-01-01T00:00:00Z", "until": "2026-01-01T02:00:00Z"}


async def test_calls_are_counted_by_time_and_tool() -> None:
    async with site() as here, here.client() as client:
        await filled(here)
        found = (await client.get("/v1/audit/summary", params={**DAY, "bucket": "1h"})).json()
        assert (found["calls"], found["is_partial"], found["covered_from"]) == (
            100,
            False,
            "2026-01-01T00:00:00.000000Z",
        )
        assert found["decisions"] == {"allow": 90, "deny": 10}
        assert found["outcomes"] == {"succeeded": 90, "denied": 10}
        assert (found["p50_us"], found["p95_us"], found["p99_us"]) == (50, 95, 99)
        assert [(one["start"][11:13], one["calls"], one["p50_us"], one["p99_us"]) for one in found["buckets"]] == [
            ("00", 50, 25, 50),
            ("01", 50, 75, 100),
        ]
        assert [one["tool"] for one in found["tools"]] == [f"tool-{number:02}" for number in range(10)]
        assert found["tools"][0]["calls"] == 9
        assert "secret" not in str(found)
        chosen = (await client.get("/v1/audit/summary", params=DAY)).json()
        assert (chosen["bucket_seconds"], len(chosen["buckets"])) == (300, 24)
        assert chosen["buckets"][-1]["calls"] == 0, "a bucket without calls is there"
        assert chosen["buckets"][-1]["p50_us"] is None
        one = (await client.get("/v1/audit/summary", params={**DAY, "tool": "tool-00", "outcome": "denied"})).json()
        assert one["calls"] == 2
        none = (await client.get("/v1/audit/summary", params={**DAY, "principal": "nobody"})).json()
        assert (none["calls"], none["tools"], none["p50_us"]) == (0, [], None)


async def test_by_default_it_is_about_the_last_day() -> None:
    async with site() as here, here.client() as client:
        await filled(here)
        session = await make_session(client, "kit")
        await call(client, session, "echo", text="now")
        found = (await client.get("/v1/audit/summary")).json()
        assert [(one["tool"], one["calls"]) for one in found["tools"]] == [("echo", 1)]
        assert sum(one["calls"] for one in found["buckets"]) == 1
        assert found["bucket_seconds"] == 900
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
    async with site() as here, here.client() as client:
        problem(await client.get("/v1/audit/summary", params=query), 422, "invalid_arguments")


async def test_the_end_of_the_calendar_is_a_time() -> None:
    async with site() as here, here.client() as client:
        found = await client.get("/v1/audit/summary", params={"until": "9999-12-31T23:59:59.9Z"})
        assert (found.status_code, found.json()["calls"]) == (200, 0)
        days = {"since": "0001-01-01T00:00:00Z", "until": "0001-01-02T00:00:00Z", "bucket": "7d"}
        first = await client.get("/v1/audit/summary", params=days)
        assert (first.status_code, first.json()["buckets"][0]["start"]) == (200, "0001-01-01T00:00:00.000000Z")


def test_what_is_partial_says_from_when_on_it_is_whole() -> None:
    calls = [MeasuredCall("2026-01-01T01:30:00.000000Z", "t", None, None, None)]
    start = 1_767_225_600
    found: Any = summary_shape(
        Measured(calls, "2026-01-01T01:10:00.000000Z"), since=start, until=start + 7_200, bucket=3_600
    )
    assert (found.is_partial, found.covered_from) == (True, "2026-01-01T01:10:00.000000Z")
    assert [one.start for one in found.buckets] == ["2026-01-01T01:00:00.000000Z"]
    assert (found.decisions, found.outcomes, found.p50_us) == ({"none": 1}, {"none": 1}, None)
