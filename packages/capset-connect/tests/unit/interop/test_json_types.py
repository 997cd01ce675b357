"""Types and keywords of others as JSON Schema (spec 8, W21)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from capset.errors import DefinitionError
from capset.schemas.json_schema import compile_json_schema
from capset.schemas.validation_errors import SchemaMismatch
from capset_connect.interop.json_types import mapped_result, mapped_schema


def of(**properties: Any) -> dict[str, Any]:
    """Return the properties of a document's schema, mapped."""
    return mapped_schema("parameters", {"type": "dict", "properties": properties})["properties"]


def fits(schema: dict[str, Any], value: Any) -> bool:
    """Return whether a value fits a whole document."""
    try:
        compile_json_schema("x", schema).check(value)
    except SchemaMismatch:
        return False
    return True


def takes(schema: dict[str, Any], value: Any) -> bool:
    try:
        compile_json_schema("x", {"type": "object", "properties": {"x": schema}}).check({"x": value})
    except SchemaMismatch:
        return False
    return True


@pytest.mark.spec("W21")
@pytest.mark.parametrize(
    ("source_type", "json_type"),
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
def test_a_type_has_its_name_in_json(source_type: object, json_type: object) -> None:
    assert of(x={"type": source_type})["x"]["type"] == json_type


@pytest.mark.spec("W21")
@pytest.mark.parametrize("source_type", ["any", "Any", "", ["str", "any"]])
def test_any_type_is_no_type(source_type: object) -> None:
    assert of(x={"type": source_type, "description": "It."}) == {"x": {"description": "It."}}


@pytest.mark.spec("W21")
def test_types_are_mapped_at_every_depth() -> None:
    schema = {
        "type": "array",
        "items": {
            "type": "dict",
            "properties": {"pair": {"type": "tuple", "items": [{"type": "float"}, {"type": "str"}]}},
            "additionalProperties": {"anyOf": [{"type": "int"}, {"type": "None"}]},
        },
    }
    assert of(x=schema)["x"] == {
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
    properties = {
        "type": {"type": "str"},
        "default": {"type": "int", "default": 1},
        "x": {"enum": [{"type": "dict"}], "x-of": {"type": "Foo"}},
    }
    assert of(**properties) == {
        "type": {"type": "string"},
        "default": {"type": "integer", "default": 1},
        "x": {"enum": [{"type": "dict"}], "x-of": {"type": "Foo"}},
    }


@pytest.mark.spec("W21")
def test_a_schema_of_json_schema_stays_as_it_is() -> None:
    schema: dict[str, Any] = {
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
    before = deepcopy(schema)
    assert mapped_schema("parameters", schema) == before
    assert schema == before


@pytest.mark.spec("W21")
def test_required_and_optional_within_a_property_are_the_objects() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "str", "required": True},
            "b": {"type": "str", "optional": True},
            "c": {"type": "object", "required": True, "properties": {"d": {"type": "int", "required": False}}},
        },
        "required": ["b"],
    }
    assert mapped_schema("parameters", schema) == {
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
    properties = of(
        note={"type": "str", "default": None},
        unit={"type": "str", "enum": ["s", "ms"], "default": "N/A"},
        year={"type": "int", "description": "When.", "default": "any"},
        pair={"type": "tuple", "items": {"type": "str"}, "default": [None, None]},
        size={"type": "str", "enum": ["s", "m"], "default": None},
    )
    assert properties["note"] == {"type": ["string", "null"], "default": None}
    assert properties["unit"] == {"type": "string", "enum": ["s", "ms", "N/A"], "default": "N/A"}
    assert properties["year"] == {
        "description": "When.",
        "anyOf": [{"type": "integer"}, {"const": "any"}],
        "default": "any",
    }
    assert properties["size"] == {"type": ["string", "null"], "enum": ["s", "m", None], "default": None}
    assert takes(properties["year"], 1999)
    assert takes(properties["year"], "any")
    assert not takes(properties["year"], "some")
    assert takes(properties["pair"], [None, None])
    assert takes(properties["pair"], ["a", "b"])
    assert not takes(properties["pair"], [None])


@pytest.mark.spec("W21")
def test_an_enum_and_a_type_do_not_rule_each_other_out() -> None:
    properties = of(
        level={"type": "int", "enum": ["low", "high"]},
        mixed={"type": "int", "enum": [1, 2, "many"]},
        ratio={"type": "float", "enum": [1, 2.5]},
        tags={"type": "array", "items": {"type": "str"}, "enum": ["a", "b"]},
    )
    assert properties["level"] == {"type": "string", "enum": ["low", "high"]}
    assert properties["mixed"] == {"type": ["integer", "string"], "enum": [1, 2, "many"]}
    assert properties["ratio"] == {"type": "number", "enum": [1, 2.5]}
    assert properties["tags"] == {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}


@pytest.mark.spec("W21")
def test_nullable_allows_null() -> None:
    assert of(x={"type": "STRING", "nullable": True})["x"] == {"type": ["string", "null"]}


@pytest.mark.spec("W21")
@pytest.mark.parametrize("schema", [None, {}, {"type": "object"}, {"properties": {}}])
def test_no_arguments_are_an_object_without_properties(schema: Any) -> None:
    assert takes(mapped_schema("parameters", schema), {})
    assert mapped_schema("parameters", schema)["type"] == "object"


@pytest.mark.spec("W21")
@pytest.mark.parametrize(
    ("schema", "message"),
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
        ({"properties": ["x"]}, r"^f: parameters\.properties: an object of schemas was expected; got"),
        ({"properties": {}, "required": "x"}, r"^f: parameters\.required: a list of names was expected; got 'x'"),
        (
            {"properties": {"x": {"required": True, "properties": {"y": {"required": True}}}}},
            r"^f: parameters\.properties\.x\.required: it is a boolean",
        ),
    ],
)
def test_what_cannot_be_mapped_is_refused_with_its_path(schema: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        mapped_schema("f: parameters", schema)


@pytest.mark.spec("W21")
def test_a_schema_that_is_too_deep_is_refused() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(100):
        schema = {"type": "list", "items": schema}
    with pytest.raises(DefinitionError, match=r"it is nested more than 64 levels deep"):
        mapped_schema("f: parameters", {"type": "object", "properties": {"x": schema}})


PAIR: dict[str, Any] = {"type": "tuple", "items": [{"type": "int"}, {"type": "str"}]}


@pytest.mark.spec("W21")
@pytest.mark.parametrize(
    ("more", "value", "is_taken"),
    [
        ({}, [1, "a"], True),
        ({}, ["a", 1], False),
        ({}, [1, "a", None], True),
        ({"additionalItems": False}, [1, "a"], True),
        ({"additionalItems": False}, [1, "a", None], False),
        ({"additionalItems": {"type": "bool"}}, [1, "a", True], True),
        ({"additionalItems": {"type": "bool"}}, [1, "a", "b"], False),
    ],
)
@pytest.mark.parametrize(
    "dialect",
    [
        None,
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema#",
        "http://json-schema.org/draft-04/schema#",
    ],
)
def test_items_by_their_place_are_checked_in_every_dialect(
    dialect: str | None, more: dict[str, Any], value: Any, is_taken: bool
) -> None:
    dialect_keyword = {} if dialect is None else {"$schema": dialect}
    schema = mapped_schema("f: parameters", {**dialect_keyword, "type": "dict", "properties": {"x": {**PAIR, **more}}})
    assert fits(schema, {"x": value}) is is_taken
    remapped = mapped_schema("f: parameters", schema)
    assert remapped == schema


@pytest.mark.spec("W21")
def test_rules_of_other_items_beside_no_list_say_nothing() -> None:
    schema = of(x={"type": "list", "items": {"type": "int"}, "additionalItems": {"type": "str"}})["x"]
    assert "additionalItems" not in schema
    assert takes(schema, [1, 2])
    assert not takes(schema, [1, "a"])


@pytest.mark.spec("W21")
def test_a_default_that_does_not_fit_is_the_only_other_value_in_an_older_dialect() -> None:
    schema = mapped_schema(
        "f: parameters",
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "type": "object",
            "properties": {"x": {**PAIR, "default": "none"}},
        },
    )
    assert fits(schema, {"x": [1, "a"]})
    assert fits(schema, {"x": "none"})
    assert not fits(schema, {"x": "some"})


