"""Merge patches, and what a row says (spec 5, P4, P7)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset.errors import InvalidArguments
from capset.stores.base import AgentRow
from capset.wire.agents import AgentInput
from capset_connect.agents.rows import filled, merge_patch, patched, restored

ROW = AgentRow("a", None, "", "", "", (), (), (), "active", 1, "", "", "")
GIVEN = AgentInput(
    name="keeper",
    model="m",
    tags=["x"],
    static_context={"a": {"b": 1, "c": [1, {"d": None}]}, "e": None},
    capabilities=["kit", {"id": "shelf", "config": {"count": 1, "until": None}}],  # pyright: ignore[reportArgumentType]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.spec("P7")
@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [  # RFC 7396, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_merge_patch_is_that_of_the_rfc(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


@pytest.mark.spec("P7")
@given(JSON, JSON)
def test_a_merge_patch_is_idempotent_and_changes_nothing_given(target: Any, patch: Any) -> None:
    before = repr((target, patch))
    merged = merge_patch(target, patch)
    assert merge_patch(merged, patch) == merged
    assert repr((target, patch)) == before


@pytest.mark.spec("P4", "P7")
def test_objects_are_merged_and_lists_replaced() -> None:
    row = filled(ROW, GIVEN)
    changed = patched(row, {"static_context": {"a": {"b": None, "f": 2}}, "tags": ["y"], "model": None})
    assert changed.static_context == {"a": {"c": [1, {"d": None}], "f": 2}, "e": None}
    assert (changed.tags, changed.model, changed.name) == (["y"], None, "keeper")
    entries = [{"id": "shelf", "config": {"until": None}}]
    (entry,) = patched(row, {"capabilities": entries}).entries()
    assert entry.config == {"until": None}, "a null within a list is data"
    assert patched(row, {"static_context": None}).static_context is None


@pytest.mark.spec("P7")
@pytest.mark.parametrize("patch", [{"unheard": None}, {"static_context": 5}, {"model": ""}, {"model": "m" * 201}])
def test_what_does_not_fit_is_named(patch: dict[str, Any]) -> None:
    with pytest.raises(InvalidArguments) as caught:
        patched(filled(ROW, GIVEN), patch)
    assert [field.path for field in caught.value.fields] == list(patch)


@pytest.mark.spec("P5")
def test_what_was_written_is_written_again_with_another_status() -> None:
    row = filled(ROW, GIVEN)
    assert filled(ROW, restored(row, "active")) == row
    assert restored(row, "archived").status == "archived"
