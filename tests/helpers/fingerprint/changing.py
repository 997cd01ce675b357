"""Payloads to compare, and how reported changes are read and carried out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from capset.fingerprint.changes import Change

_STEP = re.compile(
    r"""\.?(?P<quoted>"(?:[^"\\]|\\.)*")|\.?(?P<key>[\w$@-]+)"""
    r"""|\[(?P<member>)\]|\[(?P<index>\d+)(?:→(?P<moved>\d+))?\]"""
    r"""|\[(?P<name>[^"\[\]→]+)\]|\[(?P<named>"(?:[^"\\]|\\.)*")\]"""
)
Step = tuple[str, Any]
NOTHING = object()

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
keys = texts | st.sampled_from(["a", "b", "a.b", "", "0", "x→y", "tools", '"', "[]"])
scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2, width=16) | texts
datas = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)
refs = st.lists(st.fixed_dictionaries({"name": keys, "hash": st.sampled_from("abc")}), max_size=4)
payloads = st.fixed_dictionaries(
    {"kind": st.just("capability")},
    optional={
        "permissions": st.lists(st.sampled_from("abcd"), max_size=4, unique=True),
        "policies": st.lists(st.sampled_from("abcd"), max_size=4),
        "tools": refs,
        "uses": st.lists(st.fixed_dictionaries({"name": keys, "hash": st.sampled_from("ab")}), unique_by=str),
        "instructions": st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=6),
        "context": st.lists(datas, max_size=4),
        "config": datas,
    },
)


def steps(path: str) -> list[Step]:
    """Read a path as its documentation says; fail for what it does not say."""
    path_steps: list[Step] = []
    place = 0
    while place < len(path):
        match = _STEP.match(path, place)
        assert match, f"{path!r} cannot be read from {place} on"
        kind = match.lastgroup or ""
        if kind in {"quoted", "named"}:
            path_steps.append(("key" if kind == "quoted" else "name", json.loads(match[kind])))
        elif kind in {"index", "moved"}:
            path_steps.append(("index", (int(match["index"]), int(match["moved"] or match["index"]))))
        else:
            path_steps.append((kind, match[kind]))
        place = match.end()
    return path_steps


def apply(before: Any, changes: Iterable[Change]) -> Any:
    """Carry out what was reported; sets and named items come in any order where none is told."""
    return _apply(before, [(steps(change.path), change) for change in changes])


def _apply(value: Any, todo: list[tuple[list[Step], Change]]) -> Any:
    inner = [(path, change) for path, change in todo if path]
    changes = [change for path, change in todo if not path]
    if inner:
        value = _members(value, inner) if isinstance(value, dict) else _items(value, inner)
    for change in changes:
        match change.kind:
            case "removed":
                return NOTHING
            case "reordered" if _are_names_of(change.after, value):
                value = sorted(value, key=lambda member: change.after.index(member["name"]))
            case _:
                value = change.after
    return value


def _are_names_of(order: list[Any], items: list[Any]) -> bool:
    """Whether an order is told by names; items that share a name, or have none, are told themselves."""
    return all(isinstance(name, str) for name in order) and all(isinstance(item, dict) for item in items)


def _by_step(todo: list[tuple[list[Step], Change]]) -> dict[Step, list[tuple[list[Step], Change]]]:
    groups: dict[Step, list[tuple[list[Step], Change]]] = {}
    for path, change in todo:
        groups.setdefault(path[0], []).append((path[1:], change))
    return groups


def _members(value: dict[str, Any], todo: list[tuple[list[Step], Change]]) -> dict[str, Any]:
    members = dict(value)
    for (kind, key), inner in _by_step(todo).items():
        assert kind == "key"
        members[key] = _apply(members.get(key), inner)
    return {key: member for key, member in members.items() if member is not NOTHING}


def _items(value: list[Any], todo: list[tuple[list[Step], Change]]) -> list[Any]:
    changed = list(value)
    added: list[tuple[int, Any]] = []
    for (kind, step), inner in _by_step(todo).items():
        direct_changes = [change for path, change in inner if not path]
        if kind == "member":
            for change in direct_changes:
                if change.kind == "added":
                    changed.append(change.after)
                else:
                    changed.remove(change.before)
        elif kind == "name":
            place = next(
                (place for place, entry in enumerate(changed) if entry is not NOTHING and entry["name"] == step), None
            )
            if place is None:
                changed.append(_apply(None, inner))
            else:
                changed[place] = _apply(changed[place], inner)
        else:
            # One item may go from a place where another comes to.
            added += [(step[1], change.after) for change in direct_changes if change.kind == "added"]
            rest = [(path, change) for path, change in inner if path or change.kind != "added"]
            if rest:
                changed[step[0]] = _apply(changed[step[0]], rest)
    changed = [entry for entry in changed if entry is not NOTHING]
    for place, addition in sorted(added, key=lambda pair: pair[0]):
        changed.insert(place, addition)
    return changed


def flipped(change: Change) -> Change:
    """Return a change as it is seen from the other side."""
    kinds: dict[str, Any] = {"added": "removed", "removed": "added"}
    path = re.sub(r"\[(\d+)→(\d+)\]", r"[\2→\1]", change.path)
    path = re.sub(r"(\$defs\.)(\w+)→(\w+)", r"\1\3→\2", path)
    return Change(path, kinds.get(change.kind, change.kind), change.after, change.before)
