"""Graphs of a summary."""

from __future__ import annotations

from typing import Any

from capset_server.console.pages.record_charts import HEIGHT, WIDTH, bars_of, count_series, grouped, latency_series


def bucket(start: str, p50: int | None = None, **outcomes: int) -> dict[str, Any]:
    return {
        "start": start,
        "calls": sum(outcomes.values()),
        "outcomes": outcomes,
        "decisions": {},
        "p50_us": p50,
        "p95_us": p50,
        "p99_us": p50,
    }


SUMMARY = {
    "bucket_seconds": 3600,
    "outcomes": {"failed": 1, "succeeded": 6, "denied": 1},
    "buckets": [
        bucket("2026-01-01T00:00:00.000000Z", 1_500, succeeded=6, denied=1, failed=1),
        bucket("2026-01-01T01:00:00.000000Z"),
        bucket("2026-01-01T02:00:00.000000Z", 20, timed_out=4),
    ],
}


def test_every_outcome_has_its_group_and_none_is_lost() -> None:
    outcomes = {"succeeded": 3, "denied": 1, "limited": 2, "timed_out": 1, "pending": 4, "of a later version": 1}
    assert grouped(outcomes) == {
        "succeeded": 3,
        "refused": 3,
        "failed": 2,
        "waiting": 4,
    }


def test_bars_stand_on_the_ground_and_the_highest_fills_the_picture() -> None:
    first, second, third = bars_of(SUMMARY)
    assert [part.group for part in first.parts] == ["succeeded", "refused", "failed"]
    assert sum(part.height for part in first.parts) == HEIGHT
    assert [part.y for part in first.parts] == [40, 20, 0]
    assert second.parts == []
    assert [(part.group, part.y, part.height) for part in third.parts] == [("failed", 80, 80)]
    assert third.x + third.width <= WIDTH
    assert (third.since, third.until) == ("2026-01-01T02:00:00.000000Z", "2026-01-01T03:00:00Z")
    assert bars_of({"buckets": [], "bucket_seconds": 60}) == []


def test_series_have_a_value_for_every_bucket() -> None:
    counts = count_series(SUMMARY, "outcomes")
    assert [(series["label"], series["values"]) for series in counts["series"]] == [
        ("succeeded", [6, 0, 0]),
        ("failed", [1, 0, 0]),
        ("denied", [1, 0, 0]),
    ]
    assert (counts["x"][0], counts["step"]) == (1767225600, 3600)
    assert latency_series(SUMMARY)["series"][0]["values"] == [1.5, None, 0.02]
