"""Schemas as model providers take them, and the arguments that come back, fit the tool's own schema (spec 3, K26)."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator

from capset.schemas.model_schemas import ModelSchema, model_schema, refused_keywords, refused_names
from capset.schemas.schema import schemas_in

pytestmark = pytest.mark.spec("K26")
Data = dict[str, Any]
NAMES = st.sampled_from(["a", "a_b", "b c", "$filter", "filter", "日本", "arguments", "x" * 70])
SCALARS = st.none() | st.integers(0, 2) | st.sampled_from(["", "x"])
ARGUMENTS = st.dictionaries(
    NAMES, SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(NAMES, SCALARS, max_size=2), max_size=3
)
PARTS: list[Any] = [
    True,
    False,
    {"type": "integer"},
    {"type": ["string", "null"], "description": "What it is."},
    {"type": "array"},
    {"type": ["array", "null"], "contains": {"type": "integer"}},
    {"prefixItems": [{"type": "integer"}], "type": "array"},
    *({"$ref": reference} for reference in ("#/$defs/d", "#/$defs/whole", "#", "#/properties/a")),
    {"const": {"$ref": "#"}},
]
TOPS: dict[str, Any] = {
    "anyOf": [{"required": ["a"]}, {"required": ["$filter"]}, {"maxProperties": 1}],
    "oneOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b c": {"$ref": "#/$defs/d"}}}],
    "allOf": [{"properties": {"日本": {"$ref": "#"}}}],
    "not": {"required": ["a", "b c"]},
    "$ref": "#/$defs/whole",
    "patternProperties": {"^\\$": {"type": "integer"}},
    "dependentRequired": {"$filter": ["a"]},
    "propertyNames": {"maxLength": 5},
    "if": {"required": ["b c"]},
    "then": {"required": ["a"]},
    "minProperties": 1,
    "description": "What to do.",
    "default": {"$filter": 1},
    "$id": "https://example.org/own",
    "$anchor": "top",
}


@st.composite
def schemas(draw: st.DrawFn) -> Data:
    properties = draw(st.dictionaries(NAMES, st.sampled_from(PARTS), max_size=4))
    tops = draw(st.lists(st.sampled_from([*TOPS]), max_size=2, unique=True))
    if properties.get("a") == {"$ref": "#/properties/a"}:  # it would come to no end
        del properties["a"]
    schema: Data = {"type": "object", "properties": {"a": True, **properties}, **{key: TOPS[key] for key in tops}}
    if draw(st.booleans()):
        schema["required"] = draw(st.lists(NAMES, max_size=2, unique=True))
    if draw(st.booleans()):
        schema["additionalProperties"] = draw(st.sampled_from([True, False, {"type": "integer"}]))
    recursive: Data = {"properties": {"a": {"$ref": "#/$defs/d"}, "b c": {"$ref": "#"}}}
    schema["$defs"] = {"d": {"type": "integer"}, "whole": recursive}
    return deepcopy(schema)


def fits(schema: Mapping[str, Any], value: Any) -> bool:
    return Draft202012Validator(schema).is_valid(value)


def said(mapped_schema: ModelSchema, tool_arguments: Data) -> Data:
    """Return a tool's own arguments as a model would give them."""
    if mapped_schema.is_wrapped:
        return {"arguments": tool_arguments}
    by_own = {name: new for new, name in mapped_schema.names.items()}
    return {by_own.get(name, name): value for name, value in tool_arguments.items()}


def hold_to_providers(schema: Data) -> None:
    Draft202012Validator.check_schema(schema)
    assert (schema["type"], "properties" in schema) == ("object", True)
    assert (refused_keywords(schema), refused_names(schema)) == ([], [])
    for part in schemas_in(schema):
        if part.get("type") == "array" or part.get("type") == ["array", "null"]:
            assert "items" in part


