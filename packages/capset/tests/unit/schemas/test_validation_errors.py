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

pytestmark = pytest.mark.spec("G12")


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


def fields_of(schema: Schema, arguments: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    """Return what was expected and what may have been meant, by place."""
    with pytest.raises(ValidationError) as refused:
        schema.check_json(json.dumps(arguments).encode())
    fields = validation_fields(refused.value, schema.names, arguments)
    assert len({field.path for field in fields}) == len(fields), "each place once"
    return {field.path: (field.expected, field.did_you_mean) for field in fields}


def test_every_field_is_listed_with_its_path_and_a_parameter_that_may_be_meant() -> None:
    schema = schema_of_fields("do", {"limit": int, "place": Closed, "path": str, "mode": Literal["fast", "slow"]})
    place = {"x": "one", "tags": [1, "two"], "limti": 5}
    assert fields_of(schema, {"limit": "x", "place": place, "mode": "car", "paht": "x", "zzz": "x"}) == {
        "limit": ("Input should be a valid integer", None),
        "place.x": ("Input should be a valid integer", None),
        "place.tags.0": ("Input should be a valid string", None),
        "place.limti": ("no such parameter", None),
        "path": ("required, but missing", None),
        "mode": ("Input should be 'fast' or 'slow'", None),
        "paht": ("no such parameter", "path"),
        "zzz": ("no such parameter", None),
    }


@pytest.mark.parametrize("text", ["", "{", '{"a": 1', "[]", "1", "null", '"a"', '{"a": 1} x', "\ufeff{}", "{'a': 1}"])
def test_what_is_no_json_object_is_refused_as_a_whole(text: str) -> None:
    with pytest.raises(ValidationError) as refused:
        schema_of_fields("do", {"a": int}).check_json(text.encode())
    assert [field.path for field in validation_fields(refused.value, ["a"], text)] == ["(arguments)"]


def test_thousands_of_wrong_fields_give_no_megabytes_back() -> None:
    schema = schema_of_fields("do", {"limit": int})
    fields = fields_of(schema, {"limit": 1, **{f"wrong{number}": 0 for number in range(5000)}})
    assert (len(fields), fields["…"]) == (101, ("4900 more do not fit", None))


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


@examples(150, 1000)
@given(
    annotation=st.sampled_from(KINDS),
    around=st.sampled_from(["{}", "1{}", "2024-01-01T{}", "http://{}:x", "{}@", "12345678-{}", "5 {}", "[{}", "os.{}"]),
    shape=st.sampled_from(["{}", "list", "kind", "dict"]),
)
def test_no_kind_of_field_echoes_what_it_was_sent(annotation: Any, around: str, shape: str) -> None:
    secret = "zqjxwvky"
    text = around.format(secret)
    shapes = {"{}": text, "list": [text], "kind": {"kind": text, "lives": text, "x": text}, "dict": {"k": text}}
    sent = {"a": shapes[shape]}
    schema = schema_of_fields("do", {"a": annotation})
    for check in (lambda: schema.check(sent), lambda: schema.check_json(json.dumps(sent).encode())):
        try:
            check()
        except ValidationError as refused:
            rendered = "".join(map(str, validation_fields(refused, schema.names, sent)))
            assert rendered
            assert not any(secret[start : start + 4] in rendered for start in range(5)), rendered


INTEGER = "Input should be a valid integer"
EITHER = f"{INTEGER} or Input should be a valid "


@pytest.mark.parametrize(
    ("annotation", "sent", "path", "words"),
    [
        (int | str, 1.5, "a", f"{EITHER}string"),
        (int | None, "x", "a", INTEGER),
        (list[int | bool], [1, "x"], "a.1", f"{EITHER}boolean"),
        (dict[str, int], {"k": "x"}, "a.k", INTEGER),
        (Pet, {"kind": "cat", "lives": "x"}, "a.lives", INTEGER),
        (Cat | None, {"kind": "cat"}, "a.lives", "required, but missing"),
        (list[Closed], [{"x": 1}, {}], "a.1.x", "required, but missing"),
        (Pet, {"kind": "hunter2"}, "a", "Input should have as tag, by 'kind', one of: 'cat', 'dog'"),
        (TAGGED, {"kind": "hunter2"}, "a", "Input should have as tag, by tag_of(), one of: 'cat', 'dog'"),
        (UUID, "hunter2", "a", "Input should be a valid UUID"),
        (ZoneInfo, "hunter2", "a", "Input should be a valid timezone"),
        (Base64Bytes, "hunter2", "a", "Input should be valid base64"),
        (ImportString[Any], "hunter2.x", "a", "Input should be a valid python path"),
        (ByteSize, "5 hunter", "a", "Input should be a number of bytes with a known unit"),
        (IPv4Address, "1.2.3.hunter2", "a", "Input should be a valid IP address"),
        (Annotated[str, AfterValidator(int)], "hunter2", "a", "Input does not fit"),
        (Annotated[str, AfterValidator(refuse)], "x", "a", "Value error, must be a name from the list"),
    ],
)
def test_what_was_expected_is_told_at_its_place_in_words_that_quote_nothing_but_an_author(
    annotation: Any, sent: Any, path: str, words: str
) -> None:
    assert fields_of(schema_of_fields("do", {"a": annotation}), {"a": sent}) == {path: (words, None)}
