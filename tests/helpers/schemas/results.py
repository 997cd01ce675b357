"""Types of results of many kinds, with aliases and serializers, and values of them, for the tests of what leaves."""

from __future__ import annotations

import dataclasses
from copy import deepcopy
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from functools import partial
from itertools import count
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, cast
from uuid import UUID

from hypothesis import strategies as st
from pydantic import (
    AliasGenerator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    RootModel,
    WrapSerializer,
    computed_field,
    create_model,
    field_serializer,
    model_serializer,
)
from pydantic.alias_generators import to_camel, to_pascal
from typing_extensions import TypedDict

Made = tuple[Any, st.SearchStrategy[Any]]
"""A type, and the values of it."""
T = TypeVar("T")
_NUMBERS = count()


class Colour(Enum):
    RED = "red"
    MIXED = 3


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


class Holder(BaseModel, Generic[T]):
    """Something in a generic model."""

    it_is: T = Field(serialization_alias="itIs")


def _doubled(value: Any, handler: Any) -> list[Any]:
    return [handler(value), handler(value)]


_words = st.text("abc", max_size=3)
_whole = st.integers(-9, 9)
SCALARS: list[Made] = [
    (int, _whole),
    (str, _words),
    (bool, st.booleans()),
    (float, st.floats(-9, 9, width=16)),
    (type(None), st.none()),
    (bytes, st.binary(max_size=3).filter(bytes.isascii)),
    (date, st.dates()),
    (datetime, st.datetimes()),
    (timedelta, st.timedeltas(timedelta(-9), timedelta(9))),
    (Decimal, st.decimals(-9, 9, places=2)),
    (UUID, st.uuids()),
    (Colour, st.sampled_from(Colour)),
    (Size, st.sampled_from(Size)),
    (Literal["x", 5], st.sampled_from(["x", 5])),
    (Annotated[int, Field(ge=-9)], _whole),
    (Annotated[str, Field(max_length=3, pattern="^[abc]*$")], _words),
    (Annotated[int, PlainSerializer(str, return_type=str)], _whole),
    (Annotated[str, PlainSerializer(len, return_type=int)], _words),
    (Annotated[int, PlainSerializer(lambda it: {"it": it}, return_type=dict[str, int], when_used="json")], _whole),
    (Annotated[int | None, PlainSerializer(str, return_type=str, when_used="unless-none")], st.none() | _whole),
    (Annotated[int, WrapSerializer(_doubled)], _whole),
]


def _lists(inner: Made) -> Made:
    return list[inner[0]], st.lists(inner[1], max_size=3)


def _tuples(inner: Made) -> Made:
    return tuple[inner[0], int], st.tuples(inner[1], _whole)


def _by_name(inner: Made) -> Made:
    return dict[str, inner[0]], st.dictionaries(_words, inner[1], max_size=3)


def _by_size(inner: Made) -> Made:
    return dict[Size, inner[0]], st.dictionaries(st.sampled_from(Size), inner[1])


def _optional(inner: Made) -> Made:
    return inner[0] | None, st.none() | inner[1]


def _generic(inner: Made) -> Made:
    kind: Any = Holder[inner[0]]
    return kind, st.builds(lambda it: kind(it_is=it), inner[1])


def _root(inner: Made) -> Made:
    kind: Any = RootModel[list[inner[0]]]
    return kind, st.builds(kind, st.lists(inner[1], max_size=2))


