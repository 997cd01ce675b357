"""What is told of arguments that do not fit."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from capset.definitions.misfits import misfits
from capset.definitions.schemas import Schema, schema_of_fields


class Closed(BaseModel):
    x: int
    tags: list[str] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    good: bool


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


def told(schema: Schema, given: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(ValidationError) as refused:
        schema.check_json(json.dumps(given).encode())
    fields = misfits(refused.value, schema.names, given)
    assert len({field.path for field in fields}) == len(fields), "each place once"
    return {field.path: field.expected for field in fields}


@pytest.mark.spec("G12")
def test_every_field_is_listed_with_its_path_and_no_value_is_echoed() -> None:
    schema = schema_of_fields("do", {"limit": int, "place": Closed, "path": str, "mode": Literal["fast", "slow"]})
    secret = "hunter2-is-no-number"
    text = {"limit": secret, "place": {"x": secret, "tags": [1, secret]}, "mode": secret, "paht": secret, "zzz": secret}
    with pytest.raises(ValidationError) as refused:
        schema.check_json(json.dumps(text).encode())
    found = misfits(refused.value, schema.names, text)
    assert {field.path: field.expected for field in found} == {
        "limit": "Input should be a valid integer",
        "place.x": "Input should be a valid integer",
        "place.tags.0": "Input should be a valid string",
        "path": "required, but missing",
        "mode": "Input should be 'fast' or 'slow'",
        "paht": "no such parameter",
        "zzz": "no such parameter",
    }
    assert {field.path: field.did_you_mean for field in found if field.did_you_mean} == {"paht": "path"}
    assert secret not in "".join(map(str, found))


@pytest.mark.spec("G12")
def test_a_nested_field_is_not_mistaken_for_a_parameter() -> None:
    schema = schema_of_fields("do", {"place": Closed, "limit": int})
    given = {"limit": 1, "place": {"x": 1, "limti": 5}}
    with pytest.raises(ValidationError) as refused:
        schema.check(given)
    fields = misfits(refused.value, schema.names, given)
    assert [(field.path, field.did_you_mean) for field in fields] == [("place.limti", None)]


@pytest.mark.parametrize("text", ["", "{", '{"a": 1', "[]", "1", "null", '"a"', '{"a": 1} x', "\ufeff{}", "{'a': 1}"])
def test_what_is_no_json_object_is_refused_as_a_whole(text: str) -> None:
    with pytest.raises(ValidationError) as refused:
        schema_of_fields("do", {"a": int}).check_json(text.encode())
    assert [field.path for field in misfits(refused.value, ["a"], text)] == ["(arguments)"]


@pytest.mark.spec("G12")
@pytest.mark.parametrize(
    ("annotation", "given", "path", "words"),
    [
        (int | str, 1.5, "a", ["valid integer", "valid string"]),
        (int | None, "x", "a", ["valid integer"]),
        (list[int | bool], [1, "x"], "a.1", ["valid integer", "valid boolean"]),
        (dict[str, int], {"k": "x"}, "a.k", ["valid integer"]),
        (
            Annotated[Cat | Dog, Field(discriminator="kind")],
            {"kind": "cat", "lives": "x"},
            "a.lives",
            ["valid integer"],
        ),
        (Pet, {"kind": "cow"}, "a", ["cat", "dog"]),
        (Cat | None, {"kind": "cat"}, "a.lives", ["required, but missing"]),
        (list[Closed], [{"x": 1}, {}], "a.1.x", ["required, but missing"]),
    ],
)
def test_a_path_is_a_place_of_what_was_sent(annotation: Any, given: Any, path: str, words: list[str]) -> None:
    found = told(schema_of_fields("do", {"a": annotation, "b": int}), {"a": given, "b": 1})
    assert all(word in found[path] for word in words), found


@pytest.mark.spec("G12")
def test_thousands_of_wrong_fields_give_no_megabytes_back() -> None:
    schema = schema_of_fields("do", {"limit": int})
    shown = told(schema, {"limit": 1, **{f"wrong{number}": 0 for number in range(5000)}})
    assert len(shown) == 101
    assert shown["…"] == "4900 more do not fit"
