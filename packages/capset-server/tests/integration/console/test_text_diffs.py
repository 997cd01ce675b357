"""Differences between texts, line by line."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset_server.console.markup import diff_lines

TEXTS = st.lists(st.sampled_from("abc"), max_size=30).map("\n".join)


@given(TEXTS, TEXTS)
def test_what_is_removed_and_added_makes_one_of_the_other(before: str, after: str) -> None:
    diff = diff_lines(before, after)
    assert (diff == []) == (before == after)
    for sign, text in (("-", before), ("+", after)):
        lines = [line.text for line in diff if line.sign in (" ", sign)]
        remaining = iter(text.splitlines())
        assert all(line in remaining for line in lines), "in their order"
    removed, added = (sum(line.sign == sign for line in diff) for sign in "-+")
    assert added - removed == len(after.splitlines()) - len(before.splitlines())


def test_what_is_the_same_is_left_out_with_its_count() -> None:
    before = "\n".join(map(str, range(20)))
    diff = diff_lines(before, before.replace("10", "ten"))
    assert [(line.sign, line.text) for line in diff] == [
        ("…", "8 lines are the same"),
        (" ", "8"),
        (" ", "9"),
        ("-", "10"),
        ("+", "ten"),
        (" ", "11"),
        (" ", "12"),
        ("…", "7 lines are the same"),
    ]


def test_what_is_very_long_is_cut_off_or_not_compared() -> None:
    (cut,) = diff_lines("", "x" * 3_000)
    assert cut.text.endswith("1,000 more characters")
    (line,) = diff_lines("a\n" * 3_000, "b\n")
    assert (line.sign, "not compared" in line.text) == ("…", True)


def different_texts() -> tuple[str, str]:
    """Return two long texts: every second line is different, and the lines that are the same come again and again."""
    before, after = ("".join(f"same {number % 180}\n{side} {number}\n" for number in range(999)) for side in "ab")
    return before, after


def similar_texts() -> tuple[str, str]:
    """Return two long texts that differ in two lines."""
    before = [f"line {number}" for number in range(900)]
    after = [*before]
    before[100], after[700] = "one", "other"
    return "\n".join(before), "\n".join(after)


def test_long_texts_are_shown_in_part() -> None:
    diff = diff_lines(*different_texts())
    assert (len(diff), diff[-1].sign) == (301, "…")
    changes = [(line.sign, line.text) for line in diff_lines(*similar_texts()) if line.sign in "+-"]
    assert changes == [("-", "one"), ("+", "line 100"), ("-", "line 700"), ("+", "other")]


@pytest.mark.realtime
def test_long_texts_are_compared_quickly() -> None:
    different, similar = different_texts(), similar_texts()
    begun = time.perf_counter()
    for _ in range(10):
        diff_lines(*different)
    diff_lines(*similar)
    assert time.perf_counter() - begun < 10, "a guard against what grows with the cube, not a measurement"
