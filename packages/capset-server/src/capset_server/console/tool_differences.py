"""Differences of a tool: how it was approved beside how it is described now, line by line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final, Literal

from capset_connect.offers import described, look_alikes

_COMPARED: Final = 1_000
"""Lines of each side that are compared one by one; of more, all count as others."""
_ROWS: Final = 300
_CONTEXT: Final = 3
_LETTERS: Final = 2_000
Kind = Literal["same", "changed", "removed", "added", "skipped"]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of both sides; of a line that is on one side alone, the other is ``None``."""

    kind: Kind
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class ToolDifference:
    """The rows that differ, with some around them, and how many more rows there are."""

    rows: tuple[Row, ...]
    more: int = 0


def compare_tools(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> ToolDifference:  # JSON
    """Return what differs between two descriptions of a tool, of which one may be missing.

    Hidden characters are spelled out; so are letters of other alphabets in a line that had none before.
    """
    old, new = described(before or {}), described(after or {})
    rows = [_legible(one) for one in _rows(old, new)]
    return ToolDifference(tuple(rows[:_ROWS]), max(0, len(rows) - _ROWS))


def _rows(old: Sequence[str], new: Sequence[str]) -> list[Row]:
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    left, right = old[start : len(old) - end], new[start : len(new) - end]
    rows = [Row("same", one, one) for one in old[:start]]
    if max(len(left), len(right)) > _COMPARED:
        rows += _replaced(left, right)
    else:
        for tag, a1, a2, b1, b2 in SequenceMatcher(None, left, right).get_opcodes():
            if tag == "equal":
                rows += [Row("same", one, one) for one in left[a1:a2]]
            else:
                rows += _replaced(left[a1:a2], right[b1:b2])
    rows += [Row("same", one, one) for one in old[len(old) - end :]]
    return _near_changes(rows)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many lines both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))


def _replaced(left: Sequence[str], right: Sequence[str]) -> list[Row]:
    both = min(len(left), len(right))
    rows = [Row("changed", *pair) for pair in zip(left[:both], right[:both], strict=True)]
    return rows + [Row("removed", one, None) for one in left[both:]] + [Row("added", None, one) for one in right[both:]]


def _near_changes(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that differ and some around them; one stands for those between that are left out."""
    kept = {
        near
        for at, row in enumerate(rows)
        if row.kind != "same"
        for near in range(max(0, at - _CONTEXT), min(len(rows), at + _CONTEXT + 1))
    }
    found: list[Row] = []
    for at, row in enumerate(rows):
        if at in kept:
            found.append(row)
        elif found and found[-1].kind != "skipped":
            found.append(Row("skipped", None, None))
    return found[:-1] if found and found[-1].kind == "skipped" else found


def _legible(row: Row) -> Row:
    if row.kind in ("same", "skipped"):
        return Row(row.kind, _cut(row.before), _cut(row.after))
    before, after = look_alikes(row.before or ""), look_alikes(row.after or "")
    return Row(row.kind, _spelled(row.before, before, after), _spelled(row.after, after, before))


def _spelled(text: str | None, own: Mapping[str, str], other: Mapping[str, str]) -> str | None:
    return _cut(text if text is None or other else text.translate(str.maketrans(dict(own))))


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= _LETTERS else f"{text[:_LETTERS]}… {len(text) - _LETTERS:,} more"