@st.composite
def _models(draw: st.DrawFn, inner: st.SearchStrategy[Made]) -> Made:
    """Make a model of some fields, each with a name, a default, an alias or more of its own."""
    fields: dict[str, Any] = {}
    values: dict[str, st.SearchStrategy[Any]] = {}
    for place in range(draw(st.integers(1, 3))):
        name = f"field_{place}"
        kind, values[name] = draw(inner)
        options: dict[str, Any] = draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "alias": st.just(f"alias{place}"),
                    "serialization_alias": st.just(f"Out {place}"),
                    "validation_alias": st.just(f"in{place}"),
                    "exclude": st.booleans(),
                    "exclude_if": st.just(lambda value: value in (0, None, "")),
                    "description": st.just("A field."),
                },
            )
        )
        if options.get("exclude"):
            options.pop("exclude_if", None)
        if draw(st.booleans()):
            options["default_factory"] = partial(deepcopy, draw(values[name]))
        fields[name] = (kind, Field(**options))
    config: Any = draw(
        st.fixed_dictionaries(
            {"validate_by_name": st.just(True)},
            optional={
                "alias_generator": st.sampled_from(
                    [to_camel, to_pascal, AliasGenerator(serialization_alias=str.upper)]
                ),
                "serialize_by_alias": st.just(True),
                "ser_json_temporal": st.sampled_from(["iso8601", "seconds", "milliseconds"]),
                "ser_json_bytes": st.sampled_from(["utf8", "base64", "hex"]),
                "use_enum_values": st.booleans(),
                "extra": st.sampled_from(["allow", "forbid", "ignore"]),
                "json_schema_serialization_defaults_required": st.booleans(),
                "json_schema_mode_override": st.sampled_from([None, "validation", "serialization"]),
            },
        )
    )
    base: Any = create_model("Base", __config__=ConfigDict(**config), **fields)
    model: Any = type(f"Model{next(_NUMBERS)}", (base,), {"__module__": __name__, **draw(_additions)})
    return model, st.builds(lambda arguments: model(**arguments), st.fixed_dictionaries(values))


def _computed(self: Any) -> list[int]:
    return [1]


def _written(self: Any) -> dict[str, int]:
    return {"all": 1}


def _extended(self: Any, handler: Any) -> dict[str, Any]:
    return {**handler(self), "more": 1}


def _shown(self: Any, value: Any) -> str:
    return "shown"


_additions: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "computed_one": st.sampled_from(
            [computed_field(property(_computed)), computed_field(alias="theComputed")(property(_computed))]
        ),
        "as_field": st.just(field_serializer("field_0")(_shown)),
        "as_model": st.sampled_from([model_serializer(_written), model_serializer(mode="wrap")(_extended)]),
    },
)


@st.composite
def _typed_dicts(draw: st.DrawFn, inner: st.SearchStrategy[Made]) -> Made:
    kinds = [draw(inner) for _ in range(draw(st.integers(1, 3)))]
    fields: dict[str, Any] = {}
    for place, (kind, _) in enumerate(kinds):
        aliased = Annotated[kind, Field(serialization_alias=f"Out {place}")]
        fields[f"field_{place}"] = aliased if draw(st.booleans()) else kind
    typed_dict: Any = cast("Any", TypedDict)(f"Dict{next(_NUMBERS)}", fields)
    return typed_dict, st.fixed_dictionaries({f"field_{place}": values for place, (_, values) in enumerate(kinds)})


@st.composite
def _dataclasses(draw: st.DrawFn, inner: st.SearchStrategy[Made]) -> Made:
    kind, values = draw(inner)
    fields: list[Any] = [
        ("one", Annotated[kind, Field(serialization_alias="theOne")] if draw(st.booleans()) else kind),
        ("seed", dataclasses.InitVar[int], 1),
    ]
    data_class: Any = dataclasses.make_dataclass(f"Data{next(_NUMBERS)}", fields)
    return data_class, st.builds(data_class, values)


@st.composite
def _tagged(draw: st.DrawFn, inner: st.SearchStrategy[Made]) -> Made:
    options: list[Any] = []
    values: list[st.SearchStrategy[Any]] = []
    for tag in ("a", "b"):
        kind, strategy = draw(inner)
        named: Any = (Literal[tag], Field(default=tag, serialization_alias="theKind"))
        model: Any = create_model(f"Tagged{next(_NUMBERS)}", kind=named, it=(kind, ...))
        options.append(model)
        values.append(st.builds(model, it=strategy))
    return Annotated[Union[tuple(options)], Field(discriminator="kind")], st.one_of(values)  # noqa: UP007


def _kinds(inner: st.SearchStrategy[Made]) -> st.SearchStrategy[Made]:
    simple = st.sampled_from([_lists, _tuples, _by_name, _by_size, _optional, _generic, _root])
    return st.one_of(
        st.builds(lambda make, of: make(of), simple, inner),
        _models(inner),
        _typed_dicts(inner),
        _dataclasses(inner),
        _tagged(inner),
    )


@st.composite
def typed_values(draw: st.DrawFn) -> tuple[Any, Any]:
    """Draw a type, and a value of it."""
    kind, values = draw(st.recursive(st.sampled_from(SCALARS), _kinds, max_leaves=5))
    return kind, draw(values)
