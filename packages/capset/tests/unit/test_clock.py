from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from capset.clock import SystemClock, iso

MOMENTS = st.integers(0, 253_402_300_799_999_999_999)


def test_the_systems_clock_is_that_of_the_machine() -> None:
    clock = SystemClock()
    before, start = time.time_ns(), clock.monotonic_ns()
    assert before <= clock.time_ns() <= time.time_ns()
    assert start <= clock.monotonic_ns()


def test_a_moment_is_written_in_utc_to_the_microsecond() -> None:
    assert iso(0) == "1970-01-01T00:00:00.000000Z"
    assert iso(1_709_164_800_123_456_789) == "2024-02-29T00:00:00.123456Z"
    assert iso(1_709_164_799_999_999_999) == "2024-02-28T23:59:59.999999Z"


@given(MOMENTS, MOMENTS)
def test_a_text_is_its_moment_and_texts_are_in_the_order_of_moments(first: int, second: int) -> None:
    assert len(iso(first)) == 27
    assert datetime.fromisoformat(iso(first)) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
        microseconds=first // 1000
    )
    assert (iso(first) < iso(second)) is (first // 1000 < second // 1000)
