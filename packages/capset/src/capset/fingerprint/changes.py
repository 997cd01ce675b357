"""Differences between two pieces of JSON data, each at its own path (spec 2, F31)."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

from capset.fingerprint.canonical import canonical
from capset.fingerprint.paths import word

ChangeKind = Literal["added", "removed", "changed", "reordered", "renamed"]
"""``reordered``: the same items in another order. ``renamed``: the same model class under another name."""
_NAME: Final = re.compile(r"(?!\d+\Z)[^\s\"\[\]→]+")


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. ``before`` and ``after`` are JSON data, and ``None`` where the kind implies no value.

    The path goes from the payload inwards: ``schema.properties.limit.maximum`` by keys, ``tools[add]`` by the name of
    an item, ``instructions[2]`` by its index, ``permissions[]`` to an item of a list that is a set. ``[1→2]`` is the
    index before and after, ``$defs.Place→Town`` a renamed class. A key or a name that is not a plain word is written as
    JSON text.
    """

    path: str
    kind: ChangeKind
    before: Any = None
    after: Any = None


Item = TypeVar("Item", bytes, str)
# JSON data may be anything, so functions that compare it take ``Any``.
Compare: TypeAlias = Callable[[str, Any, Any], Iterator[Change]]
"""A function that yields the differences between two values at a path."""


def is_same(before: Any, after: Any) -> bool:
    """Whether two values have the same canonical bytes. Raises ``NotCanonical`` if one has none."""
    return canonical(before) == canonical(after)


def join_path(path: str, step: str) -> str:
    """Return the path of a member; ``step`` is its key as written by ``word``."""
    return f"{path}.{step}" if path else step


def compare(path: str, before: Any, after: Any) -> Iterator[Change]:
    """Compare any JSON data: mappings by key, lists in order, everything else by value."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from compare_members(path, before, after)
    elif _are_lists(before, after):
        yield from compare_lists(path, before, after)
    elif not is_same(before, after):
        yield Change(path, "changed", before, after)


def compare_members(
    path: str,
    before: Any,
    after: Any,
    choose: Callable[[str], Compare] = lambda key: compare,
    write: Callable[[str], str] = word,
) -> Iterator[Change]:
    """Compare two mappings by key. ``choose`` returns the comparison of a key's values, ``write`` its step in paths."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        yield from compare(path, before, after)
        return
    ours, theirs = cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", after)
    for key in sorted({*ours, *theirs}):
        member_path = join_path(path, write(key))
        if key not in theirs:
            yield Change(member_path, "removed", before=ours[key])
        elif key not in ours:
            yield Change(member_path, "added", after=theirs[key])
        else:
            yield from choose(key)(member_path, ours[key], theirs[key])


def compare_lists(path: str, before: Any, after: Any, item: Compare = compare) -> Iterator[Change]:
    """Compare two lists whose order is significant; ``item`` compares items that replace each other."""
    if not _are_lists(before, after):
        yield from compare(path, before, after)
        return
    ours, theirs = list(map(canonical, before)), list(map(canonical, after))
    if ours != theirs and sorted(ours) == sorted(theirs):
        yield Change(path, "reordered", list(before), list(after))
        return
    for i1, i2, j1, j2 in differing_ranges(ours, theirs):
        if i2 - i1 == j2 - j1:
            for i, j in zip(range(i1, i2), range(j1, j2), strict=True):
                yield from item(f"{path}[{i}]" if i == j else f"{path}[{i}→{j}]", before[i], after[j])
        else:
            yield from (Change(f"{path}[{i}]", "removed", before=before[i]) for i in range(i1, i2))
            yield from (Change(f"{path}[{j}]", "added", after=after[j]) for j in range(j1, j2))


def compare_sets(path: str, before: Any, after: Any) -> Iterator[Change]:
    """Compare two lists whose order is irrelevant. A mere reordering is still reported, since it changes hashes."""
    if not _are_lists(before, after):
        yield from compare(path, before, after)
        return
    ours, theirs = (
        {canonical(element): element for element in before},
        {canonical(element): element for element in after},
    )
    if len(ours) < len(before) or len(theirs) < len(after):
        yield from compare_lists(path, before, after)
    elif ours.keys() == theirs.keys():
        if list(ours) != list(theirs):
            yield Change(path, "reordered", list(before), list(after))
    else:
        yield from (
            Change(f"{path}[]", "removed", before=element) for key, element in ours.items() if key not in theirs
        )
        yield from (Change(f"{path}[]", "added", after=element) for key, element in theirs.items() if key not in ours)


