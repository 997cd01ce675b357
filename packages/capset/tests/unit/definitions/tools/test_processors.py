from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import date
from typing import Annotated, Any, Literal, NotRequired, cast

import pytest
from pydantic import BaseModel, Field, create_model
from typing_extensions import TypedDict

from capset import Agent, Context, DefinitionError, Emit, Json, Message, Session, Tool, handles, yields
from capset.fingerprint.hashes import tool_hash
from capset_testing import session_for
from tests.helpers.definitions.tools.processors import Answer, Said, Say, answer, message, processor


class Inner(BaseModel):
    day: date


class Model(BaseModel):
    inner: Inner
    count: Annotated[int, Field(ge=1, description="How many.")] = 1


class Typed(TypedDict):
    inner: Inner
    count: NotRequired[int]


@dataclass
class Data:
    inner: Inner
    count: int = 1


@asynccontextmanager
async def opened(*tools: Tool[..., Any]) -> AsyncGenerator[Session]:
    async with session_for(Agent("tester", tools=tools)) as desk:
        yield desk.session


REFUSED = ("error", "invalid_arguments")


async def last(session: Session, kind: Any, type: str, data: Any = None) -> Any:
    async with session.invoke(Message(kind, type, data)) as messages:
        (*_, reply) = [emitted async for emitted in messages]
    return reply.data if reply.kind == "reply" else (reply.kind, reply.data["code"])


@pytest.mark.spec("K4")
def test_descriptions_are_shown_word_for_word() -> None:
    definition = processor(description="Say it.\n\n  To *whom* you like — 日本. ")
    assert definition.description == "Say it.\n\n  To *whom* you like — 日本. "
    assert definition.inbound["description"] == "Say something."
    descriptions = {name: inner["description"] for name, inner in definition.outbound["$defs"].items()}
    assert descriptions == {"Said": "It was said.", "Answer": "What comes back."}


@pytest.mark.spec("K1", "K4", "K5")
def test_a_processor_is_named_routed_and_gated_by_what_it_takes() -> None:
    command = processor()
    assert (command.name, command.type, command.kind) == ("Chat_Say", "Chat.Say", "command")
    assert (command.effect, command.shape, command.parameters) == ("write", "processor", ("data",))
    query = processor(inbound=message(Model, type=Literal["Some:thing.else-1"]))
    assert (query.name, query.type, query.kind) == ("Some_thing_else-1", "Some:thing.else-1", "query")
    assert (query.effect, query.parameters) == ("read", ("inner", "count"))
    assert processor(name="say", effect="destructive").name == "say"
    assert processor(name="other", inbound=message(int, type=Literal["plain"])).type == "plain"


@pytest.mark.spec("K4")
@pytest.mark.parametrize("kind", [Model, Typed, Data])
async def test_fields_of_data_are_arguments_and_the_processor_gets_the_data(kind: Any) -> None:
    received: list[Any] = []

    async def look(incoming: Any, emit: Emit, ctx: Context) -> None:
        received.append(incoming)
        await emit(Message("reply", "Chat.Say", "seen"))

    definition = processor(inbound=(inbound := message(kind)), outbound=Answer, factory=handles(look))
    inner = Inner(day=date(2024, 2, 29))
    async with opened(definition) as session:
        assert await session.call(definition, inner=inner) == "seen"
        assert await session.call(definition, inner=inner, count=3) == "seen"
        text = b'{"inner": {"day": "2024-02-29"}, "count": 4}'
        assert await last(session, "query", "Some.Thing", Json(text)) == "seen"
        assert await last(session, "query", "Some_Thing", {"inner": inner, "count": 5}) == "seen"
        assert await last(session, "query", "Some.Thing", {"inner": {"day": 1}}) == REFUSED
        assert await last(session, "query", "Some.Thing", Json(b'{"more": 1}')) == REFUSED
    envelopes = {(type(incoming), incoming.kind, incoming.type) for incoming in received}
    assert envelopes == {(inbound, "query", "Some.Thing")}
    data = [incoming.data for incoming in received]
    assert [payload["inner"] if kind is Typed else payload.inner for payload in data] == [inner] * 4
    if kind is Typed:
        assert [payload.get("count") for payload in data] == [None, 3, 4, 5]
    else:
        assert {type(payload) for payload in data} == {kind}
        assert [payload.count for payload in data] == [1, 3, 4, 5]


