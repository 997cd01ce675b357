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
    shut = {"properties": {"b": TEXT}, "additionalProperties": False}
    assert close_object(schema) == {
        "type": "object",
        "properties": {"a": shut, "c": {"type": "array", "items": shut}},
        "additionalProperties": False,
    }
    assert "additionalProperties" not in schema, "what was given is left as it is"


@pytest.mark.parametrize(
    "keywords",
    [
        {"additionalProperties": True},
        {"additionalProperties": TEXT},
        {"patternProperties": {"^x-": TEXT}},
        {"allOf": [{"properties": {"z": TEXT}}]},
        {"$ref": "#/$defs/other"},
    ],
)
def test_an_object_is_left_open_that_says_so_or_is_joined_with_others(keywords: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"a": TEXT}, **keywords}
    assert close_object(schema) == schema


def test_an_object_without_properties_is_a_mapping_and_stays_open() -> None:
    assert close_object({"type": "object"}) == {"type": "object"}


def test_definitions_are_closed_where_they_stand_alone_and_not_where_they_are_joined() -> None:
    thing = {"type": "object", "properties": {"a": TEXT, "next": {"$ref": "#/$defs/Alone"}}}
    schema = {
        "properties": {"one": {"$ref": "#/$defs/Alone"}, "two": {"allOf": [{"$ref": "#/$defs/Joined"}]}},
        "$defs": {"Alone": thing, "Joined": thing},
    }
    closed = close_object(schema)
    assert closed["$defs"] == {"Alone": {**thing, "additionalProperties": False}, "Joined": thing}
