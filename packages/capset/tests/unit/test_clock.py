from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from capset.clock import SystemClock, iso

MOMENTS = st.integers(0, 253_402_300_799_999_999_999)


def test_the_systems_clocks() -> None:
    clock = SystemClock()
    before, start = time.time_ns(), clock.monotonic_ns()
    assert before <= clock.time_ns() <= time.time_ns()
    assert start <= clock.monotonic_ns()


def test_a_moment_is_written_in_utc_to_the_microsecond() -> None:
    assert iso(0) == "1970-01-01T00:00:00.000000Z"
    assert iso(1_709_164_800_123_456_789) == "2024-02-29T00:00:00.123456Z"
    assert iso(1_709_164_799_999_999_999) == "2024-02-28T23:59:59.999999Z"


@settings(deadline=None)
@given(MOMENTS, MOMENTS)
def test_the_order_of_texts_is_the_order_of_moments(first: int, two: int) -> None:
    assert len(iso(first)) == 27
    assert (iso(first) < iso(two)) is (first // 1000 < two // 1000)


@settings(deadline=None)
@given(MOMENTS)
def test_a_text_is_the_moment(moment: int) -> None:
    expected = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment // 1000)
    assert datetime.fromisoformat(iso(moment)) == expected
