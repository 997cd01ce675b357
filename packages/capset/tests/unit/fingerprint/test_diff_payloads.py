from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from capset.fingerprint.canonical import NotCanonical, canonical
from capset.fingerprint.changes import Change, compare, is_same
from capset.fingerprint.payload_changes import diff_payloads
from tests.helpers.fingerprint.changing import apply, datas, flipped, payloads, steps

pytestmark = pytest.mark.spec("F31")
SETS = ("permissions", "policies")
NAMED = ("tools", "uses")


def normal(payload: Any) -> bytes:
    sorts = {key: sorted(payload[key], key=canonical) for key in (*SETS, *NAMED) if key in payload}
    return canonical({**payload, **sorts})


TWINS = [{"name": "a", "hash": "1"}, {"name": "a", "hash": "2"}]


@settings(deadline=None)
@given(payloads, payloads)
@example({"kind": "capability", "tools": TWINS}, {"kind": "capability", "tools": TWINS[::-1]})
@example({"kind": "capability", "context": [{}, {"a": 1}]}, {"kind": "capability", "context": [{"a": 1}, {}]})
def test_the_changes_lead_from_one_side_to_the_other(before: Any, after: Any) -> None:
    forward, back = diff_payloads(before, after), diff_payloads(after, before)
    assert bool(forward) == (canonical(before) != canonical(after)), "nothing that moves a hash is passed over"
    assert normal(apply(deepcopy(before), forward)) == normal(after)
    assert sorted(map(repr, map(flipped, forward))) == sorted(map(repr, back)), "from the other side what came went"


@settings(deadline=None)
@given(datas, datas)
def test_the_changes_of_any_data_lead_to_it(before: Any, after: Any) -> None:
    changes = [*compare("data", before, after)]
    assert is_same(apply({"data": deepcopy(before)}, changes)["data"], after)
    assert not [*compare("data", before, deepcopy(before))]


@settings(deadline=None)
@given(payloads, st.data())
def test_every_field_that_changes_has_its_own_path(payload: Any, data: st.DataObject) -> None:
    leaves = [*_leaves(payload.get("config"))]
    if "config" not in payload or not leaves:
        return
    path = data.draw(st.sampled_from(leaves))
    other = deepcopy(payload)
    holder = other
    for step in ["config", *path][:-1]:
        holder = holder[step]
    holder[["config", *path][-1]] = "something else entirely"
    (change,) = diff_payloads(payload, other)
    assert [step[1][0] if step[0] == "index" else step[1] for step in steps(change.path)] == ["config", *path]
    assert (change.kind, change.after) == ("changed", "something else entirely")


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every leaf that lies below mappings; below a list its neighbours say where it is."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif not isinstance(value, list):
        yield path


TOOL: dict[str, Any] = {
    "kind": "tool",
    "name": "save",
    "description": "Save.",
    "instructions": ["a", "b"],
    "permissions": ["n:read", "n:write"],
    "policies": ["by_day"],
    "policyBindings": [{"id": "by_day", "executeBinding": "live", "phase": "both"}],
    "limits": [],
}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"description": "Keep."}, [Change("description", "changed", "Save.", "Keep.")]),
        ({"version": None}, [Change("version", "added", None, None)]),
        ({"permissions": ["n:write", "z"]}, [
            Change("permissions[]", "removed", before="n:read"), Change("permissions[]", "added", after="z"),
        ]),
        ({"permissions": ["n:write", "n:read"]}, [
            Change("permissions", "reordered", ["n:read", "n:write"], ["n:write", "n:read"]),
        ]),
        ({"instructions": ["b", "c"]}, [
            Change("instructions[]", "removed", before="a"), Change("instructions[]", "added", after="c"),
        ]),
        ({"policyBindings": [{"id": "by_day", "executeBinding": "live", "phase": "call"}]}, [
            Change("policyBindings[by_day].phase", "changed", "both", "call"),
        ]),
        ({"policyBindings": []}, [Change("policyBindings[by_day]", "removed", before=TOOL["policyBindings"][0])]),
    ],
)  # fmt: skip
def test_what_changed_in_a_tool(more: dict[str, Any], expected: list[Change]) -> None:
    assert list(diff_payloads(TOOL, {**TOOL, **more})) == expected


def ref(name: str, hash: str = "1") -> dict[str, str]:
    return {"name": name, "hash": hash}


