"""A foreign pattern that does not take linear time is not checked, and refuses nothing (spec 3, K24)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from capset.errors import DefinitionError
from capset.kernel.governance.marked_values import without_secrets
from capset.schemas.json_schema import compile_json_schema, compile_own_schema
from capset.schemas.validation_errors import SchemaMismatch
from tests.helpers.schemas.strategies import DATA, SCHEMAS

pytestmark = pytest.mark.spec("K24")
AHEAD = "^(?!x)"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": AHEAD}, "x"),
        ({"pattern": "("}, "x"),
        ({"pattern": "(a{1000}){1000}"}, "x"),
        ({"$ref": "#/$defs/p", "$defs": {"p": {"pattern": AHEAD}}}, "x"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "pattern": AHEAD}, "x"),
        ({"patternProperties": {AHEAD: {"type": "integer"}}, "additionalProperties": False}, {"x": 1, "y": "z"}),
        ({"propertyNames": {"pattern": AHEAD}}, {"x": 1}),
        ({"not": {"pattern": AHEAD}}, "y"),
        ({"oneOf": [{"pattern": AHEAD}, {"maxLength": 1}]}, "y"),
        ({"anyOf": [{"type": "null"}], "oneOf": [{"pattern": AHEAD}, {"maxLength": 1}]}, None),
        ({"oneOf": [{"$ref": "#/$defs/p"}, {"maxLength": 1}], "$defs": {"p": {"pattern": AHEAD}}}, "y"),
        ({"if": {"pattern": AHEAD}, "then": {"maxLength": 0}, "else": {"maxLength": 1}}, "xy"),
        ({"contains": {"pattern": AHEAD}, "maxContains": 1}, ["xy", "xz"]),
        ({"allOf": [{"patternProperties": {AHEAD: True}}], "unevaluatedProperties": False}, {"x": 1}),
    ],
    ids=str,
)
def test_it_refuses_nothing_and_neither_does_what_depends_on_it(schema: dict[str, Any], value: Any) -> None:
    compiled = compile_json_schema("it", schema)
    assert len(compiled.unchecked_patterns) == 1
    assert compiled.check(value) == value
    with pytest.raises(DefinitionError, match="linear time"):
        compile_own_schema("it", schema)


def test_the_rest_of_its_schema_is_checked_and_shown_as_it_came() -> None:
    like_a_pattern = {"pattern": AHEAD}
    checked = {"type": "string", "pattern": AHEAD, "maxLength": 2}
    schema = {"properties": {"a": checked, "b": {"pattern": "^x"}, "pattern": {"const": like_a_pattern}}}
    compiled = compile_json_schema("it", schema)
    assert (compiled.unchecked_patterns, compiled.json_schema) == ((AHEAD,), schema)
    assert compiled.check({"pattern": like_a_pattern}), "data that looks like a pattern is data"
    for value in ({"a": 1}, {"a": "yyy"}, {"b": "y"}, {"pattern": {}}):
        with pytest.raises(SchemaMismatch):
            compiled.check(value)


@pytest.mark.spec("T4")
def test_it_takes_no_time() -> None:
    compiled = compile_json_schema("it", {"pattern": r"^(a|a)*\1$", "patternProperties": {r"^(a+)+\1$": False}})
    assert compiled.check("a" * 100_000) == "a" * 100_000
    assert compiled.check({"a" * 100_000: 1})


@pytest.mark.spec("G51")
def test_a_secret_below_names_that_are_not_checked_is_masked_below_any_name() -> None:
    secret = {"type": "string", "writeOnly": True}
    compiled = compile_json_schema("it", {"type": "object", "patternProperties": {AHEAD: secret}})
    assert "s3cret" not in str(without_secrets(compiled.root, {"x": "s3cret", "y": "s3cret"}))


@pytest.mark.nightly
@settings(deadline=None, max_examples=150)
@given(SCHEMAS, DATA)
def test_all_that_a_schema_takes_is_taken_without_its_patterns(schema: dict[str, Any], value: Any) -> None:
    """The same patterns, by look-ahead."""
    text = json.dumps(schema).replace('"^x"', '"^(?=x)"').replace('"^a"', '"^(?=a)"').replace('"y$"', '"(?<=y)$"')
    if Draft202012Validator(schema).is_valid(value):
        assert repr(compile_json_schema("it", json.loads(text)).check(value)) == repr(value)
