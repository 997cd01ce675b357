from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, computed_field, create_model, field_serializer
from typing_extensions import TypedDict

from capset import DefinitionError
from tests.helpers.definitions.tools.processors import Answer, Said, Say, message, processor

OPEN = create_model("Open", __config__=ConfigDict(extra="allow"), x=(int, 1))
RENAMED = create_model("Renamed", x=Annotated[int, Field(alias="X")])
NUMBERS = create_model("Numbers", x=(int, 1))


class Needed(TypedDict):
    x: int


def json_schema(**properties: Any) -> dict[str, Any]:
    defaults = {"kind": {"const": "query"}, "type": {"const": "Some.Thing"}}
    members = {name: schema for name, schema in (defaults | properties).items() if schema is not None}
    return {"type": "object", "description": "Some message.", "properties": members}


OBJECT: dict[str, Any] = {"type": "object", "properties": {"x": {}}}
ROUTED = "must be one literal text, by which it is routed; got"
INBOUND = {
    "a property that is not there": (json_schema(data={**OBJECT, "required": ["y"]}), "'y' is required, but is not"),
    "a default of an object": (json_schema(data={**OBJECT, "default": {"x": 1}}), "a default as a whole would never"),
    "no type": (message(type=str), rf"its inbound, Some: its type {ROUTED} \[\]"),
    "two types": (message(type=Literal["A", "B"]), rf"its type {ROUTED} \['A', 'B'\]"),
    "a type that is no text": (message(type=Literal[1]), rf"its type {ROUTED} \[1\]"),
    "no kind": (message(kind=str), rf"its kind {ROUTED} \[\]"),
    "a kind of the outbound": (message(kind=Literal["event"]), "its kind must be command or query; got 'event'"),
    "a type that is none": (message(type=Literal["two words"]), "its type must match .*; got 'two words'"),
    "no description": (message(doc=None), r"needs a description \(a docstring\): the model chooses the tool by it"),
    "another field": (message(urgent=bool), "a message has only kind, type and data; put 'urgent' into data"),
    "no model": (int, "its inbound must be a pydantic model or a JSON Schema; got <class 'int'>"),
    "data that is open": (message(OPEN), "Open allows extra fields; a tool's arguments are all named"),
    "data with an alias": (message(RENAMED), r"Renamed\.x has an alias; an argument has one name"),
    "data with another default": (message(NUMBERS, default=NUMBERS(x=2)), "its default as a whole differs"),
    "data with a default too many": (message(Needed, default={"x": 1}), "its default as a whole differs"),
    "a JSON Schema without a type": (json_schema(type=None), rf"its inbound: its type {ROUTED} \[\]"),
    "a JSON Schema of two kinds": (json_schema(kind={"enum": ["A", "B"]}), rf"its kind {ROUTED} \['A', 'B'\]"),
    "a JSON Schema with more": (json_schema(meta={}), "put 'meta' into data"),
    "a JSON Schema whose data is none": (json_schema(data=[1]), "its inbound: not a valid JSON Schema: properties.d"),
    "a JSON Schema of no properties": ({**json_schema(), "properties": [1]}, "not a valid JSON Schema: properties"),
    "a JSON Schema without words": ({**json_schema(), "description": ""}, "needs a description"),
}


@pytest.mark.spec("K4", "K5")
@pytest.mark.parametrize(("inbound", "pattern"), INBOUND.values(), ids=INBOUND)
def test_an_inbound_that_is_none_is_refused(inbound: Any, pattern: str) -> None:
    with pytest.raises(DefinitionError, match=pattern) as caught:
        processor(inbound=inbound, name="odd", outbound=Answer)
    assert caught.value.message.startswith("tool 'odd'")


class Shouted(BaseModel):
    """It was shouted."""

    kind: Literal["event"] = "event"
    type: Literal["Chat.Shouted"] = "Chat.Shouted"
    data: str

    @field_serializer("data")
    def loudly(self, data: str) -> str:
        return data.upper()


