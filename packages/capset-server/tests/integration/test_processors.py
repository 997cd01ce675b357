"""Processor tools through every door over HTTP: their events on the way, and the reply or the error that ends them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx2
import pytest
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from pydantic import BaseModel

from capset import Capability, Context, Emit, Message, Tool, handles
from capset.errors import ToolError
from capset_server.client import Client
from tests.helpers.server.support import Site, call, make_agent, make_session, site
from tests.waiting import until

CLEANED: list[str] = []


class Order(BaseModel):
    cups: int
    ends: Literal["reply", "error", "crash", "silence"] = "reply"


class Brew(BaseModel):
    """Brew so many cups."""

    kind: Literal["command"] = "command"
    type: Literal["Bar.Brew"] = "Bar.Brew"
    data: Order


class Far(BaseModel):
    fraction: float
    message: str


class Along(BaseModel):
    """How far it has come, or what else there is to say of it."""

    kind: Literal["event"] = "event"
    type: Literal["progress"] = "progress"
    data: Far | str


class Cup(BaseModel):
    """A cup is ready."""

    kind: Literal["event"] = "event"
    type: Literal["Bar.Cup"] = "Bar.Cup"
    data: dict[str, int]


class Brewed(BaseModel):
    """All are ready."""

    kind: Literal["reply"] = "reply"
    type: Literal["Bar.Brewed"] = "Bar.Brewed"
    data: list[int]


async def brew(message: Brew, emit: Emit, ctx: Context) -> None:
    try:
        await emit(Along(data="warming up"))
        for number in range(message.data.cups):
            await emit(Along(data=Far(fraction=number / message.data.cups, message=f"cup {number}")))
            await emit(Cup(data={"cup": number}))
        match message.data.ends:
            case "reply":
                await emit(Brewed(data=list(range(message.data.cups))))
            case "error":
                await emit(Message("error", "Bar.Brew", {"code": "no_beans", "status": 409, "message": "No beans."}))
            case "crash":
                raise RuntimeError("the password is hunter2")
            case "silence":
                pass
    finally:
        CLEANED.append("cleaned")


class Say(BaseModel):
    """Say something."""

    kind: Literal["query"] = "query"
    type: Literal["Bar.Say"] = "Bar.Say"
    data: str


class Said(BaseModel):
    """It was said."""

    kind: Literal["reply"] = "reply"
    type: Literal["Bar.Said"] = "Bar.Said"
    data: str


async def say(message: Say, emit: Emit, ctx: Context) -> None:
    await emit(Said(data=message.data))


BAR = Capability(
    "bar",
    tools=[
        Tool.from_processor(
            inbound=Brew, outbound=Along | Cup | Brewed, factory=handles(brew), description="Brew.", name="brew"
        ),
        Tool.from_processor(inbound=Say, outbound=Said, factory=handles(say), description="Say.", name="say"),
    ],
)
EVENTS = [
    ("progress", "warming up"),
    ("progress", {"fraction": 0.0, "message": "cup 0"}),
    ("Bar.Cup", {"cup": 0}),
    ("progress", {"fraction": 0.5, "message": "cup 1"}),
    ("Bar.Cup", {"cup": 1}),
]


@pytest.fixture
async def bar() -> AsyncGenerator[Site]:
    CLEANED.clear()
    async with site(BAR) as server:
        yield server


@asynccontextmanager
async def mcp_client(server: Site, agent: str) -> AsyncGenerator[McpClient]:
    headers = {"Authorization": f"Bearer {server.keys['ada']}"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False) as http,
        McpClient(streamable_http_client(f"{server.url}/mcp/agents/{agent}", http_client=http)) as client,
    ):
        yield client


@pytest.mark.spec("K4", "P9")
@pytest.mark.parametrize("name", ["brew", "bar.brew", "Bar.Brew"])
async def test_as_json_there_is_the_reply(name: str, bar: Site) -> None:
    async with bar.client() as client:
        session = await make_session(client, "bar")
        answer = await call(client, session, name, cups=2)
        assert (answer.status_code, answer.json()["data"]) == (200, [0, 1])
        assert (await call(client, session, "say", data="x")).json()["data"] == "x"
        refused = await call(client, session, name, cups="two")
        assert (refused.status_code, [field["path"] for field in refused.json()["error"]["fields"]]) == (422, ["cups"])
    assert CLEANED == ["cleaned"]
    record = await bar.record(tool="brew", outcome="succeeded")
    assert json.loads(record.arguments) == {"cups": 2, "ends": "reply"}


@pytest.mark.spec("K3", "K11", "P9")
async def test_as_a_stream_there_is_every_event_in_its_order_and_then_the_result(bar: Site) -> None:
    async with bar.client(headers={"Accept": "text/event-stream", "X-Correlation-Id": "c"}) as client:
        session = await make_session(client, "bar")
        text = (await call(client, session, "Bar.Brew", cups=2)).text
    *events, last = text.rstrip("\n").split("\n\n")
    messages = [json.loads(line.removeprefix("data: ")) for line in events]
    assert [(message["type"], message["data"]) for message in messages] == EVENTS
    assert {(message["kind"], message["meta"]["correlation"]) for message in messages} == {("event", "c")}
    assert len({message["meta"]["id"] for message in messages}) == len(messages)
    assert json.loads(last.removeprefix("event: result\ndata: "))["data"] == [0, 1]


@pytest.mark.spec("K10")
async def test_the_typed_client_reads_events_and_outcomes(bar: Site) -> None:
    async with bar.client() as http:
        session = await make_session(http, "bar")
    async with Client(bar.url, key=bar.keys["ada"]) as client:
        async with client.stream(session, "brew", {"cups": 2}) as events:
            assert [(event.type, event.data) async for event in events] == EVENTS
        assert events.result.data == [0, 1]
        async with client.stream(session, "brew", {"cups": 1, "ends": "error"}) as events:
            assert len([event async for event in events]) == 3
        assert events.result.error is not None
        assert (events.result.error.code, events.result.error.status) == ("no_beans", 409)
        crashed = await client.call(session, "brew", {"cups": 0, "ends": "crash"})
        assert crashed.error is not None
        assert crashed.error.code == "internal_error"
        assert "hunter2" not in crashed.error.message
        silent = await client.call(session, "brew", {"cups": 0, "ends": "silence"})
        assert (silent.success, silent.data) == (True, None)


@pytest.mark.spec("K15")
async def test_a_client_who_leaves_cancels_the_processor(bar: Site) -> None:
    async with bar.client() as http:
        session = await make_session(http, "bar")
    async with (
        Client(bar.url, key=bar.keys["ada"]) as client,
        client.stream(session, "brew", {"cups": 1_000_000}) as events,
    ):
        assert (await anext(events)).data == "warming up"
    await until(lambda: CLEANED)
    assert (await bar.record(tool="brew")).outcome == "cancelled"


@pytest.mark.spec("K4")
async def test_over_mcp_progress_is_told_and_the_reply_is_the_result(bar: Site) -> None:
    updates: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        updates.append((progress, total, message))

    async with bar.client() as http:
        agent = await make_agent(http, "bar")
    async with mcp_client(bar, agent["id"]) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert sorted(tools) == ["brew", "say"]
        assert tools["brew"].input_schema["required"] == ["cups"]
        result = await client.call_tool("brew", {"cups": 2}, progress_callback=on_progress)
        assert (result.is_error, result.structured_content) == (False, {"result": [0, 1]})
        assert updates == [(0.0, 1.0, "cup 0"), (0.5, 1.0, "cup 1")], "what has no fraction is no progress"
        assert (await client.call_tool("say", {"data": "x"})).structured_content == {"result": "x"}
        silent: Any = await client.call_tool("brew", {"cups": 0, "ends": "silence"})
        assert (silent.is_error, silent.structured_content, silent.content) == (False, {}, [])
        failed = await client.call_tool("brew", {"cups": 0, "ends": "error"})
        assert failed.is_error
        assert failed.meta is not None
        assert failed.meta["dev.capset/error"]["code"] == "no_beans"


async def test_the_same_error_can_be_raised(bar: Site) -> None:
    async def raising(message: Say, emit: Emit, ctx: Context) -> None:
        raise ToolError("No beans.", code="no_beans", status=409)

    tool = Tool.from_processor(
        inbound=Say, outbound=Said, factory=handles(raising), description="Raise.", name="raising"
    )
    async with site(Capability("raises", tools=[tool])) as server, server.client() as client:
        session = await make_session(client, "raises")
        error = (await call(client, session, "raising", data="x")).json()["error"]
        assert (error["code"], error["status"], error["message"]) == ("no_beans", 409, "No beans.")
