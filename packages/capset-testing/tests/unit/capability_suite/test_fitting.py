"""The oracle tells only what is certain: an independent validator agrees with all that it refuses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from capset.schemas.schema import schema_of
from capset_testing.capability_suite.schema_fit import schema_violation
from capset_testing.capability_suite.strategies import ANY_JSON, mutated_data, valid_data


class Leaf(BaseModel):
    kind: Literal["leaf"]
    size: Annotated[float, Field(gt=0, le=5)]


class Branch(BaseModel):
    kind: Literal["branch"]
    leaves: Annotated[list[Leaf], Field(max_length=3)]
    below: Branch | None = None


class Everything(BaseModel):
    count: Annotated[int, Field(ge=1, lt=100)]
    name: Annotated[str, Field(min_length=2, max_length=5)]
    tree: Annotated[Leaf | Branch, Field(discriminator="kind")]
    pair: tuple[int, str] = (1, "a")
    scores: dict[str, float] = {}
    anything: object = None
    flag: bool | Literal["maybe", 3] = False
    code: Annotated[str, Field(pattern="^[a-c]+$")] = "abc"


SCHEMA = schema_of("everything", Everything, "validation").json_schema
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@given(st.one_of(ANY_JSON, mutated_data(valid_data(SCHEMA, SCHEMA))))
def test_what_is_refused_fits_no_schema(value: Any) -> None:
    if schema_violation(SCHEMA, value) is not None:
        assert not VALIDATOR.is_valid(value)


@given(valid_data(SCHEMA, SCHEMA))
def test_what_is_made_to_fit_is_not_refused(value: Any) -> None:
    assert schema_violation(SCHEMA, value) is None
    assert VALIDATOR.is_valid(value)


GOOD = {"count": 1, "name": "ab", "tree": {"kind": "leaf", "size": 5}}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"count": 0}, "'count': 0 is beyond the minimum of 1"),
        ({"count": 100}, "beyond the exclusiveMaximum"),
        ({"count": True}, "'count': true is not of type integer"),
        ({"count": "1"}, "is not of type integer"),
        ({"count": 1.5}, "is not of type integer"),
        ({"name": "a"}, "1 characters"),
        ({"name": "abcdef"}, "6 characters"),
        ({"tree": {"kind": "leaf", "size": 0}}, "fits no alternative"),
        ({"tree": {"kind": "twig"}}, "fits no alternative"),
        ({"scores": {"a": "1"}}, "'scores': 'a': "),
        ({"flag": 1}, "fits no alternative"),
        ({"flag": 4}, "fits no alternative"),
        ({"other": 1}, "'other': it is unknown"),
    ],
)
def test_it_says_what_is_wrong(change: dict[str, Any], why: str) -> None:
    assert schema_violation(SCHEMA, GOOD) is None
    assert why in (schema_violation(SCHEMA, {**GOOD, **change}) or "")
    assert "'count' is missing" in (schema_violation(SCHEMA, {"name": "ab"}) or "")


@pytest.mark.parametrize("value", [1.0, 99, 3])
def test_a_number_without_a_fraction_is_an_integer(value: float) -> None:
    assert schema_violation(SCHEMA, {**GOOD, "count": value}) is None
