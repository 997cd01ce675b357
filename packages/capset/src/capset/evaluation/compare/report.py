"""A human-readable report of a comparison (spec 2, F30, F31)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, Literal

from capset.evaluation.compare.differences import CodeChange, Diff, PartChange, ToolChange
from capset.evaluation.snapshot.envelope import PolicyResult
from capset.fingerprint.changes import Change
from capset.fingerprint.diff import HASHES, explain_relationship, format_hash_short, hash_of

Sign = Literal["", "+", "-", "~", "=", "#"]
"""Added, removed, changed, unchanged; ``#`` marks a heading."""
_SIGNS: Final[dict[str, Sign]] = {"added": "+", "removed": "-", "came": "+", "went": "-"}
_HEX: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the report: its sign, indentation and text, and whether a value in it was truncated."""

    sign: Sign
    indent: int
    text: str
    is_truncated: bool = False

    def __str__(self) -> str:
        sign = "" if self.sign in {"", "#"} else f"{self.sign} "
        return f"{' ' * self.indent}{sign}{self.text}"


def format_diff_report(diff: Diff, *, width: int = 120) -> str:
    """Return a comparison as aligned lines of text without colours. Long values are truncated to fit the width."""
    return "\n".join(map(str, report_lines(diff, width=width)))


def report_lines(diff: Diff, *, width: int = 120) -> Iterator[Line]:
    """Yield the lines of a comparison. Unprintable characters in names and values are escaped."""
    yield Line("", 0, explain_relationship(diff.before, diff.after))
    sections = {
        "hashes": _hashes(diff),
        f"tools ({diff.links.tools.unchanged} stayed)": _tools(diff.tools, width),
        "policies": _policies(diff),
        "prompt": _fields(diff.prompt, 0, width),
        "definition": _definition(diff.definition, width),
        "code": _code(diff.code, width),
        "not hashed": (Line("", 2, plain(note)) for note in diff.notes),
    }
    for heading, section in sections.items():
        if lines := list(section):
            yield Line("", 0, "")
            yield Line("#", 0, heading)
            yield from lines


def plain(text: str) -> str:
    """Return text on one line, with unprintable characters escaped."""
    return text if text.isprintable() else json.dumps(text)[1:-1]


def _hashes(diff: Diff) -> Iterator[Line]:
    if diff.links.profiles:
        yield Line("~", 0, f"profile     {' → '.join(map(plain, diff.links.profiles))}")
    for name in HASHES:
        before, after = hash_of(diff.before, name), hash_of(diff.after, name)
        short = format_hash_short(before)
        if before == after:
            yield Line("=", 0, f"{name:<10}  {short}")
        else:
            yield Line("~", 0, f"{name:<10}  {short:<12} → {format_hash_short(after)}")


def _tools(tools: Sequence[ToolChange], width: int) -> Iterator[Line]:
    names = _aligned(plain(tool.name) for tool in tools)
    for tool, name in zip(tools, names, strict=True):
        yield Line(_SIGNS.get(tool.kind, "~"), 0, f"{name}  {_tool_summary(tool)}")
        if tool.kind == "changed" or tool.gates:
            yield from _fields(None if tool.changes is None else (*tool.changes, *tool.gates), 4, width)


def _tool_summary(tool: ToolChange) -> str:
    match tool.kind:
        case "changed":
            return f"{format_hash_short(tool.before)} → {format_hash_short(tool.after)}"
        case "gated":
            return f"{format_hash_short(tool.after)}, different policies"
        case _:
            payload = next((payload for payload in tool.payloads if payload is not None), None)
            needs = payload.get("permissions") if payload else None
            about = [payload["effect"]] if payload and "effect" in payload else []
            about += [f"needs {' and '.join(map(str, needs))}"] if isinstance(needs, list) and needs else []  # pyright: ignore[reportUnknownArgumentType]  # JSON
            return plain(", ".join([format_hash_short(tool.before or tool.after), *map(str, about)]))


def _policies(diff: Diff) -> Iterator[Line]:
    changes = diff.policies or ()
    for change, name in zip(changes, _aligned(plain(change.id) for change in changes), strict=True):
        answers = " → ".join(_answer(answer) for answer in (change.before, change.after) if answer is not None)
        yield Line(_SIGNS.get(change.kind, "~"), 0, f"{name}  {answers}")
    if diff.modes:
        yield Line("~", 0, f"mode  {diff.modes[0]} → {diff.modes[1]}")


def _answer(result: PolicyResult) -> str:
    return f"{result.kind} ({plain(result.reason)})" if result.reason else result.kind


def _definition(parts: Sequence[PartChange] | None, width: int) -> Iterator[Line]:
    if parts is None:
        yield from _fields(None, 0, width)
    for part in parts or ():
        name = plain(part.kind if part.name is None else f"{part.kind} {part.name}")
        yield Line("~", 0, f"{name}  {format_hash_short(part.before)} → {format_hash_short(part.after)}")
        yield from _fields(part.changes, 4, width)


def _code(changes: Sequence[CodeChange], width: int) -> Iterator[Line]:
    for change in changes:
        code = change.code
        yield Line("~", 0, f"{format_hash_short(code.before)} → {format_hash_short(code.after)}")
        if code.tools:
            yield Line("", 4, plain(f"same definition, different code: {', '.join(code.tools)}"))
        if code.changed:
            yield Line("", 4, plain(f"different definition, different code: {', '.join(code.changed)}"))
        yield from _fields(change.changes, 4, width)


def _fields(changes: Sequence[Change] | None, indent: int, width: int) -> Iterator[Line]:
    """Yield a line for each change. Values are truncated to the width that the paths leave."""
    if changes is None:
        yield Line("", indent + 2, "only the hashes are known, not the payloads")
        return
    paths = _aligned(plain(change.path) for change in changes)
    for change, path in zip(changes, paths, strict=True):
        room = width - indent - len(path) - 4
        text, is_truncated = _values(change, room)
        yield Line(_SIGNS.get(change.kind, "~"), indent, f"{path}  {text}", is_truncated)


def _values(change: Change, room: int) -> tuple[str, bool]:
    before, after = _formatted(change.before), _formatted(change.after)
    match change.kind:
        case "added":
            return _truncated(after, 0, room)
        case "removed":
            return _truncated(before, 0, room)
        case _:
            prefix = "order: " if change.kind == "reordered" else "renamed: " if change.kind == "renamed" else ""
            room -= len(prefix) + 3
            if len(before) + len(after) <= room:
                return f"{prefix}{before} → {after}", False
            room //= 2
            same = len([*takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))])
            context = 8  # common characters to show before the first difference
            start = min(same - context, max(len(before), len(after)) - room + 1)
            (old, is_old_truncated), (new, is_new_truncated) = (
                _truncated(text, start, room) for text in (before, after)
            )
            return f"{prefix}{old} → {new}", is_old_truncated or is_new_truncated


def _formatted(value: Any) -> str:  # JSON data
    if isinstance(value, str) and len(value) == 64 and _HEX.issuperset(value):
        return format_hash_short(value)
    match value:
        case {"name": str(name), "hash": str(hash), **rest} if not rest:
            return f"{plain(name)} {format_hash_short(hash)}"
        case _:
            text = json.dumps(value, ensure_ascii=False)
            return text if text.isprintable() else json.dumps(value)


def _truncated(text: str, start: int, room: int) -> tuple[str, bool]:
    """Return a text, and whether it was truncated to ``room`` characters, beginning at ``start``."""
    room = max(room, 16)  # readable, regardless of the report's width
    if len(text) <= room:
        return text, False
    head = "…" if start > 0 else ""
    rest = head + text[max(start, 0) :]
    return rest if len(rest) <= room else f"{rest[: room - 1]}…", True


def _aligned(texts: Iterable[str]) -> list[str]:
    cells = list(texts)
    width = max((len(text) for text in cells if len(text) <= 48), default=0)  # longer texts overflow the column
    return [text.ljust(width) for text in cells]
