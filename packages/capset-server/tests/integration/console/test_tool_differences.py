"""What was approved of a tool beside what is said of it now."""

from __future__ import annotations

import time

import pytest

from capset_server.console.tool_differences import Row, compare_tools


def changed(before: str, after: str) -> list[Row]:
    difference = compare_tools({"name": "t", "description": before}, {"name": "t", "description": after})
    return [row for row in difference.rows if row.kind not in ("same", "skipped")]


def test_lines_stand_beside_each_other() -> None:
    assert changed("a\nb\nc", "a\nB\nc\nd") == [Row("changed", "  b", "  B"), Row("added", None, "  d")]
    assert changed("a\nb", "a") == [Row("removed", "  b", None)]
    assert changed("a", "a") == []


def test_one_side_may_be_missing() -> None:
    assert {row.kind for row in compare_tools(None, {"name": "t"}).rows} == {"added"}
    assert {row.kind for row in compare_tools({"name": "t"}, None).rows} == {"removed"}
    assert compare_tools(None, None).rows == ()


def test_hidden_characters_and_letters_that_look_alike_are_spelled_out() -> None:
    assert changed("pay", "p\u0430y\u202e\u200b") == [Row("changed", "  pay", "  p\\u{430}y\\u{202e}\\u{200b}")]
    assert changed("Привет", "Привет!") == [Row("changed", "  Привет", "  Привет!")], "such letters were there before"


def test_far_lines_are_left_out() -> None:
    lines = [str(number) for number in range(50)]
    difference = compare_tools({"description": "\n".join(lines)}, {"description": "\n".join(["x", *lines[1:-1], "y"])})
    kinds = [row.kind for row in difference.rows]
    assert (kinds.count("skipped"), kinds.count("changed"), len(kinds)) == (1, 2, 10)


def different_texts() -> tuple[str, str]:
    """Return two long texts: every second line is different, and all others are the same line."""
    before, after = ("".join(f"same\n{side} {place}\n" for place in range(498)) for side in "ab")
    return before, after


def test_large_ones_are_bounded_and_what_is_left_out_is_counted() -> None:
    difference = compare_tools({"description": "a\n" * 60_000}, {"description": "b\n" * 60_000})
    assert (len(difference.rows), difference.more > 50_000) == (300, True)
    (row,) = [
        candidate
        for candidate in compare_tools({"name": "x" * 200_000}, {"name": "y"}).rows
        if candidate.kind == "changed"
    ]
    assert len(row.before or "") < 2_100
    assert changed(*different_texts())


@pytest.mark.realtime
def test_large_ones_are_compared_quickly() -> None:
    different = different_texts()
    begun = time.perf_counter()
    compare_tools({"description": "a\n" * 60_000}, {"description": "b\n" * 60_000})
    compare_tools({"name": "x" * 200_000}, {"name": "y"})
    changed(*different)
    assert time.perf_counter() - begun < 10, "a guard against what grows with the square, not a measurement"
