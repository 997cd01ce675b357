"""Differences between texts, line by line."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from capset.server.console.markup import diff_lines

TEXTS = st.lists(st.sampled_from("abc"), max_size=30).map("\n".join)


@given(TEXTS, TEXTS)
def test_what_is_removed_and_added_makes_one_of_the_other(before: str, after: str) -> None:
    found = diff_lines(before, after)
    assert (found == []) == (before == after)
    for sign, text in (("-", before), ("+", after)):
        told = [one.text for one in found if one.sign in (" ", sign)]
        left = iter(text.splitlines())
        assert all(one in left for one in told), "in their order"
    removed, added = (sum(one.sign == sign for one in found) for sign in "-+")
    assert added - removed == len(after.splitlines()) - len(before.splitlines())


def test_what_is_the_same_is_left_out_with_its_count() -> None:
    before = "\n".join(map(str, range(20)))
    found = diff_lines(before, before.replace("10", "ten"))
    assert [(one.sign, one.text) for one in found] == [
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
    assert cut.text.endswith("1,000 characters more")
    (told,) = diff_lines("a\n" * 3_000, "b\n")
    assert (told.sign, "not compared" in told.text) == ("…", True)


def test_long_texts_are_compared_quickly_and_shown_in_part() -> None:
    begun = time.perf_counter()
    before, after = ("".join(f"same {one % 180}\n{side} {one}\n" for one in range(999)) for side in "ab")
    for _ in range(10):
        found = diff_lines(before, after)
        assert (len(found), found[-1].sign) == (301, "…")
    lines = [f"line {one}" for one in range(900)]
    one, other = [*lines], [*lines]
    one[100], other[700] = "one", "other"
    told = [(line.sign, line.text) for line in diff_lines("\n".join(one), "\n".join(other)) if line.sign in "+-"]
    assert told == [("-", "one"), ("+", "line 100"), ("-", "line 700"), ("+", "other")]
    assert time.perf_counter() - begun < 10, "a guard against what grows with the cube, not a measurement"
