"""What leaves fits the schema that is published, or its definition is refused, or it does not leave (spec 4, G38)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum, IntEnum
from typing import Annotated, Any, Generic, Literal, TypeVar

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator
from pydantic import (
    AliasChoices,
    AliasGenerator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Json,
    PlainSerializer,
    RootModel,
    SerializeAsAny,
    Tag,
    WithJsonSchema,
    computed_field,
    field_serializer,
    model_serializer,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypedDict

from capset.errors import DefinitionError
from capset.schemas.schema import schema_of
from capset.schemas.validation_errors import SchemaMismatch
from tests.examples import examples
from tests.helpers.schemas.results import typed_values

pytestmark = pytest.mark.spec("G38")
T = TypeVar("T")


class Named(BaseModel):
    own: int = Field(alias="Own")
    out: int = Field(serialization_alias="Out")
    back: int = Field(validation_alias="Back")
    any: int = Field(default=4, validation_alias=AliasChoices("one", "other"))


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, serialize_by_alias=True)
    first_name: str

    @computed_field
    @property
    def full_name(self) -> str:
        return f"{self.first_name} L."


class Apart(BaseModel):
    model_config = ConfigDict(alias_generator=AliasGenerator(serialization_alias=str.upper))
    inner: Named


class Written(BaseModel):
    cents: int
    secret: int | None = Field(default=None, exclude=True)
    note: str = Field(default="", exclude_if=lambda text: not text)

    @field_serializer("cents")
    def euros(self, cents: int) -> str:
        return f"{cents / 100:.2f}"


class Point(BaseModel):
    x: int
    y: int

    @model_serializer
    def pair(self) -> tuple[int, int]:
        return self.x, self.y


class Timed(BaseModel):
    model_config = ConfigDict(ser_json_temporal="seconds", ser_json_bytes="base64")
    took: timedelta
    blob: bytes


class Parsed(BaseModel):
    model_config = ConfigDict(json_schema_mode_override="validation")
    it: Json[int]


class Page(BaseModel, Generic[T]):
    items: list[T] = Field(serialization_alias="list")
    after: Page[T] | None = Field(default=None, serialization_alias="next")


class Dict(TypedDict):
    plain: Annotated[int, Field(serialization_alias="Plain")]
    text: Annotated[int, PlainSerializer(str, return_type=str)]


@dataclasses.dataclass
class Data:
    seed: dataclasses.InitVar[int]
    made: int = dataclasses.field(init=False, default=3)
    named: Annotated[int, Field(serialization_alias="Named")] = 1


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Only(Enum):
    ONE = 1


def kind_of(value: Any) -> str:
    return type(value).__name__


Told = Annotated[
    Annotated[int, Tag("int")] | Annotated[float, Tag("float")] | Annotated[Named, Tag("Named")], Discriminator(kind_of)
]
NAMED = Named.model_validate({"Own": 1, "out": 2, "Back": 3})
NAMED_JSON = {"Own": 1, "Out": 2, "back": 3, "any": 4}
PAGES, LAST_PAGE_JSON = Page[Named](items=[NAMED], after=Page[Named](items=[])), {"list": list[Any](), "next": None}
LEAVES: dict[str, tuple[Any, Any, Any]] = {
    "aliases": (Named, NAMED, NAMED_JSON),
    "an alias generator": (Camel, Camel(first_name="A"), {"firstName": "A", "fullName": "A L."}),
    "one that is for results, around a model without": (Apart, Apart(inner=NAMED), {"INNER": NAMED_JSON}),
    "a field's serializer, and fields left out": (Written, Written(cents=150), {"cents": "1.50"}),
    "a model's serializer": (list[Point], [Point(x=1, y=2)], [[1, 2]]),
    "bytes and durations": (Timed, Timed(took=timedelta(minutes=1), blob=b"\xff"), {"took": 60.0, "blob": "_w=="}),
    "a model that would show what goes in": (Parsed, Parsed.model_validate({"it": "5"}), {"it": 5}),
    "a generic model that holds itself": (Page[Named], PAGES, {"list": [NAMED_JSON], "next": LAST_PAGE_JSON}),
    "a root model": (RootModel[dict[str, Named]], RootModel[dict[str, Named]]({"a": NAMED}), {"a": NAMED_JSON}),
    "a typed dict": (Dict, {"plain": 1, "text": 2}, {"Plain": 1, "text": "2"}),
    "a dataclass with what is for its start alone": (Data, Data(7), {"made": 3, "Named": 1}),
    "a union": (Named | Dict, {"plain": 1, "text": 2}, {"Plain": 1, "text": "2"}),
    "a union that a function tells apart": (list[Told], [1, 1.5, NAMED], [1, 1.5, NAMED_JSON]),
    "an enum of numbers for names": (dict[Level, int], {Level.LOW: 1}, {"1": 1}),
    "an enum of one number for names": (dict[Only, int], {Only.ONE: 1}, {"1": 1}),
    "an integer made of a text": (Annotated[str, PlainSerializer(len, return_type=int)], "four", 4),
    "an integer made of a text by what Python knows": (Annotated[str, PlainSerializer(int)], "4", 4),
    "anything that a serializer may give": (Annotated[int, PlainSerializer(str, return_type=Any)], 4, "4"),
}


def published(kind: Any, value: Any) -> Any:
    """Return a value as it leaves, held to its schema by another validator than the one that capset has."""
    schema = schema_of("it", kind, "serialization")
    checked = schema.check(value)
    assert type(checked) is type(value), "in process, a result is of the handler's own type"
    data = schema.jsonable(checked)
    Draft202012Validator.check_schema(schema.json_schema)
    assert Draft202012Validator(schema.json_schema).is_valid(data), (schema.json_schema, data)
    return data


@pytest.mark.parametrize(("kind", "value", "expected"), LEAVES.values(), ids=LEAVES)
def test_what_leaves_fits_what_is_published(kind: Any, value: Any, expected: Any) -> None:
    assert published(kind, value) == expected


@examples(30, 150)
@given(typed_values())
def test_whatever_a_type_is_made_of_it_leaves_as_it_is_published(sample: tuple[Any, Any]) -> None:
    published(*sample)


class Plain(BaseModel):
    a: int = 1


class Unsaid(Plain):
    @field_serializer("a")
    def written(self, a: int):  # the annotation is what is missing
        return str(a)


class Shapeless(Plain):
    @model_serializer(mode="wrap")
    def written(self, handler: Any):  # the annotation is what is missing
        return handler(self)


with pytest.warns(DeprecationWarning, match="json_encoders"):

    class Encoded(Plain):
        model_config = ConfigDict(json_encoders={int: str})


class ByName(BaseModel):
    model_config = ConfigDict(serialize_by_alias=False)
    a: int = Field(serialization_alias="A")


class Twice(BaseModel):
    a: int = Field(serialization_alias="b")
    b: str


@dataclasses.dataclass
class Computed:
    a: Annotated[int, Field(serialization_alias="b")] = 1
    b: int = 2


class Patterned(BaseModel):
    model_config = ConfigDict(regex_engine="python-re")
    a: str = Field(pattern=r"\Aa\Z")


class Extra(Plain):
    model_config = ConfigDict(json_schema_extra={"type": "thing"})


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (Unsaid, r"its serializer Unsaid\.written does not say what it returns"),
        (list[Shapeless], r"Shapeless\.written does not say what it returns"),
        (Annotated[int, PlainSerializer(lambda it: it)], "<lambda> does not say what it returns; annotate it"),
        (Encoded, "its serializer str does not say what it returns"),
        (ByName, "ByName has serialize_by_alias=False, but results are serialised by alias"),
        (Twice, "Twice: its fields 'a' and 'b' are both serialised as 'b'; give one of them"),
        (Computed, "Computed: its fields 'a' and 'b' are both serialised as 'b'"),
        (Patterned, r"its published schema is not a valid JSON Schema: .*\\\\Aa\\\\Z"),
        (Extra, "its published schema is not a valid JSON Schema"),
        (Annotated[int, WithJsonSchema({"type": 5})], "not a valid JSON Schema"),
        (SkipJsonSchema[int], r"its type has no schema \(SkipJsonSchema\)"),
    ],
)
def test_a_type_whose_results_cannot_be_described_is_refused(kind: Any, problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem) as caught:
        schema_of("tool 'odd', its return type", kind, "serialization")
    assert caught.value.message.startswith("tool 'odd', its return type: ")


class Bounded(BaseModel):
    a: int = Field(default=1, ge=0)
    b: list[int] = Field(default_factory=list[int], max_length=1)


class Lying(Plain):
    @field_serializer("a")
    def written(self, a: int) -> Annotated[int, Field(le=9)]:
        return a * 10


class Nan(BaseModel):
    @computed_field
    @property
    def it(self) -> float:
        return float("nan")


class Closed(Plain):
    model_config = ConfigDict(extra="forbid")


class Wider(Closed):
    b: int = 2


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int = Field(serialization_alias="A")


def changed(model: BaseModel, **values: Any) -> BaseModel:
    for name, value in values.items():
        setattr(model, name, value)
    return model


CAUGHT: dict[str, tuple[Any, Any, str]] = {
    "a model that was changed": (Bounded, changed(Bounded(), a=-1), "a: Input should be at least 0"),
    "a list that grew": (Bounded, changed(Bounded(), b=[1, 2]), "b: Input should have at most 1 item"),
    "a model without its fields": (Named, Named.model_construct(), "Own: required, but missing"),
    "a serializer that gives more than it says": (Lying, Lying(a=1), "a: Input should be at most 9"),
    "what JSON has no number for": (Nan, Nan(), "it: Input should be a number"),
    "a wider model": (SerializeAsAny[Closed], Wider(), "b: no such parameter"),
    "a field of a client's by another's alias": (Open, Open.model_validate({"a": 1, "A": "x"}), "A: Input should be"),
    "a schema that says something else": (Annotated[str, WithJsonSchema({"type": "integer"})], "four", "an integer"),
    "two members that are written alike": (set[bytes | str], {b"a", "a"}, "no item twice"),
}


@pytest.mark.parametrize(("kind", "value", "problem"), CAUGHT.values(), ids=CAUGHT)
def test_what_does_not_fit_does_not_leave(kind: Any, value: Any, problem: str) -> None:
    schema = schema_of("it", kind, "serialization")
    with pytest.raises(SchemaMismatch, match=problem):
        schema.jsonable(schema.check(value))


def test_the_arguments_of_a_tool_are_written_by_name_as_before() -> None:
    schema = schema_of("it", Named, "validation")
    assert schema.jsonable(NAMED) == {"own": 1, "out": 2, "back": 3, "any": 4}
    assert schema.check_json('{"Own": 1, "out": 2, "Back": 3, "other": 5}').any == 5


def test_what_is_proven_by_its_type_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any, **__: Any) -> Any:
        raise AssertionError("it was compiled")

    monkeypatch.setattr("jsonschema_rs.validator_for", forbidden)
    for kind, value in [(Mapping[str, int], {"a": 1}), (list[str | None], ["a"][:0]), (str, "a"), (float, 0.5)]:
        schema = schema_of("it", kind, "serialization")
        assert schema.jsonable(schema.check(value)) == value


class Cat(BaseModel):
    kind: Literal["cat"] = Field(serialization_alias="animal")


class Dog(BaseModel):
    kind: Literal["dog"] = Field(serialization_alias="animal")


def animal(kind: str) -> dict[str, Any]:
    return {"type": "object", "properties": {"animal": {"const": kind, "type": "string"}}, "required": ["animal"]}


Tagged = Annotated[Annotated[Literal["a"], Tag("a")] | Annotated[int, Tag("i")], Discriminator(kind_of)]
ANIMALS, DEFS = [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}], {"Cat": animal("cat"), "Dog": animal("dog")}


@pytest.mark.spec("F3")
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Tagged, {"anyOf": [{"const": "a", "type": "string"}, {"type": "integer"}]}),
        (dict[Level, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Annotated[Cat | Dog, Field(discriminator="kind")], {"oneOf": ANIMALS, "$defs": DEFS}),
    ],
)
def test_the_schemas_that_were_wrong_say_what_leaves(kind: Any, expected: Any) -> None:
    assert schema_of("it", kind, "serialization").json_schema == expected
