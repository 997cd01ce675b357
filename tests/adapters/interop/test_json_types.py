"""Types and keywords of others as JSON Schema (spec 8, W21)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from capset.adapters.interop.json_types import mapped_schema
from capset.errors import DefinitionError
from capset.schemas.json_schema import compile_json_schema
from capset.schemas.validation_errors import SchemaMismatch


def of(**properties: Any) -> dict[str, Any]:
    """Return the properties of a document's schema, mapped."""
    return mapped_schema("parameters", {"type": "dict", "properties": properties})["properties"]


def takes(schema: dict[str, Any], value: Any) -> bool:
    try:
        compile_json_schema("x", {"type": "object", "properties": {"x": schema}}).check({"x": value})
    except SchemaMismatch:
        return False
    return True


@pytest.mark.spec("W21")
@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("dict", "object"),
        ("HashMap", "object"),
        ("OBJECT", "object"),
        ("tuple", "array"),
        ("ArrayList", "array"),
        ("String", "string"),
        ("char", "string"),
        ("int", "integer"),
        ("long", "integer"),
        ("float", "number"),
        ("double", "number"),
        ("Boolean", "boolean"),
        ("bool", "boolean"),
        ("NoneType", "null"),
        (["str", "None"], ["string", "null"]),
        (["int", "long"], ["integer"]),
    ],
)
def test_a_type_has_its_name_in_json(given: object, found: object) -> None:
    assert of(x={"type": given})["x"]["type"] == found


@pytest.mark.spec("W21")
@pytest.mark.parametrize("given", ["any", "Any", "", ["str", "any"]])
def test_any_type_is_no_type(given: object) -> None:
    assert of(x={"type": given, "description": "It."}) == {"x": {"description": "It."}}


@pytest.mark.spec("W21")
def test_types_are_mapped_at_every_depth() -> None:
    given = {
        "type": "array",
        "items": {
            "type": "dict",
            "properties": {"pair": {"type": "tuple", "items": [{"type": "float"}, {"type": "str"}]}},
            "additionalProperties": {"anyOf": [{"type": "int"}, {"type": "None"}]},
        },
    }
    assert of(x=given)["x"] == {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "pair": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}], "items": {}}
            },
            "additionalProperties": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
    }


@pytest.mark.spec("W21")
def test_names_of_parameters_and_values_are_no_keywords() -> None:
    given = {
        "type": {"type": "str"},
        "default": {"type": "int", "default": 1},
        "x": {"enum": [{"type": "dict"}], "x-of": {"type": "Foo"}},
    }
    assert of(**given) == {
        "type": {"type": "string"},
        "default": {"type": "integer", "default": 1},
        "x": {"enum": [{"type": "dict"}], "x-of": {"type": "Foo"}},
    }


@pytest.mark.spec("W21")
def test_a_schema_of_json_schema_stays_as_it_is() -> None:
    given: dict[str, Any] = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 1, "description": "Where."},
            "days": {"type": "array", "items": {"$ref": "#/$defs/Day"}, "default": []},
            "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
        },
        "required": ["city"],
        "additionalProperties": False,
        "$defs": {"Day": {"type": "integer", "minimum": 1}},
    }
    before = deepcopy(given)
    assert mapped_schema("parameters", given) == before
    assert given == before


@pytest.mark.spec("W21")
def test_required_and_optional_within_a_property_are_the_objects() -> None:
    given = {
        "type": "object",
        "properties": {
            "a": {"type": "str", "required": True},
            "b": {"type": "str", "optional": True},
            "c": {"type": "object", "required": True, "properties": {"d": {"type": "int", "required": False}}},
        },
        "required": ["b"],
    }
    assert mapped_schema("parameters", given) == {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "string"},
            "c": {"type": "object", "properties": {"d": {"type": "integer"}}},
        },
        "required": ["a", "c"],
    }


