"""Scopes of single tools: their keys and tokens call these, and can do nothing else (spec 7, M15)."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from capset.errors import DefinitionError
from capset_server.mcp.exchanges import Exchange
from capset_server.mcp.protocol import make_server
from tests.helpers.server.auth.issuing import issuing, token
from tests.helpers.server.mcp.support import Era, bench
from tests.helpers.server.support import Site, call, make_agent, problem
from tests.helpers.server.walk import MCP_HEADERS

MCP = "/mcp/agents/foreman"


@pytest.fixture
async def narrow(shared: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    """Give a client whose key is for ``echo`` and ``steps``."""
    await shared.key("narrow", principal="ada", scopes=["capset:call:kit.echo", "capset:call:kit.steps"])
    async with shared.client("narrow") as client:
        yield client


async def session_of(client: httpx2.AsyncClient, agent: str = "foreman") -> str:
    response = await client.post("/v1/sessions", json={"agent_id": agent})
    assert response.status_code == 201, response.text
    return response.json()["id"]


async def ask_mcp(client: httpx2.AsyncClient, method: str, at: str = MCP, **params: Any) -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return await client.post(at, json=body, headers=MCP_HEADERS)


def listed(response: httpx2.Response) -> list[str]:
    return re.findall(r'"name":"(\w+)"', response.text)


def lacks(response: httpx2.Response) -> str:
    """Return the scope that a refusal names."""
    problem(response, 403, "permission_denied")
    before, scope = response.headers["www-authenticate"].split(" scope=")
    assert before == 'Bearer error="insufficient_scope",'
    return scope.strip('"')


@pytest.mark.spec("M15")
async def test_over_rest_it_calls_the_tools_that_are_named(narrow: httpx2.AsyncClient) -> None:
    session = await session_of(narrow)
    assert (await narrow.get(f"/v1/sessions/{session}")).status_code == 200
    for name in ("echo", "kit.echo"):
        assert (await call(narrow, session, name, text="hello")).json()["data"] == "hello"
    body = {"tool": "note", "arguments": {"text": "hello"}}
    for headers in ({}, {"Accept": "text/event-stream"}):
        refused = await narrow.post(f"/v1/sessions/{session}/calls", json=body, headers=headers)
        assert lacks(refused) == "capset:call:kit.note"
        assert refused.json()["record"], "the refusal is on record"
    for name in ("there_is_none", "Echo ", 'x", realm="evil', "a\r\nb", "a" * 65):
        assert lacks(await call(narrow, session, name)) == "capset:call", "the name of no tool is not repeated"


@pytest.mark.spec("M15", "T62")
async def test_an_agent_that_renames_a_tool_leads_no_scope_to_it(shared: Site, asker: httpx2.AsyncClient) -> None:
    renamed = [{"id": "kit", "rename": {"note": "add", "echo": "say"}}]
    trickster = await make_agent(asker, capabilities=renamed)
    await shared.key("adds", principal="ada", scopes=["capset:call:test_math.add", "capset:call:kit.echo"])
    async with shared.client("adds") as client:
        session = await session_of(client, trickster["id"])
        assert (await call(client, session, "say", text="hello")).json()["data"] == "hello"
        at, arguments = f"/mcp/sessions/{session}", {"text": "x"}
        assert listed(await ask_mcp(client, "tools/list", at)) == ["say"]
        for refused in (
            await call(client, session, "add", **arguments),
            await ask_mcp(client, "tools/call", at, name="add", arguments=arguments),
            await client.post("/v1/runs", json={"session_id": session, "tool": "add", "arguments": arguments}),
        ):
            assert lacks(refused) == "capset:call:kit.note"


@pytest.mark.spec("M15")
async def test_all_else_of_the_scope_for_calls_stays_closed(shared: Site, narrow: httpx2.AsyncClient) -> None:
    session = await session_of(narrow)
    for method, path, body in (
        ("GET", "/v1/sessions", None),
        ("DELETE", f"/v1/sessions/{session}", None),
        ("PATCH", f"/v1/sessions/{session}", {"agent_version": None}),
        ("GET", f"/v1/sessions/{session}/snapshot", None),
        ("GET", f"/v1/sessions/{session}/files/", None),
        ("POST", f"/v1/sessions/{session}/messages", {"content": "call note"}),
        ("POST", f"/v1/sessions/{session}/fork", {}),
        ("POST", "/v1/links", {"session_id": session}),
        ("GET", "/v1/models", None),
        ("GET", f"/v1/runs/{session}/trace", None),
        ("GET", f"/v1/runs/{session}/events", None),
    ):
        response = await narrow.request(method, path, json=body)
        assert response.status_code == 403, path
        assert 'scope="capset:call' in response.headers["www-authenticate"], path
    assert (await narrow.get("/v1/agents")).status_code == 403
    await shared.key("wide", principal="ada", scopes=["capset:call:kit.echo", "capset:call"])
    async with shared.client("wide") as wide:
        assert (await call(wide, session, "nothing")).status_code == 200, "the wider scope counts"


@pytest.mark.spec("M15")
async def test_over_mcp_it_lists_and_calls_the_tools_that_are_named(shared: Site, narrow: httpx2.AsyncClient) -> None:
    assert listed(await ask_mcp(narrow, "tools/list")) == ["echo", "steps"]
    assert '"hello"' in (await ask_mcp(narrow, "tools/call", name="echo", arguments={"text": "hello"})).text
    before = len(await shared.records())
    for name, scope in (("note", "capset:call:kit.note"), ("kit.note", "capset:call")):
        assert lacks(await ask_mcp(narrow, "tools/call", name=name, arguments={"text": "x"})) == scope
    assert len(await shared.records()) == before, "it was refused before its call began"
    broken = await narrow.post(MCP, content=b"{", headers=MCP_HEADERS | {"content-type": "application/json"})
    assert broken.status_code == 400


@pytest.mark.spec("M15")
async def test_what_gets_past_the_entrance_is_refused_by_the_protocol() -> None:
    era: Era = "auto"
    async with bench(era) as workbench:
        exchange = Exchange(workbench.session, tools={"kit.echo"})
        async with Client(make_server(lambda: exchange), mode=era) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["echo"]
            assert not (await client.call_tool("echo", {"text": "x"})).is_error
            with pytest.raises(MCPError, match="scope for this tool"):
                await client.call_tool("add", {"a": 1})
        assert [record.tool for record in await workbench.records()] == ["echo"]


@pytest.mark.spec("M15")
async def test_a_token_may_be_for_single_tools_too() -> None:
    async with issuing() as issuer:
        access_token = token(scope="openid capset:call:kit.echo capset:call: capset:call:note capset:call:a.b.c")
        caller = await issuer.site.service.callers.identify(f"Bearer {access_token}")
        assert caller.scopes == {"capset:call:kit.echo"}
        async with issuer.site.client(None, headers={"Authorization": f"Bearer {access_token}"}) as client:
            session = await session_of(client)
            assert (await call(client, session, "echo", text="hello")).json()["data"] == "hello"
            assert lacks(await call(client, session, "note", text="x")) == "capset:call:kit.note"


@pytest.mark.spec("M15")
@pytest.mark.parametrize(
    "scope", ["capset:call:", "capset:call:echo", "capset:call:a b.c", "capset:call:a.b.c", "capset:read:kit.echo"]
)
async def test_a_key_for_what_no_tool_is_named_is_not_made(shared: Site, scope: str) -> None:
    with pytest.raises(DefinitionError, match=r"capset:call:CAPABILITY\.TOOL"):
        await shared.key("odd", scopes=[scope])


@pytest.mark.spec("M11", "M15")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        *((method, {}) for method in ("prompts/list", "resources/list", "resources/templates/list")),
        ("prompts/get", {"name": "x"}),
        ("resources/read", {"uri": "capset://files/a.txt"}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": "b"}}),
    ],
)
async def test_prompts_and_resources_are_of_those_who_may_call_every_tool(
    narrow: httpx2.AsyncClient, method: str, params: dict[str, Any]
) -> None:
    assert "the scope capset:call" in (await ask_mcp(narrow, method, **params)).text
