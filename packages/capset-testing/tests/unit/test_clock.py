"""The clock that stands still until it is moved."""

from __future__ import annotations

import pytest

from capset.clock import Clock, iso
from capset_testing import FakeClock


def test_both_readings_move_together_and_only_by_advance() -> None:
    fake = FakeClock()
    clock: Clock = fake
    assert iso(clock.time_ns()) == "2026-01-01T00:00:00.000000Z"
    assert (clock.monotonic_ns(), clock.monotonic_ns()) == (0, 0)
    fake.advance(90.5)
    assert iso(clock.time_ns()) == "2026-01-01T00:01:30.500000Z"
    assert clock.monotonic_ns() == 90_500_000_000


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="does not go back"):
        FakeClock().advance(-1)
