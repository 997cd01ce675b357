"""What is told of arguments that do not fit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path
from re import Pattern
from typing import Annotated, Any, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    AnyUrl,
    AwareDatetime,
    Base64Bytes,
    Base64UrlStr,
    BaseModel,
    ByteSize,
    Discriminator,
    Field,
    FutureDate,
    HttpUrl,
    ImportString,
    NaiveDatetime,
    PostgresDsn,
    SecretStr,
    StringConstraints,
    Tag,
    ValidationError,
)
from pydantic import Json as JsonText

from capset.schemas.schema import Schema, schema_of_fields
from capset.schemas.validation_errors import validation_fields
from tests.examples import examples


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


def told(schema: Schema, arguments: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(ValidationError) as refused:
        schema.check_json(json.dumps(arguments).encode())
    fields = validation_fields(refused.value, schema.names, arguments)
    assert len({field.path for field in fields}) == len(fields), "each place once"
    return {field.path: field.expected for field in fields}


@pytest.mark.spec("G12")
def test_every_field_is_listed_with_its_path_and_no_value_is_echoed() -> None:
    schema = schema_of_fields("do", {"limit": int, "place": Closed, "path": str, "mode": Literal["fast", "slow"]})
    secret = "hunter2-is-no-number"
    text = {"limit": secret, "place": {"x": secret, "tags": [1, secret]}, "mode": secret, "paht": secret, "zzz": secret}
    with pytest.raises(ValidationError) as refused:
        schema.check_json(json.dumps(text).encode())
    fields = validation_fields(refused.value, schema.names, text)
    assert {field.path: field.expected for field in fields} == {
        "limit": "Input should be a valid integer",
        "place.x": "Input should be a valid integer",
        "place.tags.0": "Input should be a valid string",
        "path": "required, but missing",
        "mode": "Input should be 'fast' or 'slow'",
        "paht": "no such parameter",
        "zzz": "no such parameter",
    }
    assert {field.path: field.did_you_mean for field in fields if field.did_you_mean} == {"paht": "path"}
    assert secret not in "".join(map(str, fields))


@pytest.mark.spec("G12")
def test_a_nested_field_is_not_mistaken_for_a_parameter() -> None:
    schema = schema_of_fields("do", {"place": Closed, "limit": int})
    arguments = {"limit": 1, "place": {"x": 1, "limti": 5}}
    with pytest.raises(ValidationError) as refused:
        schema.check(arguments)
    fields = validation_fields(refused.value, schema.names, arguments)
    assert [(field.path, field.did_you_mean) for field in fields] == [("place.limti", None)]


@pytest.mark.parametrize("text", ["", "{", '{"a": 1', "[]", "1", "null", '"a"', '{"a": 1} x', "\ufeff{}", "{'a': 1}"])
def test_what_is_no_json_object_is_refused_as_a_whole(text: str) -> None:
    with pytest.raises(ValidationError) as refused:
        schema_of_fields("do", {"a": int}).check_json(text.encode())
    assert [field.path for field in validation_fields(refused.value, ["a"], text)] == ["(arguments)"]


@pytest.mark.spec("G12")
@pytest.mark.parametrize(
    ("annotation", "argument", "path", "words"),
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
def test_a_path_is_a_place_of_what_was_sent(annotation: Any, argument: Any, path: str, words: list[str]) -> None:
    misfits = told(schema_of_fields("do", {"a": annotation, "b": int}), {"a": argument, "b": 1})
    assert all(word in misfits[path] for word in words), misfits


@pytest.mark.spec("G12")
def test_thousands_of_wrong_fields_give_no_megabytes_back() -> None:
    schema = schema_of_fields("do", {"limit": int})
    misfits = told(schema, {"limit": 1, **{f"wrong{number}": 0 for number in range(5000)}})
    assert len(misfits) == 101
    assert misfits["…"] == "4900 more do not fit"


class Mode(Enum):
    FAST = "fast"
    SLOW = "slow"


def tag_of(value: Any) -> Any:
    return value.get("kind") if isinstance(value, Mapping) else value


def refuse(value: Any) -> Any:
    raise ValueError("must be a name from the list")


TAGGED = Annotated[Annotated[Cat, Tag("cat")] | Annotated[Dog, Tag("dog")], Discriminator(tag_of)]
KINDS: list[Any] = [
    *(int, float, bool, None, bytes, date, datetime, time, timedelta, Decimal, Fraction, complex, UUID, Path),
    *(AnyUrl, HttpUrl, PostgresDsn, ZoneInfo, ByteSize, Pattern[str], ImportString[Any], JsonText[int]),
    *(IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Network, Annotated[str, AfterValidator(int)]),
    *(Base64Bytes, Base64UrlStr, AwareDatetime, NaiveDatetime, FutureDate, Mode, Literal["fast", 3], Pet, TAGGED),
    *(list[int], set[int], tuple[int, str], dict[str, int], dict[int, str], Closed, Cat | int, int | Mode | None),
    *(Annotated[str, Field(pattern="^x+$")], Annotated[str, StringConstraints(max_length=2)]),
    *(Annotated[SecretStr, Field(max_length=2)], Annotated[list[str], Field(max_length=0)]),
    *(Annotated[bytes, Field(max_length=2)], Annotated[int, Field(gt=10**9)], Annotated[str, AfterValidator(refuse)]),
]


@pytest.mark.spec("G12")
@examples(150, 1000)
@given(
    annotation=st.sampled_from(KINDS),
    around=st.sampled_from(["{}", "1{}", "2024-01-01T{}", "http://{}:x", "{}@", "12345678-{}", "5 {}", "[{}", "os.{}"]),
    shape=st.sampled_from(["{}", "list", "kind", "dict"]),
)
def test_no_kind_of_field_echoes_what_it_was_sent(annotation: Any, around: str, shape: str) -> None:
    secret = "zqjxwvky"
    text = around.format(secret)
    value: Any = {"{}": text, "list": [text], "kind": {"kind": text, "lives": text, "x": text}, "dict": {"k": text}}[
        shape
    ]
    schema = schema_of_fields("do", {"a": annotation})
    sent = {"a": value}
    for check in (lambda: schema.check(sent), lambda: schema.check_json(json.dumps(sent).encode())):
        try:
            check()
        except ValidationError as refused:
            rendered = "".join(map(str, validation_fields(refused, schema.names, {"a": value})))
            assert rendered
            assert not any(secret[start : start + 4] in rendered for start in range(5)), rendered


@pytest.mark.spec("G12")
@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (Pet, "Input should have as tag, by 'kind', one of: 'cat', 'dog'"),
        (TAGGED, "Input should have as tag, by tag_of(), one of: 'cat', 'dog'"),
    ],
)
def test_an_unknown_tag_is_told_by_those_that_are_known(annotation: Any, words: str) -> None:
    assert told(schema_of_fields("do", {"a": annotation}), {"a": {"kind": "hunter2"}}) == {"a": words}


@pytest.mark.spec("G12")
@pytest.mark.parametrize(
    ("annotation", "sent", "words"),
    [
        (UUID, "hunter2", "Input should be a valid UUID"),
        (ZoneInfo, "hunter2", "Input should be a valid timezone"),
        (Base64Bytes, "hunter2", "Input should be valid base64"),
        (ImportString[Any], "hunter2.x", "Input should be a valid python path"),
        (ByteSize, "5 hunter", "Input should be a number of bytes with a known unit"),
        (IPv4Address, "1.2.3.hunter2", "Input should be a valid IP address"),
        (Annotated[str, AfterValidator(int)], "hunter2", "Input does not fit"),
        (Annotated[str, AfterValidator(refuse)], "x", "Value error, must be a name from the list"),
    ],
)
def test_words_that_would_quote_are_replaced_and_an_authors_are_kept(annotation: Any, sent: str, words: str) -> None:
    assert told(schema_of_fields("do", {"a": annotation}), {"a": sent}) == {"a": words}