def compare_named(
    path: str, before: Any, after: Any, name: Callable[[Any], str | None], item: Compare = compare
) -> Iterator[Change]:
    """Compare two lists of items by the names that ``name`` returns, or in order if items have no names.

    If the common items are in another order, ``before`` and ``after`` of that change are lists of names.
    """
    ours, theirs = _by_name(before, name), _by_name(after, name)
    if ours is None or theirs is None:
        yield from compare_lists(path, before, after, item)
        return
    for key in sorted({*ours, *theirs}):
        entry_path = f"{path}[{key if _NAME.fullmatch(key) else json.dumps(key, ensure_ascii=False)}]"
        if key not in theirs:
            yield Change(entry_path, "removed", before=ours[key])
        elif key not in ours:
            yield Change(entry_path, "added", after=theirs[key])
        else:
            yield from item(entry_path, ours[key], theirs[key])
    if [key for key in ours if key in theirs] != [key for key in theirs if key in ours]:
        yield Change(path, "reordered", list(ours), list(theirs))


def _are_lists(before: Any, after: Any) -> bool:
    return isinstance(before, list | tuple) and isinstance(after, list | tuple)


def _by_name(items: Any, name: Callable[[Any], str | None]) -> dict[str, Any] | None:
    """Return items by their names, or ``None`` if they are not a list, or a name is missing or not unique."""
    if not isinstance(items, list | tuple):
        return None
    entries = cast("Sequence[Any]", items)
    named = {key: entry for entry in entries if isinstance(key := name(entry), str)}
    return named if len(named) == len(entries) else None


def differing_ranges(before: list[Item], after: list[Item]) -> list[tuple[int, int, int, int]]:
    """Return the ranges where two lists differ, as ``before[a:b]`` and ``after[c:d]``; the same in both directions."""
    if before > after:
        return [(i1, i2, j1, j2) for j1, j2, i1, i2 in differing_ranges(after, before)]
    if max(len(before), len(after)) <= 50:  # aligned exactly, which takes cubic time
        opcodes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        return [(i1, i2, j1, j2) for tag, i1, i2, j1, j2 in opcodes if tag != "equal"]
    # In longer lists, only items that occur once in each are aligned.
    start = _common_prefix(before, after)
    end = _common_prefix(before[start:][::-1], after[start:][::-1])
    ours, theirs = before[start : len(before) - end], after[start : len(after) - end]
    ranges: list[tuple[int, int, int, int]] = []
    i1, j1 = start, start
    for i, j in [*_anchors(ours, theirs), (len(ours), len(theirs))]:
        i2, j2 = start + i, start + j
        if i2 > i1 or j2 > j1:
            ranges.append((i1, i2, j1, j2))
        i1, j1 = i2 + 1, j2 + 1
    return ranges


def _anchors(ours: list[Item], theirs: list[Item]) -> list[tuple[int, int]]:
    """Return index pairs of items that occur once in each list: the most that are in the same order in both."""
    first, other = _unique_items(ours), _unique_items(theirs)
    pairs = [(index, other[element]) for element, index in first.items() if element in other]
    ends: list[int] = []
    last: list[int] = []
    before: list[int | None] = []
    for number, (_, index) in enumerate(pairs):
        length = bisect_left(ends, index)
        before.append(last[length - 1] if length else None)
        ends[length : length + 1], last[length : length + 1] = [index], [number]
    anchors: list[tuple[int, int]] = []
    number = last[-1] if last else None
    while number is not None:
        anchors.append(pairs[number])
        number = before[number]
    return anchors[::-1]


def _unique_items(items: list[Item]) -> dict[Item, int]:
    """Return the indices of the items that occur once."""
    counts = Counter(items)
    return {element: index for index, element in enumerate(items) if counts[element] == 1}


def _common_prefix(first: list[Item], other: list[Item]) -> int:
    """Return the length of the common prefix."""
    pairs = enumerate(zip(first, other, strict=False))
    return next((index for index, (left, right) in pairs if left != right), min(len(first), len(other)))
