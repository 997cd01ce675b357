"""Differences between two texts, line by line, as pages show them."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Final, NamedTuple

_CONTEXT: Final = 2
_MOST_LINES: Final = 2_000
"""Lines of a text that is compared: longer ones would take seconds."""
_MOST_LETTERS: Final = 2_000
"""Letters of one line that are shown."""


class DiffLine(NamedTuple):
    """One line of a comparison: ``sign`` is ``+``, ``-``, a space, or ``…`` for lines that are left out."""

    sign: str
    text: str


def diff_lines(before: str, after: str) -> list[DiffLine]:
    """Return the lines of two texts that differ, with a few around them."""
    ours, theirs = before.splitlines(), after.splitlines()
    if max(len(ours), len(theirs)) > _MOST_LINES:
        return [DiffLine("…", f"more than {_MOST_LINES:,} lines are not compared: {len(ours):,} and {len(theirs):,}")]
    found: list[DiffLine] = []
    end = 0
    for group in SequenceMatcher(None, ours, theirs).get_grouped_opcodes(_CONTEXT):
        if (left_out := group[0][1] - end) > 0:
            found.append(_left_out(left_out))
        for kind, a, b, c, d in group:
            if kind == "equal":
                found += [_line(" ", text) for text in ours[a:b]]
            else:
                found += [_line("-", text) for text in ours[a:b]]
                found += [_line("+", text) for text in theirs[c:d]]
        end = group[-1][2]
    if found and len(ours) > end:
        found.append(_left_out(len(ours) - end))
    return found


def _line(sign: str, text: str) -> DiffLine:
    more = len(text) - _MOST_LETTERS
    return DiffLine(sign, text if more <= 0 else f"{text[:_MOST_LETTERS]} … {more:,} characters more")


def _left_out(count: int) -> DiffLine:
    return DiffLine("…", f"{count:,} lines are the same" if count > 1 else "1 line is the same")
