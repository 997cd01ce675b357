"""Ordinary calls are answered without the SDK, byte for byte as with it (spec 7, M16)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel

from capset import Context, ToolError, tool
from capset_server.mcp import fast_calls
from capset_server.mcp.fast_calls import FastCalls
from tests.helpers.server.mcp.support import KIT, PREFIX, Site, Sleeper, site
from tests.waiting import until

META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
_VOLATILE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Sure(BaseModel):
    sure: bool


@tool(effect="read")
async def ask(ctx: Context) -> str:
    """Ask the person."""
    return (await ctx.ask_client("sure", "Sure?", Sure)).action


@tool(effect="read")
async def long() -> list[str]:
    """Say a lot."""
    return ["ä" * 60_000] * 2


@tool(effect="read")
async def odd() -> dict[str, Any]:
    """Say odd things."""
    return {"n": None, "x": 1e16, "y": 0.1, "t": "\u2028 </script> \U0001f600", "deep": [[[{}]]]}


TOOLS = (*KIT, ask, long, odd)


def body_of(name: str, arguments: object, *, number: Any = 7, meta: Mapping[str, Any] = META) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments, "_meta": dict(meta)}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


async def post(server: Site, body: Any, **headers: str) -> httpx2.Response:
    name = body["params"].get("name") if isinstance(body, dict) and isinstance(body.get("params"), dict) else "x"
    sent = {
        "Accept": "application/json, text/event-stream",
        "Authorization": "Bearer ada",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": str(name),
        **headers,
    }
    async with httpx2.AsyncClient(timeout=30) as http:
        return await http.post(f"{server.url}/mcp/agents/tester", content=json.dumps(body), headers=sent)


def told(response: httpx2.Response) -> tuple[int, list[tuple[str, str]], str]:
    """Return all of an answer that is not of one request alone."""
    ids: dict[str, str] = {}
    text = _VOLATILE.sub(lambda match: ids.setdefault(match[0], f"id {len(ids)}"), response.text)
    headers = [
        (name, value) for name, value in response.headers.multi_items() if name not in ("date", "content-length")
    ]
    return response.status_code, headers, text


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Give the ids of the requests that were answered without the SDK."""
    request_ids: list[object] = []
    original = FastCalls.answer

    async def noting(self: FastCalls, call: Any, *rest: Any) -> None:
        request_ids.append(call.id)
        await original(self, call, *rest)

    monkeypatch.setattr(FastCalls, "answer", noting)
    return request_ids


@pytest.mark.spec("M16")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("echo", {"text": 'hä \u2028 \U0001f600 \\ " /'}),
        ("add", {"a": 1, "b": 2}),
        ("add", {"a": 1}),
        ("add", {"a": "x"}),
        ("add", {}),
        ("add", {"a": 1, "c": 3}),
        ("add", {"a": 10**40}),
        ("save", {"text": "note"}),
        ("pages", {}),
        ("book", {}),
        ("wipe", {}),
        ("crash", {}),
        ("refuse", {"text": "no"}),
        ("slow", {}),
        ("steps", {"fractions": [0.1, 0.5]}),
        ("silent", {}),
        ("long", {}),
        ("odd", {}),
        ("ask", {}),
    ],
)
async def test_answers_are_those_of_the_sdk(name: str, arguments: dict[str, Any], fast: list[object]) -> None:
    async with site(*TOOLS) as server:
        body = body_of(name, arguments)
        with_it = await post(server, {**body, "unknown": 1})  # which the protocol lets pass, and no client sends
        assert fast == []
        without = await post(server, body)
        assert fast == [7]
        assert told(without) == told(with_it)


@pytest.mark.spec("M13", "M16")
async def test_lists_are_those_of_the_sdk_and_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    original = fast_calls.list_tools

    def noting(*arguments: Any) -> Any:
        calls.append(arguments)
        return original(*arguments)

    monkeypatch.setattr(fast_calls, "list_tools", noting)
    async with site(*TOOLS) as server:
        body = {"jsonrpc": "2.0", "id": "a\u00e4", "method": "tools/list", "params": {"_meta": META}}
        async with server.kernel.open(server.agent, principal=server.tokens["ada"]) as session:
            server.session = session
            with_it = await listed(server, {**body, "unknown": 1})
            assert calls == []
            first, second = await listed(server, body), await listed(server, body)
            assert first.content == second.content == with_it.content
            assert len(calls) == 1
            assert (await listed(server, {**body, "params": {"_meta": META, "cursor": "x"}})).status_code == 400
            assert len(calls) == 1


async def listed(server: Site, body: Any) -> httpx2.Response:
    headers = {
        "Accept": "application/json, text/event-stream",
        "Authorization": "Bearer ada",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/list",
    }
    async with httpx2.AsyncClient(timeout=30) as http:
        return await http.post(f"{server.url}/mcp/agents/tester", content=json.dumps(body), headers=headers)


