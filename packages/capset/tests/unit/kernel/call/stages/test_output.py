"""What a handler gives: it fits the schema or the call failed, and it leaves as JSON data (spec 3, K9; spec 4, G26)."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict

from capset import Progress, Reply, Tool, tool
from capset.errors import InvalidOutput
from tests.helpers.kernel.support import ask, desk


class Inner(BaseModel):
    when: datetime
    tags: set[str]


class Outer(BaseModel):
    inner: Inner
    many: list[Inner]


class Sized(BaseModel):
    size: float


class Typed(TypedDict):
    count: int


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)
    first_name: str
    age: int = Field(default=1, ge=0)


class Level(IntEnum):
    LOW = 1


OLDER = Camel(first_name="Ada")
OLDER.age = -1


def giving(value: object, kind: Any, effect: Any = "read") -> Tool[[], Any]:
    async def give():  # the annotation is set below
        return value

    give.__annotations__["return"] = kind
    return tool(name="give", effect=effect, description="Give.")(give)


INNER = Inner(when=datetime(2026, 1, 1, tzinfo=UTC), tags={"a"})
INNER_DATA = {"when": "2026-01-01T00:00:00Z", "tags": ["a"]}
FITS: dict[str, tuple[Any, Any, Any]] = {
    "an integer": (int, 5, 5),
    "a huge integer": (int, 2**80, 2**80),
    "a boolean": (bool, True, True),
    "nothing": (type(None), None, None),
    "text": (str, "Grüße 🌍", "Grüße 🌍"),
    "a tuple": (tuple[int, str], (1, "a"), [1, "a"]),
    "a set": (set[int], {1}, [1]),
    "a moment": (datetime, INNER.when, "2026-01-01T00:00:00Z"),
    "a decimal": (Decimal, Decimal("1.10"), "1.10"),
    "bytes that are text": (bytes, b"abc", "abc"),
    "keys that are numbers": (dict[int, int], {1: 2}, {"1": 2}),
    "a model in a model": (Outer, Outer(inner=INNER, many=[INNER]), {"inner": INNER_DATA, "many": [INNER_DATA]}),
    "a model inside anything": (object, [INNER], [INNER_DATA]),
    "a typed dict": (Typed, {"count": 1}, {"count": 1}),
    "aliases": (Camel, Camel(first_name="Ada"), {"firstName": "Ada", "age": 1}),
    "an integer that stands for a text": (Annotated[str, PlainSerializer(len, return_type=int)], "four", 4),
    "a member of an enumeration": (Level, Level.LOW, 1),
}


@pytest.mark.spec("K9", "G26")
@pytest.mark.parametrize("case", FITS)
async def test_in_process_it_is_the_python_value_and_in_messages_plain_json(case: str) -> None:
    kind, value, data = FITS[case]
    give = giving(value, kind)
    async with desk(give) as opened:
        result = await opened.session.call(give)
        assert type(result) is type(value)
        assert repr(result) == repr(value)
        (reply,) = await ask(opened.session, "give")
        assert (reply.kind, reply.data) == ("reply", data)
        assert type(reply.data) is type(data)
        json.dumps(reply.data, allow_nan=False).encode()
        assert {record.outcome for record in await opened.records()} == {"succeeded"}


CYCLE: list[object] = []
CYCLE.append(CYCLE)
deep: list[object] = []
for _ in range(2_000):
    deep = [deep]
BREAKS: dict[str, tuple[Any, Any]] = {
    "text for a number": (int, "5"),
    "a boolean for a number": (int, True),
    "a float for an integer": (int, 5.0),
    "nothing for something": (int, None),
    "a list for a tuple": (tuple[int, str], [1, "a"]),
    "a dict that fits no model": (Inner, {"when": "2026-01-01T00:00:00Z", "tags": {"a"}}),
    "one wrong item": (list[int], [1, 2, "hunter2"]),
    "a missing key": (Typed, {}),
    "a lone surrogate": (str, "hunter2\ud800"),
    "a lone surrogate inside": (list[str], ["\udfff"]),
    "a lone surrogate inside anything": (object, {"a": "\ud800"}),
    "a lone surrogate as a key": (object, {"\ud800": 1}),
    "an object": (object, object()),
    "an object inside anything": (object, {"hunter2": [object()]}),
    "bytes that are no text": (bytes, b"\xff"),
    "an endless integer": (object, 10**5000),
    "an endless integer where one is due": (int, 10**5000),
    "NaN": (float, math.nan),
    "an infinity": (list[float], [1.5, -math.inf]),
    "NaN inside anything": (object, {"a": [math.nan]}),
    "an infinity in a model": (Sized, Sized(size=math.inf)),
    "what is too deep": (object, deep),
    "a cycle": (object, CYCLE),
    "a model that was changed after it was checked": (Camel, OLDER),
    "a text that a validator makes of an integer": (Annotated[int, AfterValidator(str)], 5),
    "an integer that a serializer gives for a text": (Annotated[int, PlainSerializer(int, return_type=str)], 5),
}


@pytest.mark.spec("K9", "G26")
@pytest.mark.parametrize("case", BREAKS)
@pytest.mark.parametrize("effect", ["read", "write"])
async def test_what_does_not_fit_or_is_no_json_fails_without_telling_its_content(case: str, effect: str) -> None:
    kind, value = BREAKS[case]
    give = giving(value, kind, effect)
    async with desk(give) as opened:
        with pytest.raises(InvalidOutput) as raised:
            await opened.session.call(give)
        assert (raised.value.status, raised.value.code) == (500, "invalid_output")
        (error,) = await ask(opened.session, "give")
        assert (error.kind, error.data["code"]) == ("error", "invalid_output")
        assert "hunter2" not in json.dumps(error.data) + str(raised.value)
        endings = {(record.outcome, record.code, record.decision) for record in await opened.records()}
        assert endings == {("failed", "invalid_output", "allow")}


@pytest.mark.spec("K9")
async def test_the_reply_of_a_stream_is_held_to_the_schema_too() -> None:
    @tool(effect="read")
    async def count() -> AsyncIterator[Progress | Reply[list[int]]]:
        """Count."""
        yield Progress(0.5)
        wrong: list[Any] = ["hunter2"]
        yield Reply(wrong)

    async with desk(count) as opened:
        event, error = await ask(opened.session, "count")
        assert (event.kind, error.kind, error.data["code"]) == ("event", "error", "invalid_output")
        assert error.data["message"] == "The tool 'count' returned a result that does not fit its schema: 0."


@pytest.mark.spec("G38")
async def test_the_place_that_does_not_fit_is_told_and_nothing_of_it(caplog: pytest.LogCaptureFixture) -> None:
    give = giving(OLDER, Camel)
    async with desk(give) as opened:
        (error,) = await ask(opened.session, "give")
    assert error.data["message"] == "The tool 'give' returned a result that does not fit its schema: age."
    (line,) = [log_record.getMessage() for log_record in caplog.records if log_record.name == "capset.kernel"]
    assert line.endswith("its result does not fit: age: Input should be at least 0")


async def test_later_changes_by_the_handler_do_not_reach_what_is_in_a_message() -> None:
    numbers: list[int] = []

    @tool(effect="read")
    async def give() -> list[int]:
        """Give."""
        return numbers

    async with desk(give) as opened:
        (reply,) = await ask(opened.session, "give")
        numbers.append(1)
        assert reply.data == []
