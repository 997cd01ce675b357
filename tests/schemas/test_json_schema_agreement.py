"""Foreign schemas take what another validator of JSON Schema takes, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from capset.schemas.json_schema import compile_json_schema
from capset.schemas.validation_errors import SchemaMismatch

NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.5, 1.0, 2.5]) | st.text("xyz", max_size=3)
DATA = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
COUNTS = st.integers(0, 3)
TYPES = st.sampled_from(["integer", "number", "string", "boolean", "null", "array", "object"])


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=3)
    by_name = st.dictionaries(NAMES, inner, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
            "enum": st.lists(SCALARS, min_size=1, max_size=3),
            "const": DATA,
            "minimum": st.integers(-3, 3),
            "exclusiveMaximum": st.integers(-3, 3),
            "multipleOf": st.integers(1, 3),
            "minLength": COUNTS,
            "maxLength": COUNTS,
            "pattern": st.sampled_from(["^x", "y$", "x+y?", "^[xy]*$"]),
            "minItems": COUNTS,
            "maxItems": COUNTS,
            "uniqueItems": st.booleans(),
            "prefixItems": some,
            "items": inner,
            "contains": inner,
            "properties": by_name,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "[bc]"]), inner, max_size=2),
            "additionalProperties": inner,
            "propertyNames": inner,
            "required": st.lists(NAMES, max_size=2, unique=True),
            "minProperties": COUNTS,
            "maxProperties": COUNTS,
            "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=2),
            "allOf": some,
            "anyOf": some,
            "oneOf": some,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "unevaluatedProperties": st.booleans(),
        },
    )


SCHEMAS = keywords(st.recursive(st.booleans(), lambda inner: inner | keywords(inner), max_leaves=4))


@pytest.mark.nightly
@pytest.mark.spec("K4", "K9")
@settings(deadline=None, max_examples=150)
@given(SCHEMAS, DATA)
def test_it_takes_what_another_validator_takes(schema: dict[str, Any], value: Any) -> None:
    agree(schema, value)


@pytest.mark.nightly
@pytest.mark.spec("K4", "K9")
@settings(deadline=None, max_examples=60)
@given(st.dictionaries(NAMES, SCHEMAS, max_size=3), DATA)
def test_and_through_references(targets: dict[str, Any], value: Any) -> None:
    agree(
        {
            "properties": {name: {"$ref": f"#/$defs/{name}"} for name in targets},
            "items": {"$ref": "#"},
            "additionalProperties": {"$ref": "#"},
            "$defs": targets,
        },
        value,
    )


def agree(schema: dict[str, Any], value: Any) -> None:
    foreign = compile_json_schema("it", schema)
    if Draft202012Validator(schema).is_valid(value):
        taken = foreign.check(value)
        assert (repr(taken), type(taken)) == (repr(value), type(value))  # there are no defaults
    else:
        with pytest.raises(SchemaMismatch) as raised:
            foreign.check(value)
        assert raised.value.fields
