"""Room for open connections: how many one owner has, and for how long one stays open that nothing uses (M26)."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from mcp.server.mcpserver import MCPServer

from capset.errors import TransientError
from capset_connect.mcp import McpServer
from capset_connect.mcp.connection import McpConnection
from capset_connect.mcp.rooms import Room
from tests.helpers.connect.mcp.opening import NONE
from tests.helpers.connect.mcp.urls import There, serving
from tests.waiting import until


def app(waiting: asyncio.Event, going_on: asyncio.Event) -> MCPServer:
    server = MCPServer("books")

    @server.tool(structured_output=False)
    def title() -> str:
        return "Emma"

    @server.tool(structured_output=False)
    async def wait() -> str:
        waiting.set()
        await going_on.wait()
        return "done"

    return server


def connection(upstream: There, room: Room, name: str = "books") -> McpConnection:
    return McpConnection(McpServer(name=name, url=upstream.url, internal=[upstream.host]), NONE, room)


async def title_of(client: McpConnection) -> str:
    return (await client.call("title", {}, None)).content[0]["text"]


@pytest.mark.spec("M26")
async def test_one_that_is_not_used_is_closed_and_made_again_when_it_is_needed() -> None:
    room = Room("acme", idle_seconds=0.05)
    async with (
        serving(app(asyncio.Event(), asyncio.Event()).streamable_http_app()) as upstream,
        connection(upstream, room) as client,
    ):
        assert await title_of(client) == "Emma"
        assert len(room) == 1
        await until(lambda: len(room) == 0)
        assert await title_of(client) == "Emma"


@pytest.mark.spec("M26")
async def test_one_that_is_in_use_is_not_closed_as_idle() -> None:
    room, waiting, going_on = Room("acme", idle_seconds=0.02), asyncio.Event(), asyncio.Event()
    async with (
        serving(app(waiting, going_on).streamable_http_app()) as upstream,
        connection(upstream, room) as first,
        connection(upstream, room, "other") as later,
    ):
        calling = asyncio.create_task(first.call("wait", {}, None))
        await waiting.wait()
        assert await title_of(later) == "Emma"
        assert len(room) == 2
        await until(lambda: len(room) == 1)  # the later one, after as long
        going_on.set()
        assert (await calling).content[0]["text"] == "done"


@pytest.mark.spec("M26", "T45")
async def test_a_new_one_takes_the_room_of_one_that_is_idle_and_waits_for_none_that_is_not() -> None:
    room, waiting, going_on = Room("The organisation 'acme'", most=1), asyncio.Event(), asyncio.Event()
    async with (
        serving(app(waiting, going_on).streamable_http_app()) as upstream,
        connection(upstream, room, "one") as first,
        connection(upstream, room, "other") as other,
    ):
        assert await title_of(first) == "Emma"
        assert await title_of(other) == "Emma"
        assert len(room) == 1
        calling = asyncio.create_task(first.call("wait", {}, None))
        await waiting.wait()
        with pytest.raises(TransientError, match="The organisation 'acme' has 1 connections") as raised:
            await title_of(other)
        assert raised.value.code == "too_many_connections"
        async with connection(upstream, Room("another"), "other") as elsewhere:
            assert await title_of(elsewhere) == "Emma", "others have room of their own"
        going_on.set()
        assert (await calling).content[0]["text"] == "done"


@pytest.mark.spec("M26")
async def test_nothing_keeps_one_that_nobody_has_any_more() -> None:
    room = Room("acme", idle_seconds=0.02)
    async with serving(app(asyncio.Event(), asyncio.Event()).streamable_http_app()) as upstream:
        client = connection(upstream, room)
        assert await title_of(client) == "Emma"
        gone = weakref.ref(client)
        del client
        await until(lambda: gc.collect() >= 0 and gone() is None)
