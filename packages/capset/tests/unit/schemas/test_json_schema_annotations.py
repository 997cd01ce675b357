"""Schemas of others: defaults and formats are annotations, as in the standard, unless they are asked for (K23, K24)."""

from __future__ import annotations

from typing import Any

import pytest

from capset.errors import DefinitionError
from capset.schemas.json_schema import compile_json_schema, compile_own_schema
from capset.schemas.validation_errors import SchemaMismatch

LINE = {"type": "object", "properties": {"note": {"type": "string", "default": None}, "count": {"default": 1}}}
ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "default": None, "title": "Title"},
        "lines": {"type": "array", "items": LINE, "default": []},
        "unit": {"anyOf": [{"const": "kg"}, {"type": "null"}], "default": "pounds"},
    },
}


@pytest.mark.spec("K23")
def test_defaults_are_neither_held_against_their_schema_nor_filled_in() -> None:
    schema = compile_json_schema("it", ORDER)
    for value in ({}, {"lines": [{}, {"note": "x"}]}, {"title": "x", "unit": None}):
        assert schema.check(value) == value
    for value in ({"title": None}, {"lines": [{"note": None}]}, {"unit": "pounds"}):
        with pytest.raises(SchemaMismatch):
            schema.check(value)


@pytest.mark.spec("K23", "G11")
def test_defaults_of_a_schema_of_one_s_own_count() -> None:
    with pytest.raises(DefinitionError, match=r"a default of its JSON Schema does not fit: (title|unit)"):
        compile_own_schema("it", ORDER)
    dated = {"properties": {"at": {"format": "date", "default": "today"}}}
    assert compile_json_schema("it", dated, fills_defaults=True).check({}) == {"at": "today"}, "its format is a note"


@pytest.mark.spec("K24")
@pytest.mark.parametrize("dialect", ["http|draft-04", "http|draft-07", "https|draft/2019-09", "https|draft/2020-12"])
def test_formats_are_annotations(dialect: str) -> None:
    scheme, path = dialect.split("|")
    schema = {"$schema": f"{scheme}://json-schema.org/{path}/schema", "type": "string", "format": "email"}
    assert compile_json_schema("it", schema).check("ada") == "ada"
    with pytest.raises(SchemaMismatch, match='of the format "email"'):
        compile_own_schema("it", schema).check("ada")


@pytest.mark.spec("K25")
def test_a_schema_may_be_a_boolean() -> None:
    assert compile_json_schema("it", True).check([1]) == [1]
    with pytest.raises(SchemaMismatch):
        compile_json_schema("it", False).check(None)
