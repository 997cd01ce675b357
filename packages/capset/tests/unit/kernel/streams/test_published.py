"""What a processor emits fits the outbound that it publishes: its events and its replies (spec 4, G38)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict

from capset import Message, Progress, Reply, tool
from capset.definitions.tools.definition import AnyTool, Tool
from tests.helpers.kernel.support import ask, desk

pytestmark = pytest.mark.spec("G38")


class Do(BaseModel):
    """Do it."""

    kind: Literal["command"] = "command"
    type: Literal["Work.Do"] = "Work.Do"
    data: dict[str, int]


class Step(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)
    step_number: int
    took: Annotated[timedelta, PlainSerializer(timedelta.total_seconds, return_type=float)]


class Stepped(BaseModel):
    """One more."""

    kind: Literal["event"] = "event"
    type: Literal["Work.Stepped"] = "Work.Stepped"
    data: Step


class Cost(BaseModel):
    """What it costs, in euros."""

    kind: Literal["event"] = "event"
    type: Literal["Work.Cost"] = "Work.Cost"
    data: Annotated[int, PlainSerializer(lambda cents: f"{cents / 100:.2f}", return_type=str)]


class Waited(BaseModel):
    """How long it waited, by a config of the message's own."""

    model_config = ConfigDict(ser_json_temporal="seconds")
    kind: Literal["event"] = "event"
    type: Literal["Work.Waited"] = "Work.Waited"
    data: timedelta


class Share(BaseModel):
    """How much is done."""

    kind: Literal["event"] = "event"
    type: Literal["Work.Share"] = "Work.Share"
    data: int = Field(ge=0, le=100)


class Short(TypedDict):
    x: Annotated[int, Field(serialization_alias="short")]


class Long(TypedDict):
    x: Annotated[int, PlainSerializer(str, return_type=str)]


class Brief(BaseModel):
    """In short."""

    kind: Literal["reply"] = "reply"
    type: Literal["Work.Brief"] = "Work.Brief"
    data: Short


class Whole(BaseModel):
    """At length."""

    kind: Literal["reply"] = "reply"
    type: Literal["Work.Whole"] = "Work.Whole"
    data: Long


STEP = Stepped(data=Step(step_number=1, took=timedelta(seconds=2)))
NOTED: dict[str, Any] = {
    "type": "object",
    "description": "A note.",
    "properties": {"kind": {"const": "event"}, "type": {"const": "Work.Noted"}, "data": {"type": "string"}},
}


def emitting(*messages: BaseModel | Message, outbound: Any) -> AnyTool:
    async def process(inbound: Any, emit: Any, ctx: object) -> None:
        async for _ in inbound:
            for message in messages:
                await emit(message)

    return Tool.from_processor(inbound=Do, outbound=outbound, factory=lambda: process, description="Work.", name="work")


async def emissions(work: AnyTool, arguments: Mapping[str, Any]) -> list[Message]:
    async with desk(work) as opened:
        return await ask(opened.session, work.name, arguments)


EMITTED: dict[str, tuple[list[Any], Any, list[Any]]] = {
    "aliases and a serializer": ([STEP], Stepped, [{"stepNumber": 1, "took": 2.0}]),
    "a serializer of the message's field": ([Cost(data=150)], Cost, ["1.50"]),
    "beside a JSON Schema": ([STEP, Message("event", "Work.Noted", "x")], [Stepped, NOTED],
                             [{"stepNumber": 1, "took": 2.0}, "x"]),
    "the first of two replies": ([Brief(data={"x": 1})], Brief | Whole, [{"short": 1}]),
    "the second of two replies": ([Whole(data={"x": 1})], Brief | Whole, [{"x": "1"}]),
    "two replies, one of them JSON Schema": (
        [Whole(data={"x": 1})],
        [Whole, {**NOTED, "properties": {**NOTED["properties"], "kind": {"const": "reply"}}}],
        [{"x": "1"}],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("emitted", "outbound", "expected"), EMITTED.values(), ids=EMITTED)
async def test_what_is_emitted_fits_the_outbound(emitted: list[Any], outbound: Any, expected: list[Any]) -> None:
    work = emitting(*emitted, outbound=outbound)
    messages = await emissions(work, {"data": {"x": 1}})
    assert [message.data for message in messages] == expected
    for message in messages:
        assert_fits(work.outbound, {"kind": message.kind, "type": message.type, "data": message.data})
        if message.kind == "reply":
            assert_fits(work.output.json_schema, message.data)


@pytest.mark.parametrize(
    ("emission", "outbound"),
    [(Message("event", "Work.Share", 101), Share), (Waited(data=timedelta(seconds=1)), Waited)],
    ids=["a bound of the message's field", "a config of the message's own"],
)
async def test_what_only_the_message_says_of_its_data_holds_too(emission: Any, outbound: Any) -> None:
    (error,) = await emissions(emitting(emission, outbound=outbound), {"data": {"x": 1}})
    assert (error.kind, error.data["code"]) == ("error", "invalid_output")
    assert "does not fit its schema" in error.data["message"]


async def test_so_does_the_reply_of_a_function_that_streams() -> None:
    @tool(effect="read")
    async def work() -> AsyncIterator[Progress | Reply[list[Step]]]:
        """Work."""
        yield Progress(0.5)
        yield Reply([STEP.data])

    event, reply = await emissions(work, {})
    assert reply.data == [{"stepNumber": 1, "took": 2.0}]
    for message in (event, reply):
        assert_fits(work.outbound, {"kind": message.kind, "type": message.type, "data": message.data})


def assert_fits(schema: Mapping[str, Any], data: Any) -> None:
    """Check JSON data by another validator than the one that capset has."""
    errors = [error.message for error in Draft202012Validator(schema).iter_errors(data)]
    assert not errors, (schema, data)
