"""A request that its client gives up: the call ends, cleans up, and its record says so."""

from __future__ import annotations

import asyncio
import json

import pytest
from anyio import CancelScope
from mcp_types import CallToolRequestParams

from capset_server.mcp.exchanges import Exchange
from capset_server.mcp.tools import call_tool
from tests.helpers.kernel.support import desk
from tests.helpers.server.mcp.support import Era, Site, Sleeper, bench, echo, site
from tests.waiting import until


async def test_a_cancelled_request_cancels_the_call(era: Era) -> None:
    sleeper = Sleeper()
    async with bench(era, sleeper.tool(), echo) as workbench:
        calling = asyncio.ensure_future(workbench.client.call_tool("sleep"))
        await sleeper.started.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await asyncio.wait_for(sleeper.cleaned.wait(), 60)
        assert not (await workbench.client.call_tool("echo", {"text": "x"})).is_error, "the connection goes on"
        records = await workbench.records(tool="sleep")
        assert [record.outcome for record in records] == ["cancelled"]


async def test_a_request_that_is_cancelled_at_once_waits_for_its_call_s_cleanup_too() -> None:
    async def nobody(*_: object) -> None:
        """Take no progress."""

    sleeper = Sleeper()
    async with desk(sleeper.tool()) as workbench:
        with CancelScope() as scope:
            scope.cancel()
            await call_tool(Exchange(workbench.session), CallToolRequestParams(name="sleep"), nobody)
        assert scope.cancelled_caught
        assert sleeper.cleaned.is_set()
        assert (await workbench.record()).outcome == "cancelled"


async def test_a_cancelled_request_cancels_the_call_over_http(era: Era) -> None:
    sleeper = Sleeper()
    async with site(sleeper.tool(), echo) as server, server.client(era, "ada") as client:
        calling = asyncio.ensure_future(client.call_tool("sleep"))
        await sleeper.started.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await asyncio.wait_for(sleeper.cleaned.wait(), 60)
        await until(lambda: server.open_requests == 0)
        assert (await server.record()).outcome == "cancelled"
        assert not (await client.call_tool("echo", {"text": "x"})).is_error, "the connection goes on"


async def test_nobody_cancels_the_call_of_another_connection() -> None:
    sleeper = Sleeper()
    async with site(sleeper.tool()) as server, server.client("legacy", "ada") as client:
        calling = asyncio.ensure_future(client.call_tool("sleep"))
        await sleeper.started.wait()
        async with server.client("legacy", "ada") as other:
            # The two count their requests alike: each of these is a number that the other uses as well.
            for number in range(5):
                notification = {"requestId": number, "reason": "mine"}
                await other.session._dispatcher.notify("notifications/cancelled", notification)
            await other.list_tools()
        assert not sleeper.cleaned.is_set()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling


async def test_a_client_that_leaves_cancels_its_call(era: Era) -> None:
    sleeper = Sleeper()

    async def exchange(server: Site) -> None:
        async with server.client(era, "ada") as client:
            await client.call_tool("sleep")

    async with site(sleeper.tool()) as server:
        visiting = asyncio.ensure_future(exchange(server))
        await sleeper.started.wait()
        visiting.cancel()
        await asyncio.wait([visiting])
        await until(lambda: server.open_requests == 0)
        assert sleeper.cleaned.is_set(), "the request was not over before its call was"
        assert (await server.record()).outcome == "cancelled"


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
async def test_a_connection_that_breaks_cancels_its_call(version: str) -> None:
    sleeper = Sleeper()
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "sleep", "arguments": {}} | ({"_meta": meta} if version == "2026-07-28" else {})
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    head = (
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ada\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {version}\r\n"
        f"Mcp-Method: tools/call\r\nMcp-Name: sleep\r\nContent-Length: {len(message)}\r\n\r\n"
    )
    async with site(sleeper.tool()) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
        writer.write((head + message).encode())
        await asyncio.wait_for(sleeper.started.wait(), 60)
        writer.close()
        await until(lambda: server.open_requests == 0)
        assert sleeper.cleaned.is_set(), "the request was not over before its call was"
        assert (await server.record()).outcome == "cancelled"