class Counted(BaseModel):
    """It was counted."""

    kind: Literal["event"] = "event"
    type: Literal["Chat.Counted"] = "Chat.Counted"

    @computed_field
    @property
    def count(self) -> int:
        return 1


def said(**field: Any) -> Any:
    return create_model("Said", __base__=Said, data=(str, Field(**field)), __doc__="It was said.")


EVENT: Any = Literal["event"]
REPLY: Any = Literal["reply"]
OUTBOUND = {
    "nothing": ([], "must be at least one reply or event"),
    "a command": (Say, "its outbound, Say: its kind must be reply or event; got 'command'"),
    "one of a union": (Said | Say, "its kind must be reply or event; got 'command'"),
    "two events of a type": ([Said, message(kind=EVENT, type=Literal["Chat.Said"])], "two messages of the kind event"),
    "two replies of a type": (Answer | message(kind=REPLY, type=Literal["Chat.Say"]), "have the type 'Chat.Say'"),
    "without a type": (message(kind=REPLY, type=str), rf"its type {ROUTED}"),
    "without a description": (message(kind=REPLY, doc=None), "needs a description"),
    "a text": ("Answer", "must be a pydantic model or a JSON Schema; got 'Answer'"),
    "a union of no list": ({"anyOf": 5}, "its union must list the JSON Schemas of messages; got 5"),
    "a union of no schemas": ({"oneOf": [5]}, r"its union must list the JSON Schemas of messages; got \[5\]"),
    "a reference to nothing": ({"anyOf": [{"$ref": "#/$defs/Gone"}]}, "'#/\\$defs/Gone' points at nothing in its"),
}


@pytest.mark.spec("K4")
@pytest.mark.parametrize(("outbound", "pattern"), OUTBOUND.values(), ids=OUTBOUND)
def test_an_outbound_that_is_none_is_refused(outbound: Any, pattern: str) -> None:
    with pytest.raises(DefinitionError, match=pattern) as caught:
        processor(outbound=outbound, name="odd")
    assert caught.value.message.startswith("tool 'odd', its outbound")


RETYPED = message(kind=EVENT, type=Annotated[Literal["A"], PlainSerializer(len, return_type=int)])


@pytest.mark.spec("G38")
@pytest.mark.parametrize(
    "outbound", [said(serialization_alias="payload"), said(exclude=True), RETYPED, Shouted, Counted]
)
def test_a_message_that_would_be_published_otherwise_than_it_leaves_is_refused(outbound: Any) -> None:
    with pytest.raises(DefinitionError, match=f"{outbound.__name__} changes how the message is written") as caught:
        processor(outbound=[outbound, Answer], name="odd")
    assert caught.value.message.startswith("tool 'odd', its event '")


REST = {
    "a query that writes": ({"inbound": message(int), "effect": "write"}, "its inbound is a query, its effect 'write'"),
    "a command that reads": ({"effect": "read"}, "its inbound is a command, its effect 'read'"),
    "a factory that is none": ({"factory": None}, "its factory must be a function without parameters; got None"),
    "no description": ({"description": " "}, "needs a docstring"),
    "a name that is none": ({"name": "Chat.Say"}, r"the name of the processor of 'Chat\.Say' must match"),
    "a type too long for a name": ({"inbound": message(type=Literal["T" * 65])}, "the name of the processor of 'TTT"),
    "no object by the name of its type": ({"inbound": message(int, type=Literal["plain"])}, "its data is not an obj"),
    "a default that does not fit": ({"inbound": message(int, default="x")}, "'data': its default does not fit"),
    "a buffer below 0": ({"buffer": -1}, "buffer must be a number of messages, 0 or more; got -1"),
    "a buffer that is no number": ({"buffer": True}, "0 or more; got True"),
    "an example that does not fit": ({"examples": [{"data": 1}]}, "its example 1 does not fit its schema: data"),
}


@pytest.mark.spec("K4", "K5")
@pytest.mark.parametrize(("options", "pattern"), REST.values(), ids=REST)
def test_a_processor_that_contradicts_itself_is_refused(options: dict[str, Any], pattern: str) -> None:
    with pytest.raises(DefinitionError, match=pattern):
        processor(**options)
