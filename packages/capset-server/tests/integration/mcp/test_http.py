"""MCP over HTTP: who asks decides what is answered, whatever connection it comes by."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

import httpx2
import pytest
from mcp_types import INVALID_PARAMS
from starlette.types import Message

from capset import Principal
from capset_server.mcp import McpDoor
from capset_server.mcp.http import SessionTokens
from tests.helpers.kernel.support import desk, records_of
from tests.helpers.server.mcp.support import Era, Site, Sleeper, echo, site
from tests.waiting import until

ACCEPT = {"Accept": "application/json, text/event-stream"}
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


async def post(server: Site, token: str, method: str, params: object, *, id: int | None = 1, **headers: str) -> Any:
    """Send one message as clients of old do, and return the response."""
    message = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if id is None else {"id": id})
    sent = (
        ACCEPT | {"Authorization": f"Bearer {token}"} | {key.replace("_", "-"): value for key, value in headers.items()}
    )
    async with httpx2.AsyncClient() as http:
        return await http.post(f"{server.url}/mcp/agents/tester", json=message, headers=sent)


def answered(response: httpx2.Response) -> Any:
    """Return the JSON-RPC message inside an answer that is a stream of one event."""
    (data,) = [line for line in response.text.splitlines() if line.startswith("data: ")]
    return json.loads(data.removeprefix("data: "))


async def test_calls_and_lists_go_by_http_and_are_on_record(era: Era) -> None:
    async with site() as server, server.client(era, "ada") as client:
        assert client.instructions == "Test."
        result = await client.call_tool("add", {"a": 2})
        assert result.structured_content == {"result": 3}
        record = await server.record()
        assert (record.principal, record.outcome, record.tool) == ("ada", "succeeded", "add")


async def test_the_newest_client_needs_no_handshake_and_an_older_one_may_have_it() -> None:
    async with site() as server:
        async with server.client("auto", "ada") as client:
            assert client.protocol_version == "2026-07-28"
        async with server.client("legacy", "ada") as client:
            assert client.protocol_version == "2025-11-25"


async def test_two_identities_see_two_lists(era: Era) -> None:
    async with site() as server:
        lists: dict[str, set[str]] = {}
        for token in ("ada", "bob"):
            async with server.client(era, token) as client:
                lists[token] = {tool.name for tool in (await client.list_tools()).tools}
        assert lists["ada"] - lists["bob"] == {"save"}


async def test_the_list_is_that_of_the_request_and_not_of_the_connection(era: Era) -> None:
    async with site() as server, server.client(era, "bob") as client:
        assert "save" not in {tool.name for tool in (await client.list_tools()).tools}
        server.tokens["bob"] = Principal("bob", permissions={"notes:write"})
        assert "save" in {tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools}
        server.tokens["bob"] = Principal("bob")
        assert (await client.call_tool("save", {"text": "x"})).is_error
        assert (await server.record()).outcome == "denied"


async def test_the_transport_session_of_one_identity_is_no_other_s() -> None:
    async with site() as server:
        opened = await post(server, "ada", "initialize", HELLO)
        assert answered(opened)["result"]["protocolVersion"] == "2025-06-18"
        ticket = opened.headers["mcp-session-id"]
        mine = await post(server, "ada", "tools/list", {}, mcp_session_id=ticket)
        assert (mine.status_code, len(answered(mine)["result"]["tools"])) == (200, 11)
        theirs = await post(server, "bob", "tools/list", {}, mcp_session_id=ticket)
        assert theirs.status_code == 404
        assert theirs.json()["error"]["message"] == "Session not found"
        forged = await post(server, "ada", "tools/list", {}, mcp_session_id=ticket[:-1] + "x")
        assert forged.status_code == 404


async def test_a_refused_handshake_opens_nothing() -> None:
    async with site() as server:
        refused = await post(server, "ada", "initialize", HELLO, Accept="text/html")
        assert refused.status_code == 406
        assert "mcp-session-id" not in refused.headers


async def test_a_cancellation_without_the_right_session_id_cancels_nothing() -> None:
    sleeper = Sleeper()
    async with site(sleeper.tool()) as server:
        tickets = [(await post(server, "ada", "initialize", HELLO)).headers["mcp-session-id"] for _ in range(2)]
        params = {"name": "sleep", "arguments": {}}
        calling = asyncio.ensure_future(post(server, "ada", "tools/call", params, id=7, mcp_session_id=tickets[0]))
        await sleeper.started.wait()
        cancelled = {"requestId": 7}
        for headers in ({}, {"mcp_session_id": tickets[1]}):
            done = await post(server, "ada", "notifications/cancelled", cancelled, id=None, **headers)
            assert done.status_code == 202
        wrong = {"requestId": "7"}
        await post(server, "ada", "notifications/cancelled", wrong, id=None, mcp_session_id=tickets[0])
        assert not sleeper.cleaned.is_set()
        await post(server, "ada", "notifications/cancelled", cancelled, id=None, mcp_session_id=tickets[0])
        assert answered(await calling)["error"] == {"code": -32800, "message": "Request cancelled"}
        assert sleeper.cleaned.is_set()
        assert (await server.record()).outcome == "cancelled"


async def test_there_is_nothing_to_get_and_nothing_to_delete() -> None:
    async with site() as server, httpx2.AsyncClient(headers=ACCEPT | {"Authorization": "Bearer ada"}) as http:
        for method in ("GET", "DELETE", "PUT"):
            response = await http.request(method, f"{server.url}/mcp/agents/tester")
            assert (response.status_code, response.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"text"', b'{"jsonrpc": "2.0"}', b"\xff"])
async def test_garbage_is_refused_and_opens_nothing(body: bytes) -> None:
    sent = ACCEPT | {"Authorization": "Bearer ada", "Content-Type": "application/json"}
    async with site() as server, httpx2.AsyncClient(headers=sent) as http:
        for version in ({}, {"MCP-Protocol-Version": "2026-07-28"}, {"MCP-Protocol-Version": "1999-01-01"}):
            response = await http.post(f"{server.url}/mcp/agents/tester", content=body, headers=version)
            assert response.status_code == 400
            assert "mcp-session-id" not in response.headers
            assert "Traceback" not in response.text
        assert await records_of(server.kernel.audit) == []


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
async def test_space_around_a_header_s_value_is_no_part_of_it(version: str) -> None:
    # Few clients send such headers, and few servers take the space off.
    values = {"MCP-Protocol-Version": f" {version}\t", "Mcp-Method": "\ttools/call", "Mcp-Name": "  echo  "}
    headers = ACCEPT | {"Content-Type": "application/json "} | values
    params = {"name": "echo", "arguments": {"text": "hi"}, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    incoming: list[Message] = [{"type": "http.request", "body": body}]
    sent: list[Message] = []
    disconnected = asyncio.Event()

    async def receive() -> Message:
        if not incoming:
            await disconnected.wait()
            return {"type": "http.disconnect"}
        return incoming.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    door = McpDoor()
    async with desk(echo) as workbench, door.run():
        scope = {"type": "http", "method": "POST", "path": "/", "headers": raw, "query_string": b""}
        await door.handle(scope, receive, send, workbench.session, "ada")
        disconnected.set()
    assert sent[0]["status"] == 200
    assert b'"structuredContent":{"result":"hi"}' in b"".join(part.get("body", b"") for part in sent)


async def test_null_is_no_set_of_answers() -> None:
    params = {"name": "echo", "arguments": {"text": "hi"}, "_meta": META}
    method = "tools/call"
    call = partial(post, mcp_protocol_version="2026-07-28", mcp_method=method, mcp_name="echo")
    async with site() as server:
        for extra in ({}, {"inputResponses": {}}):
            done = await call(server, "ada", method, params | extra)
            assert done.json()["result"]["structuredContent"] == {"result": "hi"}
        refused = await call(server, "ada", method, params | {"inputResponses": None})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, INVALID_PARAMS)
        assert "inputResponses must be an object" in refused.json()["error"]["message"]
        assert len(await records_of(server.kernel.audit)) == 2


async def test_closing_the_door_cancels_what_does_not_end_in_time(era: Era, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capset_server.mcp.http.DRAIN_SECONDS", 0.1)
    sleeper = Sleeper()
    async with site(sleeper.tool()) as server:
        door = McpDoor()
        server.door, ran = door, server.door
        async with door.run():
            calling = asyncio.ensure_future(_sleep(server, era))
            await sleeper.started.wait()
        assert sleeper.cleaned.is_set(), "the door was not closed before its calls were over"
        await until(lambda: server.open_requests == 0)
        assert (await server.record()).outcome == "cancelled"
        assert door._exchanges == set()
        await asyncio.wait([calling])
        assert calling.exception() is not None or calling.result().is_error
        server.door = ran


async def _sleep(server: Site, era: Era) -> Any:
    async with server.client(era, "ada") as client:
        return await client.call_tool("sleep")


async def test_closing_the_door_waits_for_what_ends_in_time(era: Era) -> None:
    async with site() as server:
        door = McpDoor()
        server.door, ran = door, server.door
        async with door.run():
            async with server.client(era, "ada") as client:
                calling = asyncio.ensure_future(client.call_tool("slow"))
                await until(lambda: door._exchanges)
                closing = asyncio.ensure_future(door._drain())
                result = await calling
                assert "retryable" in result.model_dump_json()
                await closing
            assert door._exchanges == set()
        assert (await server.record()).outcome == "timed_out"
        server.door = ran


async def test_a_door_that_is_closed_says_so() -> None:
    async with site() as server:
        server.door, ran = McpDoor(), server.door
        response = await post(server, "ada", "tools/list", {})
        assert response.status_code == 503
        server.door = ran


async def test_no_task_is_left(era: Era) -> None:
    before = asyncio.all_tasks()
    async with site() as server, server.client(era, "ada") as client:
        await client.call_tool("steps", {"fractions": [0.5]}, progress_callback=_nobody)
    await asyncio.sleep(0)
    tasks = asyncio.all_tasks() - before
    # One for each event loop, of the library that writes event streams; it ends with the server or with the loop.
    assert {getattr(task.get_coro(), "__qualname__", "") for task in tasks} <= {"_shutdown_watcher"}


async def _nobody(progress: float, total: float | None, message: str | None) -> None:
    """Take no progress."""


async def test_a_client_that_leaves_while_it_is_still_asking_is_no_error() -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    door = McpDoor()
    async with desk(echo) as workbench, door.run():
        scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "query_string": b""}
        await door.handle(scope, receive, send, workbench.session, "ada")
    assert sent == []


def test_tickets_are_of_their_identity_and_of_their_key() -> None:
    tickets = SessionTokens(b"k" * 32)
    ticket = tickets.issue("ada /mcp")
    assert ticket.isascii()
    assert ticket.isprintable()
    assert tickets.is_of(ticket, "ada /mcp")
    assert SessionTokens(b"k" * 32).is_of(ticket, "ada /mcp"), "every process with the key knows it"
    assert tickets.issue("ada /mcp") != ticket
    for other in ("bob /mcp", "", "ada /mcp/x"):
        assert not tickets.is_of(ticket, other)
    for forged in ("", ".", "x", ticket[1:], ticket + "0", "é.é", f"{ticket.split('.')[0]}."):
        assert not tickets.is_of(forged, "ada /mcp")
    assert not SessionTokens().is_of(ticket, "ada /mcp")
    with pytest.raises(ValueError, match="at least 32 bytes"):
        McpDoor(key=b"short")