@pytest.mark.spec("K4")
async def test_fields_of_data_are_arguments_where_a_json_schema_refers_to_it_too() -> None:
    definition = processor(inbound=message(Model).model_json_schema(), outbound=Answer)
    assert set(definition.parameters) == {"inner", "count"}
    async with opened(definition) as session:
        reply = await last(session, "query", "Some_Thing", {"inner": {"day": "2024-02-29"}})
        assert reply == "{'inner': {'day': '2024-02-29'}, 'count': 1}"
        assert await last(session, "query", "Some.Thing", {"more": 1}) == REFUSED


@pytest.mark.spec("K4")
async def test_data_that_is_no_object_is_one_argument() -> None:
    definition = processor(name="say", outbound=Answer)
    async with opened(definition) as session:
        assert await session.call(definition, data="hello") == "'hello'"
        assert await last(session, "command", "Chat.Say", "hello") == "'hello'"
        assert await last(session, "command", "Chat.Say", Json(b'"hello"')) == "'hello'"
        assert await last(session, "command", "say", {"data": "hello"}) == "'hello'"
        assert await last(session, "command", "say", Json(b'{"data": "hello"}')) == "'hello'"
        for wrong in (None, 1, {"data": "hello"}, Json(b"null"), Json(b'"a", "more": "b"'), Json(b"")):
            assert await last(session, "command", "Chat.Say", wrong) == REFUSED


@pytest.mark.spec("K4")
async def test_data_may_be_absent() -> None:
    definition = processor(inbound=message(), outbound=Answer)
    assert definition.parameters == ()
    async with opened(definition) as session:
        assert await session.call(definition) == "'nothing'"
        assert await last(session, "query", "Some.Thing") == "'nothing'"
        assert await last(session, "query", "Some_Thing", {}) == "'nothing'"
        assert await last(session, "query", "Some.Thing", {"x": 1}) == REFUSED


@pytest.mark.spec("K4")
async def test_what_a_field_says_of_data_that_is_no_object_is_kept() -> None:
    field = Field(3, description="How many.", ge=2)
    definition = processor(inbound=message(int | None, default=field), outbound=Answer)
    assert definition.arguments.json_schema["properties"]["data"] == {
        "anyOf": [{"minimum": 2, "type": "integer"}, {"type": "null"}],
        "default": 3,
        "description": "How many.",
    }
    async with opened(definition) as session:
        assert await last(session, "query", "Some.Thing") == "3"
        assert await session.call(definition) == "3"
        assert await last(session, "query", "Some.Thing", Json(b"null")) == "None"
        assert await last(session, "query", "Some.Thing", 1) == REFUSED


@pytest.mark.spec("K4", "K7")
async def test_every_style_is_a_processor() -> None:
    async def process(messages: AsyncIterator[Any], emit: Emit, ctx: Context) -> None:
        async for incoming in messages:
            await answer(incoming, emit, ctx)

    async def generate(incoming: Any, ctx: Context) -> AsyncIterator[BaseModel]:
        yield Said(data="first")
        yield Answer(data=repr(incoming.data))

    for factory in (lambda: process, handles(answer), yields(generate)):
        definition = processor(factory=factory)
        async with opened(definition) as session:
            assert await session.call(definition, data="hello") == "'hello'"


def hash_of(**options: Any) -> str:
    return tool_hash(processor(**options))


LOUD = create_model("Said", __base__=Said, __doc__="It was said loudly.")
COUNTED = create_model("Said", __base__=Said, __doc__="It was said.", data=(int, ...))
MOVING = {
    "the description": {"description": "Say it to all."},
    "the type": {
        "inbound": message(str, doc="Say something.", kind=Literal["command"], type=Literal["Chat.Tell"]),
        "name": "Chat_Say",
    },
    "the inbound's description": {"inbound": message(str, kind=Literal["command"], type=Literal["Chat.Say"])},
    "the kind": {"inbound": message(str, doc="Say something.", type=Literal["Chat.Say"])},
    "the data": {"inbound": message(int, doc="Say something.", kind=Literal["command"], type=Literal["Chat.Say"])},
    "an event's description": {"outbound": LOUD | Answer},
    "an event's data": {"outbound": COUNTED | Answer},
    "an event less": {"outbound": Answer},
    "a reply less": {"outbound": Said},
    "the name": {"name": "say"},
    "the effect": {"effect": "external"},
    "the cost": {"cost": 1},
    "an example": {"examples": [{"data": "x"}]},
    "permissions": {"permissions": {"chat:say"}},
}


