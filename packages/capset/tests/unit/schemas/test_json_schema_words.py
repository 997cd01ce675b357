"""What is told of data that does not fit a JSON Schema: what was expected, where, and no value."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capset.schemas.json_schema import compile_own_schema
from capset.schemas.validation_errors import SchemaMismatch

pytestmark = pytest.mark.spec("G12")


def misfits_of(schema: dict[str, Any], value: Any) -> list[str]:
    with pytest.raises(SchemaMismatch) as raised:
        compile_own_schema("it", schema).check(value)
    return list(map(str, raised.value.fields))


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"properties": {"a": False}}, {"a": 1}, "a: no such parameter"),
        ({"additionalProperties": False}, {"a": 1}, "(arguments): Input should have no fields"),
        ({"prefixItems": [True], "items": False}, [1, 2], "1: nothing is allowed here"),
        ({"prefixItems": [True], "unevaluatedItems": False}, [1, 2], "(arguments): Input should have no more items"),
        ({"properties": {"size": {}}, "unevaluatedProperties": False}, {"sise": 1}, "sise: no such parameter (did you"),
        ({"propertyNames": {"maxLength": 2}}, {"abc": 1}, "abc: its name does not fit: Input should have at most 2"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "b: required, but missing"),
        ({"type": ["integer", "null"]}, "x", "Input should be an integer or null"),
        ({"minimum": 2}, 1, "Input should be at least 2"),
        ({"exclusiveMinimum": 2}, 2, "Input should be greater than 2"),
        ({"exclusiveMaximum": 2.5}, 3, "Input should be less than 2.5"),
        ({"multipleOf": 5}, 3, "Input should be a multiple of 5"),
        ({"minLength": 1}, "", "Input should have at least 1 character"),
        ({"maxLength": 2}, "xxx", "Input should have at most 2 characters"),
        ({"pattern": "^a+$"}, "xxx", 'Input should match the pattern "^a+$"'),
        ({"format": "date"}, "xxx", 'Input should be of the format "date"'),
        ({"minItems": 2}, [1], "Input should have at least 2 items"),
        ({"maxItems": 1}, [1, 2], "Input should have at most 1 item"),
        ({"uniqueItems": True}, [1, 1], "Input should have no item twice"),
        ({"minProperties": 1}, {}, "Input should have at least 1 field"),
        ({"maxProperties": 0}, {"a": 1}, "Input should have at most 0 fields"),
        ({"const": {"a": 1}}, 3, 'Input should be {"a": 1}'),
        ({"not": {"type": "integer"}}, 3, "Input should not be what its schema excludes"),
        ({"contains": {"const": 1}}, [2], "Input should have an item of the kind that its schema asks for"),
        ({"contains": True, "maxContains": 1}, [2, 3], "Input should have fewer items of the kind"),
        ({"oneOf": [{"minimum": 1}, {"maximum": 9}]}, 5, "Input should fit only one of several schemas, but fits more"),
        ({"anyOf": [{"type": "string"}, {"minimum": 9}]}, 5, "Input should be a string or Input should be at least 9"),
        ({"if": {"type": "integer"}, "then": {"maximum": 3}}, 5, "Input should be at most 3"),
        ({"allOf": [False]}, 5, "nothing is allowed here"),
    ],
)
def test_what_was_expected_is_told_at_its_place(schema: dict[str, Any], value: Any, expected: str) -> None:
    (misfit,) = misfits_of(schema, value)
    assert misfit.startswith((expected, f"(arguments): {expected}"))


def test_of_very_many_misfits_the_number_is_told() -> None:
    misfits = misfits_of({"items": {"type": "integer"}}, ["x"] * 5000)
    assert (misfits[0], misfits[-1]) == ("0: Input should be an integer", "…: 4900 more do not fit")
    assert len(misfits) == 101


SECRET = "Xq7-unlikely-"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just(SECRET),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcdef"), inner, max_size=3),
    max_leaves=8,
)
ONE_ITEM = {"prefixItems": [True], "unevaluatedItems": False}
STERN = {
    "properties": {
        "a": {"type": "integer", "minimum": 5},
        "b": {"enum": ["x", 7]},
        "c": {"oneOf": [{"pattern": "^z"}, {"type": "array", "items": {"const": 1}, "uniqueItems": True}]},
        "d": {"not": {"type": ["string", "object"]}, "contains": {"format": "uuid"}, **ONE_ITEM},
        "e": {"format": "email", "propertyNames": {"const": "a"}, "additionalProperties": {"maxLength": 1}},
    },
    "additionalProperties": {"if": {"type": "string"}, "then": {"minLength": 99}, "else": False},
}


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from("abcdef"), VALUES), st.text("0123456789", min_size=6, max_size=9))
def test_no_value_is_echoed(value: dict[str, Any], digits: str) -> None:
    secret = SECRET + digits
    value = json.loads(json.dumps(value).replace(SECRET, secret))
    with pytest.raises(SchemaMismatch) as raised:
        compile_own_schema("it", STERN).check({**value, "a": secret})
    assert SECRET not in str(raised.value)
    assert (raised.value.__cause__, raised.value.__context__) == (None, None)
    assert all(SECRET not in str(field) for field in raised.value.fields)
