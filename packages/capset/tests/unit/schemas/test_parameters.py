"""Both dialects of parameters come to one schema, and what is neither is refused (spec 4, G11, G12)."""

from __future__ import annotations

from typing import Any

import pytest

from capset.errors import DefinitionError
from capset.schemas.parameters import parameters_schema
from capset.schemas.validation_errors import SchemaMismatch

SHORTHAND: dict[str, Any] = {
    "location": {"type": "string", "required": True, "description": "City name or coordinates"},
    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
}
LOCATION = {"type": "string", "description": "City name or coordinates"}
PROPERTIES = {"location": LOCATION, "unit": SHORTHAND["unit"]}
WHOLE: dict[str, Any] = {"type": "object", "properties": PROPERTIES, "required": ["location"]}


@pytest.mark.spec("G11")
def test_the_shorthand_and_the_whole_schema_are_one() -> None:
    short, full = (parameters_schema("tool 'get-weather'", parameters) for parameters in (SHORTHAND, WHOLE))
    assert short.json_schema == full.json_schema
    assert "required" in SHORTHAND["location"], "what was given is left as it was"


@pytest.mark.spec("G11")
def test_defaults_are_filled_into_a_copy() -> None:
    arguments = {"location": "Paris"}
    assert parameters_schema("tool 't'", SHORTHAND).check(arguments) == {"location": "Paris", "unit": "celsius"}
    assert arguments == {"location": "Paris"}


@pytest.mark.spec("G11")
def test_formats_are_checked() -> None:
    schema = parameters_schema("tool 't'", {"a": {"type": "string", "format": "date-time"}})
    assert schema.check({"a": "2026-01-01T00:00:00Z"})
    with pytest.raises(SchemaMismatch, match="a: Input should be of the format"):
        schema.check({"a": "yesterday"})


@pytest.mark.spec("G12")
@pytest.mark.parametrize("parameters", [SHORTHAND, WHOLE])
def test_unknown_parameters_are_refused_unless_they_are_said_to_be_welcome(parameters: dict[str, Any]) -> None:
    arguments = {"location": "Paris", "locatio": 1}
    with pytest.raises(SchemaMismatch, match=r"locatio: no such parameter .did you mean 'location'"):
        parameters_schema("tool 't'", parameters).check(arguments)
    welcoming = parameters_schema("tool 't'", {**WHOLE, "additionalProperties": True})
    assert welcoming.check(arguments)["locatio"] == 1


@pytest.mark.spec("G11")
def test_required_members_of_an_object_are_gathered_too() -> None:
    properties = {"city": {"type": "string", "required": True}, "zip": {"type": "string"}}
    schema = parameters_schema("tool 't'", {"place": {"type": "object", "properties": properties}})
    inner = schema.json_schema["properties"]["place"]
    assert (inner["required"], inner["additionalProperties"]) == (["city"], False)
    assert "required" not in schema.json_schema


def test_a_parameter_may_have_the_name_of_a_keyword() -> None:
    schema = parameters_schema("tool 't'", {"type": {"type": "string", "required": True}})
    assert schema.check({"type": "x"}) == {"type": "x"}


def test_no_parameters_are_none() -> None:
    with pytest.raises(SchemaMismatch, match="no such parameter"):
        parameters_schema("tool 't'", {}).check({"a": 1})


@pytest.mark.spec("G5")
@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"a": {"type": "string", "requird": True}}, "parameters.a: unknown keyword 'requird'; did you mean 'requi"),
        ({"properties": {"a": {"type": "string"}}}, "parameters.properties: unknown keyword 'a'"),
        ({"a": "string"}, "parameters.a: a parameter is a mapping"),
        ({"type": "array"}, "the type is 'object'; got 'array'"),
        ({"a": {"type": "strin"}}, "not a valid JSON Schema"),
        ({"a": {"type": "integer", "default": "x"}}, "a default of its JSON Schema does not fit: a"),
        ({"a": {"pattern": "(?=x)"}}, "linear time"),
        ({"a": {"$ref": "https://example.com/a.json"}}, "nothing is fetched"),
        ({"type": "object", "properties": {}, "required": ["a"]}, "'a' is required, but is not a property"),
        ([], "a mapping was expected"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_place(parameters: Any, problem: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        parameters_schema("tool 't'", parameters)
    assert refused.value.message.startswith("tool 't': parameters")
    assert problem in f"{refused.value.message} {refused.value.hint}"