@pytest.mark.spec("K4", "F3", "F13")
def test_whatever_is_shown_moves_the_hash() -> None:
    hashes = {label: hash_of(**options) for label, options in MOVING.items()} | {"nothing": hash_of()}
    assert len(set(hashes.values())) == len(hashes)


@pytest.mark.spec("K4", "F11")
def test_the_factory_the_buffer_and_the_timeout_do_not() -> None:
    assert {hash_of(), hash_of(factory=handles(lambda *_: None)), hash_of(buffer=5), hash_of(timeout=3)} == {hash_of()}  # pyright: ignore[reportArgumentType]


class PingClass: ...


def make_ping() -> Tool[..., Any]:
    return processor()


@pytest.mark.spec("K6")
@pytest.mark.parametrize(
    ("entry", "advice"),
    [
        (PingClass, "PingClass'> is not a Tool; neither a class .* Tool.from_processor.*, and put that constant here"),
        (Say, "Say'> is not a Tool; neither a class"),
        (make_ping, "is not a Tool; put @tool on the function; or if it makes a tool, call it once, at the top of a"),
        (answer, r"is not a Tool; put @tool on the function$"),
        (PingClass(), r"PingClass object .* is not a Tool; tools are made by @tool and Tool\.from_processor"),
        ("ping", "'ping' is not a Tool; tools are made by"),
    ],
)
def test_what_is_no_tool_is_refused_with_advice(entry: Any, advice: str) -> None:
    with pytest.raises(DefinitionError, match=f"agent 'tester': .*{advice}"):
        Agent("tester", tools=[entry])


@pytest.mark.spec("K4", "K6")
def test_a_processor_is_frozen_and_a_copy_keeps_its_contract() -> None:
    definition = processor()
    with pytest.raises(AttributeError):
        definition.description = "other"  # pyright: ignore[reportAttributeAccessIssue]  # that is the test
    assert replace(definition, version="2").contract is definition.contract


@pytest.mark.spec("K7")
def test_what_cannot_be_a_processor_is_refused_where_it_is_made() -> None:
    async def three(messages: Any, emit: Any, ctx: Any) -> None: ...
    async def two(message: Any, emit: Any) -> None: ...
    def sync(message: Any, emit: Any, ctx: Any) -> None: ...
    async def generator(message: Any, ctx: Any) -> AsyncIterator[Any]:
        yield message

    for wrong in (two, sync, generator, 7, None):
        with pytest.raises(DefinitionError, match=r"handles\(\) takes an async def handle\(message, emit, ctx\)"):
            handles(cast("Any", wrong))
    for wrong in (two, three, 7):
        with pytest.raises(DefinitionError, match=r"yields\(\) takes an async generator"):
            yields(cast("Any", wrong))
    for wrong in (three, two, handles):
        with pytest.raises(DefinitionError, match="a function without parameters"):
            Tool.from_processor(inbound=Say, outbound=Said, factory=cast("Any", wrong), description="Do it.")
    assert handles(three)
    assert yields(generator)


@pytest.mark.spec("K8")
async def test_a_message_may_be_an_instance_of_its_model_and_nothing_else_is_one() -> None:
    definition = processor()
    async with opened(definition) as session:
        async with session.invoke(Say(data="hello")) as messages:
            assert [(reply.kind, reply.data) async for reply in messages] == [("reply", "'hello'")]
        for wrong in ({"kind": "query"}, definition, None, Inner(day=date(2026, 1, 1))):
            with pytest.raises(DefinitionError, match="expected a message"):
                session.invoke(cast("Any", wrong))
        with pytest.raises(DefinitionError, match="must be text; got 7"):
            session.open(cast("Any", 7))
        async with session.open(definition) as room:
            await room.send(data="hello")
            assert (await anext(room)).kind == "reply"