@pytest.mark.spec("W21")
def test_an_enum_is_of_the_items_only_where_nothing_but_an_array_is_taken() -> None:
    properties = of(
        mode={"type": ["string", "array"], "enum": ["a", "b"]},
        tags={"type": ["array", "null"], "items": {"type": "str"}, "enum": ["a", None]},
        lists={"type": "array", "enum": [["a"], "b"]},
    )
    assert takes(properties["mode"], "a")
    assert not takes(properties["mode"], "rm -rf")
    assert takes(properties["tags"], ["a"])
    assert takes(properties["tags"], None)
    assert not takes(properties["tags"], ["b"])
    assert not takes(properties["tags"], [None])
    assert takes(properties["lists"], ["a"])
    assert takes(properties["lists"], "b")
    assert not takes(properties["lists"], ["b"])


@pytest.mark.spec("W21")
@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/Day"},
        {"allOf": [{"type": "str"}, {"enum": ["mon", "tue"]}]},
        {"anyOf": [{"const": "mon"}]},
        {"oneOf": [{"const": "mon"}], "type": "str"},
        {"const": "mon"},
    ],
)
def test_nullable_allows_null_beside_other_schemas(schema: dict[str, Any]) -> None:
    day = {**schema, "nullable": True, "description": "When.", "required": True}
    mapped = mapped_schema(
        "f: parameters", {"type": "dict", "properties": {"x": day}, "$defs": {"Day": {"type": "str", "enum": ["mon"]}}}
    )
    assert mapped["properties"]["x"]["description"] == "When."
    assert fits(mapped, {"x": "mon"})
    assert fits(mapped, {"x": None})
    assert not fits(mapped, {"x": "sun"})
    assert not fits(mapped, {})


