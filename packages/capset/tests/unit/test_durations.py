"""Durations for people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset.clock import duration_text

UNITS = {"d": 86_400, "h": 3_600, "min": 60, "s": 1}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.5, "0.5 s"), (120, "120 s"), (120.1, "3 min"), (86_160, "23 h 56 min"), (86_400, "1 d"), (90_061, "1 d 2 h")],
)
def test_a_duration_is_readable(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@given(st.floats(min_value=121, max_value=400 * 86_400))
def test_a_duration_in_words_is_at_most_an_hour_long_and_never_short(seconds: float) -> None:
    words = duration_text(seconds).split()
    total = sum(int(count) * UNITS[unit] for count, unit in zip(words[::2], words[1::2], strict=True))
    assert seconds <= total < seconds + (3_601 if seconds > 86_400 else 61)
