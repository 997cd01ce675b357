"""Which types run the host's own code when they are validated or written (spec 1, C34)."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    HttpUrl,
    PlainSerializer,
    StringConstraints,
    TypeAdapter,
    WrapValidator,
    computed_field,
    create_model,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic_core import core_schema

from capset.schemas.own_code import has_own_code, is_own_function, runs_own_code

pytestmark = pytest.mark.spec("C34")


class Colour(Enum):
    RED = "red"


class Inner(BaseModel):
    size: int = 1
    tags: list[str] = Field(default_factory=list[str])


class Plain(BaseModel):
    text: Annotated[str, StringConstraints(pattern="^a", to_lower=True)] = "a"
    number: Annotated[int, Field(gt=3, multiple_of=2)] = 4
    inner: Inner = Inner()
    inners: dict[str, list[Inner]] = {}


@dataclass
class Point:
    x: int = 0
    more: list[int] = field(default_factory=list[int])


def same(value: Any) -> Any:
    return value


class Number(BaseModel):
    x: int = 0


class FieldValidated(Number):
    look = field_validator("x")(same)


class ModelValidated(Number):
    look = model_validator(mode="wrap")(lambda cls, value, handler: handler(value))


class Serialized(Number):
    write = field_serializer("x")(lambda self, x: x)


class Constructed(Number):
    def __init__(self, **data: Any) -> None:
        super().__init__(**data)


class Begun(Number):
    def model_post_init(self, context: Any, /) -> None:
        pass


class Computed(BaseModel):
    @computed_field
    @property
    def x(self) -> int:
        return 1


class Made(BaseModel):
    x: list[int] = Field(default_factory=lambda: [1])


class Sizes(Enum):
    SMALL = "s"

    @classmethod
    def _missing_(cls, value: object) -> Sizes:
        return cls.SMALL


class Typed:
    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return core_schema.no_info_plain_validator_function(same)


@dataclass
class Checked:
    x: int = 0

    def __post_init__(self) -> None:
        self.x += 1


@pytest.mark.parametrize(
    "type",
    [
        *(str, int, float, bool, bytes, None, datetime, timedelta, Decimal, UUID, Path, IPv4Address, HttpUrl, Colour),
        *(list[int], dict[str, Inner], set[str], tuple[int, ...], deque[int], OrderedDict[str, int]),
        *(defaultdict[str, int], Literal["x"], Plain, Inner, Point, Plain | Inner | None, Any),
    ],
)
def test_a_type_that_only_declares_runs_no_code_of_the_host(type: Any) -> None:
    assert not runs_own_code(TypeAdapter(type).core_schema)


@pytest.mark.parametrize(
    "type",
    [
        *(FieldValidated, ModelValidated, Serialized, Constructed, Begun, Computed, Made, Sizes, Typed, Checked),
        *(Annotated[int, AfterValidator(same)], Annotated[int, BeforeValidator(partial(same))]),
        *(Annotated[int, WrapValidator(lambda value, inner: inner(value))], Annotated[int, PlainSerializer(same)]),
        *(list[FieldValidated], dict[str, tuple[Made, ...]], FieldValidated | None, type("Heir", (Made,), {})),
    ],
)
def test_validators_serialisers_constructors_and_defaults_are_found_wherever_they_are(type: Any) -> None:
    assert runs_own_code(TypeAdapter(type).core_schema)


def test_models_and_functions_are_told_apart() -> None:
    assert not any(map(has_own_code, (Plain, Inner)))
    assert all(map(has_own_code, (Made, FieldValidated)))
    assert not any(map(is_own_function, (list, dict[str, int], Plain, partial(list), 5)))
    assert all(map(is_own_function, (same, Made, partial(same), Point)))


@pytest.mark.parametrize("name", ["metadata", "default", "expected", "members", "fields"])
def test_a_field_may_have_the_name_of_a_part_of_a_schema(name: str) -> None:
    named: Any = {name: (Annotated[int, AfterValidator(same)], 1)}
    assert has_own_code(create_model("Named", **named))
