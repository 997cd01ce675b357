"""Which objects of a JSON Schema take no other properties than they list."""

from __future__ import annotations

from typing import Any

import pytest

from capset.schemas.parameters import close_object

pytestmark = pytest.mark.spec("G12")
TEXT = {"type": "string"}


def test_an_object_that_lists_its_properties_is_closed_at_every_depth() -> None:
    inner = {"properties": {"b": TEXT}}
    schema = {"type": "object", "properties": {"a": inner, "c": {"type": "array", "items": inner}}}
    shut = {**inner, "additionalProperties": False}
    properties = {"a": shut, "c": {"type": "array", "items": shut}}
    assert close_object(schema) == {"type": "object", "properties": properties, "additionalProperties": False}
    assert "additionalProperties" not in schema, "what was given is left as it is"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"properties": {"a": TEXT}, "additionalProperties": True},
        {"properties": {"a": TEXT}, "additionalProperties": TEXT},
        {"properties": {"a": TEXT}, "patternProperties": {"^x-": TEXT}},
        {"properties": {"a": TEXT}, "allOf": [{"properties": {"z": TEXT}}]},
        {"properties": {"a": TEXT}, "$ref": "#/$defs/other"},
    ],
)
def test_an_object_is_left_open_that_is_a_mapping_or_says_so_or_is_joined_with_others(schema: dict[str, Any]) -> None:
    assert close_object(schema) == schema


def test_definitions_are_closed_where_they_stand_alone_and_not_where_they_are_joined() -> None:
    definition = {"type": "object", "properties": {"a": TEXT, "next": {"$ref": "#/$defs/Alone"}}}
    properties = {"one": {"$ref": "#/$defs/Alone"}, "two": {"allOf": [{"$ref": "#/$defs/Joined"}]}}
    closed = close_object({"properties": properties, "$defs": {"Alone": definition, "Joined": definition}})
    assert closed["$defs"] == {"Alone": {**definition, "additionalProperties": False}, "Joined": definition}
