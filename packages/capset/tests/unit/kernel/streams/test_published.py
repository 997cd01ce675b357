"""What a processor emits fits the outbound that it publishes: its events and its replies (spec 4, G38)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, create_model
from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict

from capset import Message, Progress, Reply, handles, tool
from capset.definitions.tools.definition import AnyTool, Tool
from tests.helpers.kernel.support import ask, desk

pytestmark = pytest.mark.spec("G38")


def model(name: str, kind: str, data: Any, **config: Any) -> type[BaseModel]:
    """Return the model of a message ``Work.NAME``."""
    literal: Any = Literal[f"Work.{name}"]
    fields: dict[str, Any] = {"kind": (Literal[kind], kind), "type": (literal, f"Work.{name}"), "data": data}
    return create_model(name, __doc__=f"{name}.", __config__=ConfigDict(**config), **fields)


class Step(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)
    step_number: int
    took: Annotated[timedelta, PlainSerializer(timedelta.total_seconds, return_type=float)]


class Short(TypedDict):
    x: Annotated[int, Field(serialization_alias="short")]


class Long(TypedDict):
    x: Annotated[int, PlainSerializer(str, return_type=str)]


Do = model("Do", "command", (dict[str, int], ...))
Stepped = model("Stepped", "event", (Step, ...))
Cost = model("Cost", "event", (Annotated[int, PlainSerializer(lambda n: f"{n / 100:.2f}", return_type=str)], ...))
Waited = model("Waited", "event", (timedelta, ...), ser_json_temporal="seconds")
Share = model("Share", "event", (int, Field(ge=0, le=100)))
Brief, Whole = model("Brief", "reply", (Short, ...)), model("Whole", "reply", (Long, ...))
STEP = Step(step_number=1, took=timedelta(seconds=2))
NOTED: dict[str, Any] = {
    "type": "object",
    "description": "A note.",
    "properties": {"kind": {"const": "event"}, "type": {"const": "Work.Noted"}, "data": {"type": "string"}},
}


def emitting(*messages: BaseModel | Message, outbound: Any) -> AnyTool:
    async def handle(inbound: Any, emit: Any, ctx: object) -> None:
        for message in messages:
            await emit(message)

    factory = handles(handle)
    return Tool.from_processor(inbound=Do, outbound=outbound, factory=factory, description="Work.", name="work")


async def emissions(work: AnyTool, arguments: Mapping[str, Any]) -> list[Message]:
    """Return what a tool emits, all of which fits its outbound by another validator than the one that capset has."""
    async with desk(work) as opened:
        messages = await ask(opened.session, work.name, arguments)
    for message in messages:
        if message.kind != "error":
            emission = {"kind": message.kind, "type": message.type, "data": message.data}
            assert not list(Draft202012Validator(work.outbound).iter_errors(emission)), emission
    return messages


NOTE = Message("event", "Work.Noted", "x")
STEP_DATA = {"stepNumber": 1, "took": 2.0}
NOTED_REPLY = {**NOTED, "properties": {**NOTED["properties"], "kind": {"const": "reply"}}}
EMITTED: dict[str, tuple[list[Any], Any, list[Any]]] = {
    "aliases and a serializer": ([Stepped(data=STEP)], Stepped, [STEP_DATA]),
    "a serializer of the message's field": ([Cost(data=150)], Cost, ["1.50"]),
    "beside a JSON Schema": ([Stepped(data=STEP), NOTE], [Stepped, NOTED], [STEP_DATA, "x"]),
    "the first of two replies": ([Brief(data={"x": 1})], Brief | Whole, [{"short": 1}]),
    "the second of two replies": ([Whole(data={"x": 1})], Brief | Whole, [{"x": "1"}]),
    "two replies, one of them JSON Schema": ([Whole(data={"x": 1})], [Whole, NOTED_REPLY], [{"x": "1"}]),
}


@pytest.mark.parametrize(("emitted", "outbound", "expected"), EMITTED.values(), ids=EMITTED)
async def test_what_is_emitted_fits_the_outbound(emitted: list[Any], outbound: Any, expected: list[Any]) -> None:
    work = emitting(*emitted, outbound=outbound)
    messages = await emissions(work, {"data": {"x": 1}})
    assert [message.data for message in messages] == expected
    for message in messages:
        if message.kind == "reply":
            assert not list(Draft202012Validator(work.output.json_schema).iter_errors(message.data))


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
        yield Reply([STEP])

    _, reply = await emissions(work, {})
    assert reply.data == [STEP_DATA]