@pytest.mark.spec("M16", "M12")
async def test_a_call_that_asks_gets_a_sealed_state_and_goes_on_with_it(fast: list[object]) -> None:
    async with site(*TOOLS) as server:
        meta = {**META, "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
        question = (await post(server, body_of("ask", {}, meta=meta))).json()["result"]
        assert (question["resultType"], fast) == ("input_required", [7])
        second_call = body_of("ask", {}, meta=meta)
        second_call["params"] |= {
            "requestState": question["requestState"],
            "inputResponses": {key: {"action": "decline"} for key in question["inputRequests"]},
        }
        done = (await post(server, second_call)).json()["result"]
        assert done["structuredContent"] == {"result": "decline"}
        assert fast == [7], "the second round is the SDK's"


@pytest.mark.spec("M16")
@pytest.mark.parametrize(
    ("change", "headers"),
    [
        ({"jsonrpc": "1.0"}, {}),
        ({"id": True}, {}),
        ({"id": None}, {}),
        ({"id": 1.5}, {}),
        ({"params": []}, {}),
        ({"params": {"name": "add", "arguments": [], "_meta": META}}, {}),
        ({"params": {"name": "add", "arguments": None, "_meta": META}}, {}),
        ({"params": {"name": 5, "arguments": {}, "_meta": META}}, {}),
        ({"params": {"name": "add", "arguments": {"a": 1}}}, {}),
        ({"params": {"name": "add", "arguments": {"a": 1}, "_meta": {**META, "progressToken": 1}}}, {}),
        ({"params": {"name": "add", "arguments": {"a": 1}, "_meta": {**META, f"{PREFIX}approval": 5}}}, {}),
        (
            {
                "params": {
                    "name": "add",
                    "arguments": {"a": 1},
                    "_meta": {**META, "io.modelcontextprotocol/clientCapabilities": {"elicitation": 5}},
                }
            },
            {},
        ),
        (
            {
                "params": {
                    "name": "add",
                    "arguments": {"a": 1},
                    "_meta": {**META, "io.modelcontextprotocol/clientInfo": {"name": "x"}},
                }
            },
            {},
        ),
        ({}, {"Mcp-Name": "echo"}),
        ({}, {"Mcp-Method": "tools/list"}),
        ({}, {"MCP-Protocol-Version": "2026-07-29"}),
        ({}, {"Accept": "text/html"}),
        ({}, {"Accept": "application/json;q=0, text/event-stream"}),
        ({}, {"Mcp-Param-A": "1"}),
        ({}, {"Content-Type": "text/plain"}),
    ],
)
async def test_what_is_not_ordinary_is_answered_by_the_sdk(
    change: dict[str, Any], headers: dict[str, str], fast: list[object]
) -> None:
    async with site(*TOOLS) as server:
        await post(server, {**body_of("add", {"a": 1}), **change}, **headers)
        assert fast == []


@pytest.mark.spec("M16")
async def test_what_is_no_json_and_what_is_long_is_left_to_the_sdk(fast: list[object]) -> None:
    async with site(*TOOLS) as server:
        await post(server, body_of("echo", {"text": "x" * fast_calls.MAX_BODY}))
        assert fast == []
        for body in ('{"jsonrpc": "2.0"', '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\\ud800"}}'):
            headers = {"Mcp-Name": "add", "Mcp-Method": "tools/call", "MCP-Protocol-Version": "2026-07-28"}
            headers |= {"Content-Type": "application/json"}
            headers |= {"Accept": "application/json, text/event-stream", "Authorization": "Bearer ada"}
            async with httpx2.AsyncClient() as http:
                response = await http.post(f"{server.url}/mcp/agents/tester", content=body, headers=headers)
            assert response.status_code == 400
        assert fast == []


@pytest.mark.spec("M16")
async def test_the_official_client_is_answered_so(fast: list[object]) -> None:
    async with site(*TOOLS) as server, server.client("auto", "ada") as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert result.structured_content == {"result": 3}
        assert len(fast) == 1


@pytest.mark.spec("M16")
async def test_a_client_that_leaves_cancels_its_call(fast: list[object]) -> None:
    sleeper = Sleeper()
    async with site(sleeper.tool()) as server:
        asking = asyncio.ensure_future(post(server, body_of("sleep", {})))
        await sleeper.started.wait()
        asking.cancel()
        await asyncio.wait_for(sleeper.cleaned.wait(), 60)
        await until(lambda: server.open_requests == 0)
        assert (await server.record(tool="sleep")).outcome == "cancelled"
        assert fast == [7]


@pytest.mark.spec("M16")
async def test_closing_cancels_a_call_that_goes_on(fast: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capset_server.mcp.http.DRAIN_SECONDS", 0.1)
    sleeper = Sleeper()
    async with site(sleeper.tool()) as server:
        asking = asyncio.ensure_future(post(server, body_of("sleep", {})))
        await sleeper.started.wait()
        await server.door._drain()
        response = await asking
        assert response.json()["error"]["message"] == "Request cancelled"
        assert sleeper.cleaned.is_set()
        assert fast == [7]


@pytest.mark.realtime
@pytest.mark.spec("M16")
async def test_an_answer_that_takes_long_is_a_stream_with_pings(
    fast: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_calls, "PING_SECONDS", 0.1)

    @tool(effect="read")
    async def rest(seconds: float) -> str:
        """Rest."""
        await asyncio.sleep(seconds)
        if seconds > 1:
            raise ToolError("too long")
        return "rested"

    async with site(rest) as server:
        response = await post(server, body_of("rest", {"seconds": 0.5}))
        assert response.headers["content-type"] == "text/event-stream"
        *pings, event, _ = response.text.split("\r\n\r\n")
        assert len(pings) >= 2
        assert set(pings) == {": ping"}
        kind, data = event.split("\r\n")
        assert kind == "event: message"
        result = json.loads(data.removeprefix("data: "))
        assert (result["id"], result["result"]["structuredContent"]) == (7, {"result": "rested"})
        assert fast == [7]


@pytest.mark.spec("M16")
async def test_governance_is_the_same(fast: list[object]) -> None:
    @tool(effect="write", limits="1/1h")
    async def once() -> str:
        """Do it once."""
        return "done"

    async with site(once) as server:
        assert (await post(server, body_of("once", {}))).json()["result"]["isError"] is False
        refused = await post(server, body_of("once", {}))
        assert refused.json()["result"]["isError"] is True
        assert (await server.record(tool="once", code="limit_exceeded")).outcome == "limited"
        assert fast == [7, 7]
