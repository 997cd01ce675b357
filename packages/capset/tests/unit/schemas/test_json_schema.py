"""Schemas that come as JSON Schema: what they take, what they fill in, and what is told of the rest."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from capset.errors import DefinitionError
from capset.schemas.json_schema import compile_own_schema
from capset.schemas.schema import Schema
from capset.schemas.validation_errors import VALIDATION_ERRORS, SchemaMismatch, validation_fields

PLACE = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "floor": {"type": "integer", "default": 0},
        "tags": {"type": "array", "items": {"type": "string"}, "default": []},
    },
    "required": ["city"],
    "additionalProperties": False,
}
VISIT = {
    "type": "object",
    "properties": {
        "to": {"$ref": "#/$defs/Place"},
        "from": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}], "default": None},
        "stops": {"type": "array", "items": {"$ref": "#/$defs/Place"}},
        "days": {"$ref": "#/$defs/Days"},
        "mode": {"enum": ["foot", "bike"], "description": "How:\n  on foot, or by bike"},
    },
    "required": ["to", "days"],
    "additionalProperties": False,
    "$defs": {"Place": PLACE, "Days": {"type": "integer", "minimum": 1, "maximum": 5}},
}


def misfits_of(schema: Schema, value: Any) -> list[str]:
    with pytest.raises(SchemaMismatch) as raised:
        schema.check(value)
    return list(map(str, raised.value.fields))


@pytest.mark.spec("K4", "K9")
def test_data_that_fits_is_returned_as_a_copy_with_defaults_at_every_depth() -> None:
    schema = compile_own_schema("visit", VISIT)
    visit = {"to": {"city": "Rome"}, "from": {"city": "Bern", "floor": 2}, "stops": [{"city": "Como"}], "days": 3}
    before = deepcopy(visit)
    taken = schema.check(visit)
    rome, como = ({"city": city, "floor": 0, "tags": []} for city in ("Rome", "Como"))
    assert taken == {"to": rome, "from": {"city": "Bern", "floor": 2, "tags": []}, "stops": [como], "days": 3}
    assert visit == before
    assert schema.check_json(json.dumps(visit)) == schema.check_json(json.dumps(visit).encode()) == taken
    taken["to"]["tags"].append("changed")
    assert schema.check(visit)["to"]["tags"] == []
    assert schema.check({"to": {"city": "Rome"}, "days": 1})["from"] is None


DRAFT_7 = "http://json-schema.org/draft-07/schema#"
KIND_A, KIND_B = {"kind": {"const": "a"}, "x": {"default": 1}}, {"kind": {"const": "b"}, "y": {"default": 2}}
PART = {"p": {"$id": "part", "$defs": {"h": {"$anchor": "here", "default": 7}}}}


@pytest.mark.spec("K9")
@pytest.mark.parametrize(
    ("schema", "value", "filled"),
    [
        ({"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"x": {"default": 1}}}}}, {}, {"x": 1}),
        ({"properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"default": [1]}}}, {}, {"x": [1]}),
        ({"properties": {"x": {"$ref": "#/$defs/a", "default": 2}}, "$defs": {"a": {"default": 1}}}, {}, {"x": 2}),
        ({"properties": {"x": {"default": {}, "properties": {"y": {"default": 3}}}}}, {}, {"x": {"y": 3}}),
        ({"allOf": [{"properties": {"x": {"default": 1}}}]}, {"y": 2}, {"x": 1, "y": 2}),
        ({"additionalProperties": {"properties": {"x": {"default": 1}}}}, {"any": {}}, {"any": {"x": 1}}),
        ({"prefixItems": [{"properties": {"x": {"default": 1}}}]}, [{}, {}], [{"x": 1}, {}]),
        ({"properties": {"x": {"default": None}}}, {}, {"x": None}),
        ({"properties": {"x": {"default": 1}}}, {"x": None}, {"x": None}),
        ({"default": {"x": 1}}, {}, {}),
        ({"oneOf": [{"properties": KIND_A}, {"properties": KIND_B}]}, {"kind": "b"}, {"kind": "b", "y": 2}),
        # Which of the two is meant cannot be told.
        ({"anyOf": [{"properties": {"x": {"default": 1}}}, {"properties": {"x": {"default": 2}}}]}, {}, {}),
        ({"$schema": DRAFT_7, "items": [{"properties": {"x": {"default": 1}}}]}, [{}], [{"x": 1}]),
        ({"$id": "https://example.org/all", "properties": {"x": {"$ref": "part#here"}}, "$defs": PART}, {}, {"x": 7}),
        ({"properties": {"n": {"default": 1}, "next": {"$ref": "#"}}}, {"next": {}}, {"next": {"n": 1}, "n": 1}),
    ],
)
def test_defaults_are_filled_in_where_they_are_meant(schema: dict[str, Any], value: Any, filled: Any) -> None:
    assert compile_own_schema("it", schema).check(value) == filled


@pytest.mark.spec("K9", "G12")
def test_every_field_that_does_not_fit_is_listed_by_its_place() -> None:
    schema = compile_own_schema("visit", VISIT)
    value = {"to": {"floor": "3"}, "from": 1, "stops": [{"city": 1}], "days": 9, "mode": "car", "dais": 1}
    assert sorted(misfits_of(schema, value)) == [
        "dais: no such parameter (did you mean 'days'?)",
        "days: Input should be at most 5",
        "from: Input should be an object or Input should be null",
        'mode: Input should be one of: "foot", "bike"',
        "stops.0.city: Input should be a string",
        "to.city: required, but missing",
        "to.floor: Input should be an integer",
    ]
    assert misfits_of(schema, {"to": {"city": "Rome", "citi": 1}, "days": 1}) == ["to.citi: no such parameter"]
    assert misfits_of(schema, 5) == ["(arguments): Input should be an object"]


@pytest.mark.spec("K4")
def test_the_schema_is_shown_as_it_came_but_for_the_order_of_required() -> None:
    original = {
        "title": "Given",
        "description": "Two lines,\n  verbatim.",
        "properties": {"required": {"type": "array", "default": ["b", "a"]}, "z": {"enum": ["b", "a"]}},
        "required": ["z", "required"],
        "x-mine": {"required": ["b", "a"]},
        "$defs": {"inner": {"title": "Inner", "properties": {"b": {}, "a": {}}, "required": ["b", "a"]}},
    }
    before = deepcopy(original)
    schema = compile_own_schema("it", original)
    assert original == before
    expected: dict[str, Any] = deepcopy(original)
    expected["required"] = ["required", "z"]
    expected["$defs"]["inner"]["required"] = ["a", "b"]
    assert schema.json_schema == expected
    assert list(schema.json_schema) == list(original)
    expected["properties"]["z"]["enum"] = ["a", "b"]
    assert schema.hash_input == expected


def test_it_is_of_use_wherever_a_schema_is() -> None:
    schema = compile_own_schema("visit", VISIT)
    assert schema.names == ["to", "from", "stops", "days", "mode"]
    assert not any((schema.only_scalars, schema.is_exact, schema.may_be_infinite))
    value = {"to": {"city": "Zürich"}, "days": 2}
    assert schema.jsonable(value) == value
    assert schema.jsonable(value) is not value
    assert schema.text(value) == '{"to":{"city":"Zürich"},"days":2}'
    with pytest.raises(VALIDATION_ERRORS) as raised:
        schema.check({})
    assert {field.path for field in validation_fields(raised.value, (), {})} == {"days", "to"}


def test_a_field_is_secret_wherever_its_schema_says_so() -> None:
    properties = {
        "plain": {"type": "string"},
        "own": {"writeOnly": True},
        "referred": {"$ref": "#/$defs/key"},
        "maybe": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/key"}]},
    }
    secret = {"key": {"type": "string", "writeOnly": True}}
    schema = compile_own_schema("it", {"properties": properties, "$defs": secret})
    assert schema.write_only == {"own", "referred", "maybe"}
    with pytest.raises(DefinitionError, match=r"state must hold no secret"):
        schema.refuse_secrets("state")
    compile_own_schema("visit", VISIT).refuse_secrets("state")


@pytest.mark.timeout(20)
def test_many_fields_that_refer_to_one_large_schema_take_no_longer_than_their_number() -> None:
    defs: dict[str, Any] = {"d0": {"type": "object", "writeOnly": True}}
    for number in range(1, 12):
        defs[f"d{number}"] = {"allOf": [{"$ref": f"#/$defs/d{number - 1}"}] * 2}
    fields = {f"f{number}": {"$ref": "#/$defs/d11"} for number in range(5_000)}
    schema = compile_own_schema("it", {"type": "object", "properties": fields, "$defs": defs})
    assert schema.write_only == fields.keys()
    assert schema.check({}) == {}
