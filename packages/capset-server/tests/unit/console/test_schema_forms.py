"""Forms made of JSON Schema: what a form shows of data comes back as the same data."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset.errors import Field, InvalidArguments
from capset_server.console.forms import Form
from capset_server.console.schema_forms import FormField, arguments, fields_of, values_of

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "text/~": {"type": "string", "maxLength": 5_000},
        "count": {"type": "integer"},
        "price": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "sure": {"type": "boolean"},
        "colour": {"enum": ["red", "grün", 3, None]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "rows": {"type": "array", "items": {"type": "integer"}},
        "address": {"$ref": "#/$defs/Address"},
    },
    "required": ["name"],
    "$defs": {"Address": {"type": "object", "properties": {"city": {"type": "string", "description": "Where."}}}},
}
LINES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip)
DATA = st.fixed_dictionaries(
    {"name": LINES},
    optional={
        "text/~": LINES,
        "count": st.integers(),
        "price": st.floats(allow_nan=False, allow_infinity=False),
        "sure": st.booleans(),
        "colour": st.sampled_from(["red", "grün", 3]),
        "tags": st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r")), min_size=1),
        "rows": st.lists(st.integers(), min_size=1),
        "address": st.fixed_dictionaries({"city": LINES}),
    },
)


def sent(fields: tuple[FormField, ...]) -> list[tuple[str, str]]:
    return [pair for field in fields for pair in (sent(field.fields) if field.fields else [(field.name, field.value)])]


@given(DATA)
def test_what_a_form_shows_comes_back(data: dict[str, Any]) -> None:
    fields = fields_of(SCHEMA, data)
    assert values_of(SCHEMA, Form(sent(fields))) == data
    chosen = next(field for field in fields if field.kind == "choice")
    assert chosen.value in ("", *dict(chosen.choices)), "a browser would send another one"


def test_kinds_follow_the_schema() -> None:
    kinds = {field.name: field.kind for field in fields_of(SCHEMA)}
    assert kinds == {
        "arguments/name": "text",
        "arguments/text~1~0": "long",
        "arguments/count": "integer",
        "arguments/price": "number",
        "arguments/sure": "boolean",
        "arguments/colour": "choice",
        "arguments/tags": "texts",
        "arguments/rows": "json",
        "arguments/address": "group",
    }
    (city,) = fields_of(SCHEMA)[-1].fields
    assert (city.name, city.help) == ("arguments/address/city", "Where.")


def test_what_fits_no_kind_is_named() -> None:
    form = Form([("arguments/count", "many"), ("arguments/rows", "[1"), ("arguments/price", "true")])
    with pytest.raises(InvalidArguments) as refused:
        values_of(SCHEMA, form)
    assert {error.path: error.expected for error in refused.value.fields} == {
        "count": "a whole number is expected",
        "rows": "JSON is expected",
        "price": "a number is expected",
    }


def test_a_form_that_was_refused_is_shown_as_it_was_sent() -> None:
    form = Form([("arguments/count", "many"), ("arguments/address/city", "Rome")])
    errors = [Field("arguments.count", "a whole number"), Field("address.city", "a village")]
    fields = {field.name: field for field in fields_of(SCHEMA, errors=errors, form=form)}
    assert (fields["arguments/count"].value, fields["arguments/count"].error) == ("many", "a whole number")
    assert fields["arguments/address"].fields[0].error == "a village"


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"properties": {"a": True}}, {"$ref": "#/$defs/x"}])
def test_schemas_with_nothing_to_show_are_taken(schema: dict[str, Any]) -> None:
    assert values_of(schema, Form([("arguments/a", "{}")])) in ({}, {"a": {}})


@pytest.mark.spec("N13")
@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"anyOf": [True, {"type": "null"}]}, "json"),
        ({"anyOf": [{"type": "string"}, True]}, "json"),
        ({"$ref": "#/$defs/anything"}, "json"),
        ({"type": "array", "items": {"anyOf": [True, {"type": "string"}]}}, "json"),
        ({"type": "array", "items": {"anyOf": [{"type": ["string", "null"]}, {"type": "string"}]}}, "json"),
        ({"type": "array", "items": {"anyOf": [{"type": "string"}, False]}}, "json"),
    ],
)
def test_schemas_of_true_and_false_are_shown(part: dict[str, Any], kind: str) -> None:
    """Servers in Rust, for example, write ``true`` for any value."""
    schema = {"type": "object", "properties": {"a": part}, "$defs": {"anything": True}}
    assert [field.kind for field in fields_of(schema)] == [kind]
    assert [field.name for field in arguments(schema)] == ["a"]