@settings(deadline=None, max_examples=300)
@given(schemas(), ARGUMENTS, ARGUMENTS)
def test_what_fits_the_mapped_schema_fits_the_tool_s_own(schema: Data, tool_arguments: Data, other: Data) -> None:
    before = deepcopy(schema)
    mapped_schema = model_schema(schema)
    hold_to_providers(mapped_schema.json_schema)
    for arguments in (tool_arguments, said(mapped_schema, tool_arguments), {"arguments": tool_arguments, **other}):
        if fits(mapped_schema.json_schema, arguments):
            assert fits(schema, mapped_schema.restore(arguments))
    assert schema == before


@settings(deadline=None, max_examples=300)
@given(schemas(), ARGUMENTS)
def test_all_that_a_tool_takes_can_be_said(schema: Data, tool_arguments: Data) -> None:
    mapped_schema = model_schema(schema)
    if mapped_schema.names:
        tool_arguments = {name: value for name, value in tool_arguments.items() if name in schema["properties"]}
    assert mapped_schema.restore(said(mapped_schema, tool_arguments)) == tool_arguments
    if fits(schema, tool_arguments):
        assert fits(mapped_schema.json_schema, said(mapped_schema, tool_arguments))


def test_a_schema_that_stands_in_two_places_is_wrapped_once() -> None:
    """As one does that YAML names by an alias."""
    reference: Data = {"$ref": "#"}
    properties = {"a b": reference, "c": reference}
    schema: Data = {"type": "object", "properties": properties, "minProperties": 1, "anyOf": [True]}
    mapped_schema = model_schema(schema)
    assert mapped_schema.is_wrapped
    assert fits(mapped_schema.json_schema, {"arguments": {"a b": {"c": {"c": {"x": 1}}}}})
    assert not fits(mapped_schema.json_schema, {"arguments": {"a b": {"c": {}}}})


def test_a_schema_that_every_provider_takes_is_the_tool_s_own() -> None:
    properties = {"a": {"type": "array", "items": {"$ref": "#/properties/b"}}, "b": {}}
    schema: Data = {"type": "object", "properties": properties}
    mapped_schema = model_schema(schema)
    assert mapped_schema.json_schema is schema
    assert (dict(mapped_schema.names), mapped_schema.is_wrapped, mapped_schema.may_be_strict) == ({}, False, True)


def test_a_name_that_is_refused_is_another_and_the_description_has_its_own() -> None:
    number, date = {"type": "integer"}, {"type": "string", "description": "When."}
    properties: Data = {"$filter": date, "filter[id]": True, "日本": number, "top": number}
    mapped_schema = model_schema({"type": "object", "properties": properties, "required": ["$filter", "top"]})
    (marked,) = (name for name in mapped_schema.names if name.startswith("argument_"))
    assert mapped_schema.json_schema == {
        "type": "object",
        "properties": {
            "filter": {"type": "string", "description": "$filter: When."},
            "filter_id": {"description": "filter[id]"},
            marked: {**number, "description": "日本"},
            "top": number,
        },
        "required": ["filter", "top"],
        "additionalProperties": False,
    }
    tool_arguments = {"$filter": "x", "日本": 1, "top": 2}
    assert mapped_schema.restore({"filter": "x", marked: 1, "top": 2}) == tool_arguments
    assert mapped_schema.restore(tool_arguments) == tool_arguments, "a model may have read the tool's own names"
    both = {"filter": "x", "$filter": "y"}
    assert mapped_schema.restore(both) == both, "of two values for one argument none is dropped"


def test_names_that_would_be_one_stay_apart_whatever_their_order() -> None:
    properties = dict.fromkeys(["a b", "a+b", "a_b", "$c", "c"], True)
    names = model_schema({"type": "object", "properties": properties}).names
    assert names == model_schema({"type": "object", "properties": dict(reversed(properties.items()))}).names
    assert sorted(names.values()) == ["$c", "a b", "a+b"]
    assert not {"a_b", "c"} & names.keys()