@pytest.mark.spec("W21")
def test_a_default_is_one_of_the_values() -> None:
    found = of(
        note={"type": "str", "default": None},
        unit={"type": "str", "enum": ["s", "ms"], "default": "N/A"},
        year={"type": "int", "description": "When.", "default": "any"},
        pair={"type": "tuple", "items": {"type": "str"}, "default": [None, None]},
        size={"type": "str", "enum": ["s", "m"], "default": None},
    )
    assert found["note"] == {"type": ["string", "null"], "default": None}
    assert found["unit"] == {"type": "string", "enum": ["s", "ms", "N/A"], "default": "N/A"}
    assert found["year"] == {
        "description": "When.",
        "anyOf": [{"type": "integer"}, {"const": "any"}],
        "default": "any",
    }
    assert found["size"] == {"type": ["string", "null"], "enum": ["s", "m", None], "default": None}
    assert takes(found["year"], 1999)
    assert takes(found["year"], "any")
    assert not takes(found["year"], "some")
    assert takes(found["pair"], [None, None])
    assert takes(found["pair"], ["a", "b"])
    assert not takes(found["pair"], [None])


@pytest.mark.spec("W21")
def test_an_enum_and_a_type_do_not_rule_each_other_out() -> None:
    found = of(
        level={"type": "int", "enum": ["low", "high"]},
        mixed={"type": "int", "enum": [1, 2, "many"]},
        ratio={"type": "float", "enum": [1, 2.5]},
        tags={"type": "array", "items": {"type": "str"}, "enum": ["a", "b"]},
    )
    assert found["level"] == {"type": "string", "enum": ["low", "high"]}
    assert found["mixed"] == {"type": ["integer", "string"], "enum": [1, 2, "many"]}
    assert found["ratio"] == {"type": "number", "enum": [1, 2.5]}
    assert found["tags"] == {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}


@pytest.mark.spec("W21")
def test_nullable_allows_null() -> None:
    assert of(x={"type": "STRING", "nullable": True})["x"] == {"type": ["string", "null"]}


@pytest.mark.spec("W21")
@pytest.mark.parametrize("given", [None, {}, {"type": "object"}, {"properties": {}}])
def test_no_arguments_are_an_object_without_properties(given: Any) -> None:
    assert takes(mapped_schema("parameters", given), {})
    assert mapped_schema("parameters", given)["type"] == "object"


@pytest.mark.spec("W21")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], r"^f: parameters: a schema was expected, such as"),
        (True, r"^f: parameters: arguments have names, so an object was expected; got True"),
        ({"type": "list"}, r"^f: parameters: arguments have names, so the type is 'object'; got 'array'"),
        (
            {"type": "dict", "properties": {"when": {"type": "Date"}}},
            r"^f: parameters\.properties\.when\.type: a type was expected, such as .*; got 'Date'",
        ),
        (
            {"type": "dict", "properties": {"x": {"type": "list", "items": {"type": 3}}}},
            r"^f: parameters\.properties\.x\.items\.type: .*; got 3",
        ),
        ({"properties": {"x": "a text"}}, r"^f: parameters\.properties\.x: a schema was expected, .*; got 'a text'"),
        ({"properties": {"x": {"items": "str"}}}, r"^f: parameters\.properties\.x\.items: a schema was expected"),
        ({"properties": ["x"]}, r"^f: parameters\.properties: schemas by their names were expected; got"),
        ({"properties": {}, "required": "x"}, r"^f: parameters\.required: a list of names was expected; got 'x'"),
        (
            {"properties": {"x": {"required": True, "properties": {"y": {"required": True}}}}},
            r"^f: parameters\.properties\.x\.required: it says whether this is required",
        ),
    ],
)
def test_what_cannot_be_mapped_is_refused_with_its_path(given: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        mapped_schema("f: parameters", given)


@pytest.mark.spec("W21")
def test_a_schema_that_is_too_deep_is_refused() -> None:
    given: dict[str, Any] = {"type": "string"}
    for _ in range(100):
        given = {"type": "list", "items": given}
    with pytest.raises(DefinitionError, match=r"it is nested more than 64 levels deep"):
        mapped_schema("f: parameters", {"type": "object", "properties": {"x": given}})
