"""What goes in and what comes out: strict, closed, and each call with values of its own."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from typing_extensions import TypedDict

from capset import DefinitionError
from capset.schemas.plain_data import plain, plain_json
from capset.schemas.schema import Schema, schema_of, schema_of_fields
from capset.schemas.validation_errors import validation_fields


class Closed(BaseModel):
    x: int
    tags: list[str] = []


class Ignoring(BaseModel):
    model_config = ConfigDict(extra="ignore")
    x: int


class Forbidding(BaseModel):
    model_config = ConfigDict(extra="forbid")
    x: int


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    x: int


class OpenToNumbers(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int]  # pyright: ignore[reportIncompatibleVariableOverride]
    x: int


class OpenOverSilent(BaseModel):
    model_config = ConfigDict(extra="allow")
    inner: Closed


class OpenOverForbidding(BaseModel):
    model_config = ConfigDict(extra="allow")
    inner: Forbidding


class Deep(BaseModel):
    inner: Closed
    many: dict[str, list[Closed]] = {}


class Lax(BaseModel):
    model_config = ConfigDict(strict=False)
    x: int
    y: Annotated[int, Field(strict=False)] = 0


class Mapped(TypedDict, total=False):
    x: int


@dataclass
class Data:
    x: int


class Pair(NamedTuple):
    x: int


class Colour(Enum):
    RED = "red"


def of(annotation: Any) -> Schema:
    return schema_of_fields("do", {"a": annotation})


def accepts(schema: Schema, text: str) -> bool:
    try:
        schema.check_json(f'{{"a": {text}}}'.encode())
    except ValidationError:
        return False
    return True


@pytest.mark.spec("G11")
@pytest.mark.parametrize(
    ("annotation", "taken", "refused"),
    [
        (int, ["5", "-0", f"{10**30}"], ["true", '"5"', "5.0", "1e2", "null", "[5]", "{}"]),
        (float, ["5", "5.0", "1e2"], ["true", '"5"', "null", "NaN", "Infinity", "-Infinity", "1e999"]),
        (bool, ["true", "false"], ["1", "0", '"true"', '"yes"', "null"]),
        (str, ['"x"', '""', '"\\ud83d\\ude00"'], ["5", "null", '["x"]', '"\\ud800"']),
        (None, ["null"], ["0", '""', "false", "{}"]),
        (datetime, ['"2024-02-29T12:00:00Z"', '"2024-02-29T12:00:00"'], ["5", '"noon"', '"2023-02-29T12:00:00Z"']),
        (date, ['"2024-02-29"'], ["19782", '"2024-02-30"', '"29.2.2024"']),
        (UUID, ['"12345678-1234-5678-1234-567812345678"'], ['"1234"', "5"]),
        (Decimal, ['"1.50"', "1.5"], ["true", '"x"', "null"]),
        (Colour, ['"red"'], ['"RED"', '"blue"', "0"]),
        (Literal["a", 3], ['"a"', "3"], ['"b"', '"3"', "null"]),
        (int | str, ["5", '"5"'], ["true", "5.5", "null"]),
        (int | None, ["5", "null"], ['"5"', '""', "false"]),
        (list[int], ["[]", "[1]"], ['["1"]', "[true]", "{}", "1", '"1"', "null"]),
        (set[str], ['["a", "a"]'], ['"a"', '{"a": 1}']),
        (tuple[int, str], ['[1, "a"]'], ["[1]", '["a", 1]', '[1, "a", 2]']),
        (dict[str, int], ["{}", '{"k": 1}'], ['{"k": true}', '{"k": "1"}', "[]"]),
        (list[float], ["[1.5]"], ["[NaN]", "[1e999]"]),
        (Lax, ['{"x": 1}'], ['{"x": "1"}', '{"x": true}', '{"x": 1, "y": "1"}']),
        (Annotated[int, Field(strict=False)], ["1"], ['"1"', "true"]),
        (Annotated[str, Field(pattern="^(a+)+$")], ['"aaa"'], ['"b"', json.dumps("a" * 5000 + "!")]),
        (object, ["1", "null", '{"k": [1, "x"]}'], ["NaN,", "'x'", "[1,]"]),
    ],
)
def test_json_is_taken_strictly(annotation: Any, taken: list[str], refused: list[str]) -> None:
    schema = of(annotation)
    assert {text: accepts(schema, text) for text in taken} == dict.fromkeys(taken, True)
    assert {text: accepts(schema, text) for text in refused} == dict.fromkeys(refused, False)


@pytest.mark.spec("G11")
@pytest.mark.parametrize(
    ("annotation", "taken", "refused"),
    [
        (int, [5], [True, "5", 5.0, None]),
        (float, [5, 5.5], [True, "5", math.nan, math.inf]),
        (datetime, [datetime(2024, 1, 1, tzinfo=UTC)], ["2024-01-01T00:00:00Z", 5]),
        (UUID, [UUID(int=5)], ["12345678-1234-5678-1234-567812345678"]),
        (Colour, [Colour.RED], ["red"]),
        (bytes, [b"x"], ["x"]),
        (tuple[int, ...], [(1,)], [[1]]),
        (list[int], [[1]], [(1,), ["1"]]),
        (Closed, [Closed(x=1), {"x": 1}], [{"x": "1"}, {"x": True}, {}]),
        (Data, [Data(1)], [{"x": 1}]),
    ],
)
def test_python_is_taken_strictly(annotation: Any, taken: list[Any], refused: list[Any]) -> None:
    schema = of(annotation)
    for value in taken:
        schema.check({"a": value})
    for value in refused:
        with pytest.raises(ValidationError):
            schema.check({"a": value})


def with_default(annotation: Any, default: Any) -> Schema:
    return schema_of_fields("do", {"a": Annotated[annotation, Field(default=default)], "b": int})


@pytest.mark.spec("G12")
@pytest.mark.parametrize(
    ("annotation", "text", "path"),
    [
        (Closed, '{"x": 1, "y": 2}', "a.y"),
        (Ignoring, '{"x": 1, "y": 2}', "a.y"),
        (Forbidding, '{"x": 1, "y": 2}', "a.y"),
        (Mapped, '{"x": 1, "y": 2}', "a.y"),
        (Data, '{"x": 1, "y": 2}', "a.y"),
        (Deep, '{"inner": {"x": 1, "y": 2}}', "a.inner.y"),
        (Deep, '{"inner": {"x": 1}, "many": {"k": [{"x": 1}, {"x": 1, "y": 2}]}}', "a.many.k.1.y"),
        (dict[str, Closed], '{"k": {"x": 1, "y": 2}}', "a.k.y"),
        (list[Mapped], '[{"y": 2}]', "a.0.y"),
        (Closed | None, '{"x": 1, "y": 2}', "a.y"),
        (OpenOverForbidding, '{"inner": {"x": 1, "y": 2}}', "a.inner.y"),
        (int, '1, "y": 2', "y"),
        (Open, '{"x": 1}, "y": 2', "y"),
    ],
)
def test_a_field_that_is_not_declared_is_refused_at_every_depth(annotation: Any, text: str, path: str) -> None:
    schema = of(annotation)
    document = f'{{"a": {text}}}'
    with pytest.raises(ValidationError) as refused:
        schema.check_json(document.encode())
    fields = validation_fields(refused.value, ["a"], json.loads(document))
    assert [(field.path, field.expected) for field in fields] == [(path, "no such parameter")]


@pytest.mark.spec("F12")
@settings(deadline=None)
@given(st.sets(st.integers() | st.text(st.characters(exclude_categories=["Cs"]))))
def test_a_default_that_is_a_set_is_written_in_one_order(default: set[Any]) -> None:
    first, other = (
        with_default(frozenset[int | str], frozenset(sorted(default, key=repr, reverse=is_reversed))).json_schema
        for is_reversed in (False, True)
    )
    assert json.dumps(first) == json.dumps(other)
    assert set(first["properties"]["a"]["default"]) == default


@pytest.mark.spec("G12")
def test_every_object_of_the_schema_says_that_it_is_closed() -> None:
    schema = of(Deep).json_schema
    assert schema["$defs"].keys() == {"Closed", "Deep"}
    assert not any(inner["additionalProperties"] for inner in (schema, *schema["$defs"].values()))
    assert "additionalProperties" not in schema_of("it", Closed, "serialization").json_schema


@pytest.mark.spec("G12")
@pytest.mark.parametrize("annotation", [Open, OpenToNumbers, OpenOverForbidding, dict[str, int], object])
def test_what_is_open_by_its_own_word_stays_open(annotation: Any) -> None:
    schema = of(annotation)
    assert schema.json_schema["additionalProperties"] is False
    value = {"x": 1, "extra": 5} if annotation is not OpenOverForbidding else {"inner": {"x": 1}, "extra": 5}
    checked = schema.check({"a": value})["a"]
    assert (checked if isinstance(checked, dict) else checked.model_dump())["extra"] == 5
    assert accepts(schema, '{"x": 1, "y": "2"}') is (annotation in (Open, object))


@pytest.mark.spec("G12")
@pytest.mark.parametrize("annotation", [OpenOverSilent, Open | Closed, list[Open | Ignoring]])
def test_beside_an_open_model_every_other_must_state_its_own(annotation: Any) -> None:
    with pytest.raises(DefinitionError, match=r"parameter 'a': beside a model with extra='allow'"):
        of(annotation)


def test_fields_and_defaults_that_look_like_a_schema_are_left_alone() -> None:
    looks = {"properties": {"a": {"title": "A"}}, "required": ["b", "a"], "additionalProperties": True}
    like_a_schema = Annotated[Mapping[str, Any], Field(default=looks, examples=[looks])]
    fields: Any = {"properties": like_a_schema, "required": int, "additionalProperties": Closed, "title": str}
    schema = schema_of_fields("do", fields).json_schema
    assert schema["properties"].keys() == fields.keys()
    assert schema["properties"]["properties"]["default"] == looks
    assert schema["properties"]["properties"]["examples"] == [looks]
    assert schema["required"] == ["additionalProperties", "required", "title"]


class Required(BaseModel):
    kind: Literal["required"]
    z: int
    b: int


class Properties(BaseModel):
    kind: Literal["properties"]


def test_tags_that_look_like_keywords_are_tags() -> None:
    schema = of(Annotated[Required | Properties, Field(discriminator="kind")])
    assert schema.json_schema["properties"]["a"]["discriminator"]["mapping"] == {
        "properties": "#/$defs/Properties",
        "required": "#/$defs/Required",
    }
    assert schema.json_schema["$defs"]["Required"]["required"] == ["b", "kind", "z"]
    assert schema.check_json(b'{"a": {"kind": "properties"}}') == {"a": Properties(kind="properties")}


@pytest.mark.spec("G11")
@pytest.mark.parametrize(
    ("annotation", "default", "change"),
    [
        (list[int], [1], lambda value: value.append(2)),
        (dict[str, list[int]], {"k": [1]}, lambda value: value["k"].append(2)),
        (object, {"k": [1]}, lambda value: value["k"].append(2)),
        (tuple[list[int], ...], ([1],), lambda value: value[0].append(2)),
        (Closed, Closed(x=1, tags=["t"]), lambda value: value.tags.append("more")),
    ],
)
def test_a_default_is_filled_in_anew_for_each_call(annotation: Any, default: Any, change: Any) -> None:
    schema = with_default(annotation, default)
    before, arguments = repr(default), {"b": 1}
    for check in (lambda: schema.check_json(b'{"b": 1}'), lambda: schema.check(arguments)) * 2:
        value = check()["a"]
        assert repr(value) == before
        change(value)
    assert (repr(default), arguments) == (before, {"b": 1})


def test_what_comes_out_as_json() -> None:
    schema = schema_of("it", dict[str, float | datetime], "serialization")
    value = schema.check({"a": 1.5, "when": datetime(2024, 1, 1, tzinfo=UTC)})
    assert schema.jsonable(value) == {"a": 1.5, "when": "2024-01-01T00:00:00Z"}
    for number in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match="no NaN and no infinities"):
            schema.jsonable({"a": 1.5, "number": number})
    with pytest.raises(ValueError, match=r"(?s)expected|serializ"):
        schema_of("it", int, "serialization").jsonable("not an integer")


@pytest.mark.parametrize(
    "text", [b"", b"{", b"NaN", b"1e999", b'{"a": [-1e999]}', b'"\\ud800"', b"\xff", b"[" * 100_000, b"9" * 5000]
)
def test_a_record_can_be_made_of_any_bytes(text: bytes) -> None:
    assert json.dumps(plain_json(text), allow_nan=False).encode()


@pytest.mark.parametrize("annotation", [int, str | None, bool | float])
def test_scalars_are_known(annotation: Any) -> None:
    assert schema_of_fields("do", {"a": annotation, "b": int}).only_scalars


@pytest.mark.parametrize("annotation", [list[int], dict[str, int] | None, Closed, object, tuple[list[int], ...]])
def test_what_a_handler_could_change_is_not_taken_for_a_scalar(annotation: Any) -> None:
    assert not schema_of_fields("do", {"a": annotation, "b": int}).only_scalars


@pytest.mark.parametrize(
    ("annotation", "exact"), [(int, True), (bool, True), (None, True), (float, False), (str, False), (Closed, False)]
)
def test_whose_values_are_their_own_json_is_known(annotation: Any, exact: bool) -> None:
    assert schema_of("it", annotation, "serialization").is_exact is exact


SCALARS = st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]))


@settings(deadline=None)
@given(st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner)))
def test_plain_data_stays_as_it_is(document: Any) -> None:
    assert plain(document) == document
    assert plain_json(json.dumps(document).encode()) == document