def test_a_schema_that_is_refused_at_its_top_is_that_of_one_argument() -> None:
    def place(whole: str) -> Data:
        properties = {"near": {"$ref": whole}, "at": {"$ref": "#/$defs/at"}}
        return {"type": "object", "properties": properties, "anyOf": [{"required": ["near"]}, {"required": ["at"]}]}

    defs = {"at": {"type": "string"}}
    mapped_schema = model_schema({**place("#"), "$defs": defs})
    assert mapped_schema.is_wrapped
    assert mapped_schema.json_schema == {
        "type": "object",
        "properties": {"arguments": place("#/properties/arguments")},
        "required": ["arguments"],
        "additionalProperties": False,
        "$defs": defs,
    }
    assert mapped_schema.restore({"arguments": {"at": "x"}}) == {"at": "x"}
    assert mapped_schema.restore({"at": "x"}) == {"at": "x"}, "a model that does not wrap them is understood"
    assert mapped_schema.restore({"arguments": "x"}) == {"arguments": "x"}, "for the kernel to refuse"


def test_recursive_references_hold_in_a_schema_that_is_wrapped() -> None:
    schema: Data = {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "type": "object",
        "properties": {"next": {"$recursiveRef": "#"}},
        "oneOf": [{"required": ["next"]}, {"maxProperties": 0}],
    }
    inner = model_schema(schema).json_schema["properties"]["arguments"]
    assert inner["properties"] == {"next": {"$recursiveRef": "#"}}
    assert inner["$id"] == "capset:/arguments", "in a document of its own"


D7 = "http://json-schema.org/draft-07/schema#"
NULL = {"type": "null"}
PAIR: Data = {"type": "array", "items": [{"type": "integer"}, {"type": "string"}]}


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({**PAIR, "additionalItems": NULL}, [[1, "x"], ["x"], [1, "x", None], [1, "x", 2], []]),
        ({"items": {"type": "integer"}, "additionalItems": False}, [[1, 2], ["x"]]),
        ({"dependencies": {"a": ["b"], "b": {"required": ["c"]}}}, [{"a": 1}, {"b": 1}, {"a": 1, "b": 1, "c": 1}, {}]),
        ({"$ref": "#/definitions/d", "maxLength": 0}, ["x", "", 1]),
        ({"$ref": "#named", "type": "null"}, ["x", None]),
        ({"properties": {"dependencies": NULL, "items": {"items": [False]}}}, [{"items": [1]}, {"items": []}]),
    ],
)
def test_an_older_dialect_is_written_as_2020_12_has_it(schema: Data, values: list[Any]) -> None:
    definitions = {"d": {"type": "string"}, "n": {"$id": "#named", "type": "string"}}
    old: Data = {"$schema": D7, "type": "object", "properties": {"x": schema}, "definitions": definitions}
    mapped_schema = model_schema(old)
    hold_to_providers(mapped_schema.json_schema)
    assert "$schema" not in mapped_schema.json_schema
    for value in values:
        assert fits(mapped_schema.json_schema, {"x": value}) == Draft7Validator(old).is_valid({"x": value})


def test_limits_of_the_oldest_dialect_are_numbers() -> None:
    limited = {"minimum": 1, "exclusiveMinimum": True, "maximum": 5, "exclusiveMaximum": False}
    old = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object", "properties": {"n": limited}}
    assert model_schema(old).json_schema["properties"]["n"] == {"exclusiveMinimum": 1, "maximum": 5}


def test_a_reference_to_what_would_move_keeps_its_dialect() -> None:
    properties = {"p": PAIR, "q": {"$ref": "#/properties/p/items/0"}}
    old: Data = {"$schema": D7, "type": "object", "properties": properties}
    assert model_schema(old).json_schema is old


@pytest.mark.parametrize(
    ("key", "value"), [("allOf", [{}]), ("not", NULL), ("if", NULL), ("dependentRequired", {"a": ["b"]})]
)
def test_strict_mode_is_off_for_what_it_does_not_know(key: str, value: Any) -> None:
    assert not model_schema({"type": "object", "properties": {"a": {key: value}}}).may_be_strict
    assert model_schema({"type": "object", "properties": {key: {}}}).may_be_strict, "a field is no keyword"
