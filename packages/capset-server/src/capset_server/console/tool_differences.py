"""Differences of a tool: its approved description beside its current one, line by line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final, Literal

from capset_connect.pins.offers import described, look_alikes

_COMPARED: Final = 1_000
"""Maximum number of lines of a side to align; if there are more, all of them count as changed."""
_ROWS: Final = 300
_CONTEXT: Final = 3
_LETTERS: Final = 2_000
Kind = Literal["same", "changed", "removed", "added", "skipped"]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of both sides; ``None`` where a side lacks it."""

    kind: Kind
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class ToolDifference:
    """The rows that differ, with context, and the number of rows that are left out."""

    rows: tuple[Row, ...]
    more: int = 0


def compare_tools(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> ToolDifference:  # JSON
    """Compare two descriptions of a tool, one of which may be missing.

    Hidden characters are escaped, and so are letters of other alphabets where the other side of the row has none.
    """
    old, new = described(before or {}), described(after or {})
    rows = [_legible(row) for row in _rows(old, new)]
    return ToolDifference(tuple(rows[:_ROWS]), max(0, len(rows) - _ROWS))


def _rows(old: Sequence[str], new: Sequence[str]) -> list[Row]:
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    old_lines, new_lines = old[start : len(old) - end], new[start : len(new) - end]
    rows = [Row("same", line, line) for line in old[:start]]
    if max(len(old_lines), len(new_lines)) > _COMPARED:
        rows += _replaced(old_lines, new_lines)
    else:
        for tag, a1, a2, b1, b2 in SequenceMatcher(None, old_lines, new_lines).get_opcodes():
            if tag == "equal":
                rows += [Row("same", line, line) for line in old_lines[a1:a2]]
            else:
                rows += _replaced(old_lines[a1:a2], new_lines[b1:b2])
    rows += [Row("same", line, line) for line in old[len(old) - end :]]
    return _near_changes(rows)


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the number of leading lines that both have in common."""
    pairs = enumerate(zip(first, second, strict=False))
    return next(
        (at for at, (first_line, second_line) in pairs if first_line != second_line), min(len(first), len(second))
    )


def _replaced(old_lines: Sequence[str], new_lines: Sequence[str]) -> list[Row]:
    both = min(len(old_lines), len(new_lines))
    rows = [Row("changed", *pair) for pair in zip(old_lines[:both], new_lines[:both], strict=True)]
    return (
        rows
        + [Row("removed", line, None) for line in old_lines[both:]]
        + [Row("added", None, line) for line in new_lines[both:]]
    )


def _near_changes(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that differ, with context; a ``skipped`` row replaces those left out in between."""
    visible = {
        near
        for at, row in enumerate(rows)
        if row.kind != "same"
        for near in range(max(0, at - _CONTEXT), min(len(rows), at + _CONTEXT + 1))
    }
    visible_rows: list[Row] = []
    for at, row in enumerate(rows):
        if at in visible:
            visible_rows.append(row)
        elif visible_rows and visible_rows[-1].kind != "skipped":
            visible_rows.append(Row("skipped", None, None))
    return visible_rows[:-1] if visible_rows and visible_rows[-1].kind == "skipped" else visible_rows


def _legible(row: Row) -> Row:
    if row.kind in ("same", "skipped"):
        return Row(row.kind, _cut(row.before), _cut(row.after))
    before, after = look_alikes(row.before or ""), look_alikes(row.after or "")
    return Row(row.kind, _spelled(row.before, before, after), _spelled(row.after, after, before))


def _spelled(text: str | None, spellings: Mapping[str, str], other: Mapping[str, str]) -> str | None:
    return _cut(text if text is None or other else text.translate(str.maketrans(dict(spellings))))


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= _LETTERS else f"{text[:_LETTERS]}… {len(text) - _LETTERS:,} more"