AGENT: dict[str, Any] = {
    "kind": "agent",
    "root": None,
    "capabilities": [ref("memory:user"), ref("notes"), ref("7"), ref("a b")],
    "systemPrompt": "Be.",
    "instructions": ["One.", "Two.", "Three."],
    "files": [{"path": "/docs/a.txt", "digest": "1"}],
    "resources": [{"name": "n", "scope": "user", "schema": {"type": "object"}}],
    "state": {"session": [{"properties": {"n": {"type": "integer"}}, "required": ["a", "b"]}]},
    "presetPolicies": [{"preset": "p", "policies": ["x"], "tools": ["add"]}],
}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"capabilities": [ref("notes"), ref("memory:user"), ref("7"), ref("a b")]}, [
            Change("capabilities", "reordered",
                   ["memory:user", "notes", "7", "a b"], ["notes", "memory:user", "7", "a b"]),
        ]),
        ({"capabilities": [ref("memory:user", "2"), ref("notes"), ref("7", "2"), ref("a b", "2")]}, [
            Change('capabilities["7"].hash', "changed", "1", "2"),
            Change('capabilities["a b"].hash', "changed", "1", "2"),
            Change("capabilities[memory:user].hash", "changed", "1", "2"),
        ]),
        ({"capabilities": [*AGENT["capabilities"], ref("notes", "2")]}, [
            Change("capabilities[4]", "added", after=ref("notes", "2")),
        ]),
        ({"instructions": ["Two.", "One.", "Three."]}, [
            Change("instructions", "reordered", ["One.", "Two.", "Three."], ["Two.", "One.", "Three."]),
        ]),
        ({"instructions": ["One.", "Too.", "Three.", "Four."]}, [
            Change("instructions[1]", "changed", "Two.", "Too."), Change("instructions[3]", "added", after="Four."),
        ]),
        ({"instructions": ["Zero.", "One.", "Two.", "Free."]}, [
            Change("instructions[0]", "added", after="Zero."),
            Change("instructions[2→3]", "changed", "Three.", "Free."),
        ]),
        ({"files": [{"path": "/docs/a.txt", "digest": "2"}]}, [
            Change("files[/docs/a.txt].digest", "changed", "1", "2"),
        ]),
        ({"resources": [{"name": "n", "scope": "user", "schema": {"type": ["object", "null"]}}]}, [
            Change("resources[user.n].schema.type", "changed", "object", ["object", "null"]),
        ]),
        ({"state": {"session": [{"properties": {"n": {"type": "number"}}, "required": ["b"]}]}}, [
            Change("state.session[0].properties.n.type", "changed", "integer", "number"),
            Change("state.session[0].required[]", "removed", before="a"),
        ]),
        ({"presetPolicies": [{"preset": "p", "policies": ["x", "y"], "tools": ["add"]}]}, [
            Change("presetPolicies[p].policies[]", "added", after="y"),
        ]),
    ],
)  # fmt: skip
def test_what_changed_in_a_definition(more: dict[str, Any], expected: list[Change]) -> None:
    assert list(diff_payloads(AGENT, {**AGENT, **more})) == expected


def test_items_that_share_a_name_are_shown_in_their_new_order() -> None:
    (change,) = diff_payloads({"tools": TWINS}, {"tools": TWINS[::-1]})
    assert change == Change("tools", "reordered", TWINS, TWINS[::-1])


@pytest.mark.parametrize("kinds", [300, 30, 3])
def test_one_change_in_a_long_list_is_one_change(kinds: int) -> None:
    before = [f"Line {place % kinds}." for place in range(300)]
    changed = [*before[:150], "Another.", *before[151:]]
    longer = [*before[:150], "Another.", *before[150:]]
    for ours, theirs, change in (
        (before, changed, Change("instructions[150]", "changed", before[150], "Another.")),
        (before, longer, Change("instructions[150]", "added", after="Another.")),
        (longer, before, Change("instructions[150]", "removed", before="Another.")),
    ):
        assert diff_payloads({"instructions": ours}, {"instructions": theirs}) == (change,)


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from([3, 90, 10_000]))
def test_the_changes_of_long_lists_lead_from_either_side_to_the_other(random: Random, kinds: int) -> None:
    before = [random.randrange(kinds) for _ in range(random.randrange(120))]
    after = [number for number in before if random.random() < 0.9]
    for _ in range(5):
        after.insert(random.randrange(len(after) + 1), random.randrange(kinds))
    forward, back = [*compare("data", before, after)], [*compare("data", after, before)]
    assert apply({"data": [*before]}, forward)["data"] == after
    assert sorted(map(repr, map(flipped, forward))) == sorted(map(repr, back))


def test_lists_that_differ_everywhere_are_compared_quickly() -> None:
    ours, theirs = ([text for place in range(2_000) for text in ("same", f"{side} {place}")] for side in "ab")
    assert len([*compare("data", ours, theirs)]) == 2_000  # by the cube it would take hours


def test_numbers_are_compared_as_they_are_hashed() -> None:
    assert diff_payloads({"config": {"a": 1, "b": 0.0}}, {"config": {"a": 1.0, "b": -0.0}}) == ()
    (change,) = diff_payloads({"config": [1]}, {"config": [True]})
    assert change.path == "config[0]"


def test_what_is_no_json_data_is_refused() -> None:
    with pytest.raises(NotCanonical):
        diff_payloads({"config": float("nan")}, {"config": 1})
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(NotCanonical, match="nested too deeply"):
        diff_payloads({"config": deep}, {"config": 1})


KEYS = ("kind", "schema", "permissions", "policyBindings", "tools", "resources", "presetPolicies", "state", "files")
INNER = ("$defs", "$ref", "properties", "required", "enum", "discriminator", "mapping", "name", "hash", "schema", "x")
odd = st.recursive(
    st.none() | st.booleans() | st.sampled_from(["x", "#/$defs/x", "tool"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(INNER), inner, max_size=4),
    max_leaves=10,
)
odds = st.dictionaries(st.sampled_from(KEYS), odd, max_size=5)


@settings(deadline=None)
@given(odds, odds)
def test_payloads_of_any_other_shape_are_compared_too(before: Any, after: Any) -> None:
    forward, back = diff_payloads(before, after), diff_payloads(after, before)
    assert bool(forward) == (canonical(before) != canonical(after))
    assert sorted(map(repr, map(flipped, forward))) == sorted(map(repr, back))