@pytest.mark.spec("W21")
@pytest.mark.parametrize(
    "dialect", [None, "https://json-schema.org/draft/2019-09/schema", "http://json-schema.org/draft-07/schema#"]
)
@pytest.mark.parametrize("own_id", [None, "https://example.com/f"])
def test_a_default_beside_a_reference_is_checked_in_the_document(dialect: str | None, own_id: str | None) -> None:
    schema: dict[str, Any] = {
        **({} if dialect is None else {"$schema": dialect}),
        **({} if own_id is None else {"$id": own_id}),
        "type": "object",
        "properties": {
            "from": {"type": "str"},
            "to": {"$ref": "#/properties/from", "default": "here"},
            "by": {"$ref": "#/properties/from", "default": 1},
            "days": {"type": "list", "items": {"$ref": "#/definitions/Day"}, "default": ["mon"]},
        },
        "required": ["from"],
        "definitions": {"Day": {"type": "str", "enum": ["mon", "tue"]}},
    }
    mapped = mapped_schema("f: parameters", schema)
    assert mapped["properties"]["to"] == {"$ref": "#/properties/from", "default": "here"}
    assert mapped["properties"]["days"]["default"] == ["mon"]
    assert fits(mapped, {"from": "a", "by": 1})
    assert fits(mapped, {"from": "a", "by": "b"})
    assert not fits(mapped, {"from": "a", "by": 2})
    assert not fits(mapped, {"from": "a", "days": ["sun"]})


@pytest.mark.spec("W21")
def test_a_default_beside_a_reference_that_leads_nowhere_stays() -> None:
    schema = {"$ref": "#/$defs/Missing", "default": 1}
    assert of(x=schema)["x"] == schema


@pytest.mark.spec("W21")
@pytest.mark.parametrize(
    ("schema", "value", "other"),
    [
        ({"type": "str"}, "a", 1),
        ({"type": "list", "items": {"type": "int"}}, [1], ["a"]),
        ({"type": "dict", "properties": {"x": {"type": "float"}}}, {"x": 1.5}, {"x": "a"}),
        ({"type": "any"}, 1, None),
        (True, 1, None),
    ],
)
def test_results_are_of_any_type(schema: Any, value: Any, other: Any) -> None:
    mapped = mapped_result("f: response", schema)
    assert fits(mapped, value)
    assert other is None or not fits(mapped, other)


@pytest.mark.spec("W21")
@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"required": True}, r"^f: parameters\.required: a list of names was expected; got True"),
        ({"required": [{}]}, r"^f: parameters\.required: a list of names was expected; got \[\{\}\]"),
        ({"properties": {}, "required": [[]]}, r"^f: parameters\.required: a list of names was expected"),
    ],
)
def test_required_is_a_list_of_names(schema: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        mapped_schema("f: parameters", schema)
