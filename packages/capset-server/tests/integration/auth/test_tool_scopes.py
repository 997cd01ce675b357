"""Scopes of single tools: their keys and tokens call these, and can do nothing else (spec 7, M15)."""

from __future__ import annotations

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
from tests.helpers.server.support import Site, call, problem
from tests.helpers.server.walk import MCP_HEADERS

MCP = "/mcp/agents/foreman"


@pytest.fixture
async def narrow(shared: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    """Give a client whose key is for ``echo`` and ``steps``."""
    await shared.key("narrow", principal="ada", scopes=["capset:call:kit.echo", "capset:call:kit.steps"])
    async with shared.client("narrow") as client:
        yield client


async def made_session(client: httpx2.AsyncClient) -> str:
    response = await client.post("/v1/sessions", json={"agent_id": "foreman"})
    assert response.status_code == 201, response.text
    return response.json()["id"]


async def said(client: httpx2.AsyncClient, method: str, **params: Any) -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return await client.post(MCP, json=body, headers=MCP_HEADERS)


def lacks(response: httpx2.Response) -> str:
    """Return the scope that a refusal names."""
    problem(response, 403, "permission_denied")
    before, scope = response.headers["www-authenticate"].split(" scope=")
    assert before == 'Bearer error="insufficient_scope",'
    return scope.strip('"')


@pytest.mark.spec("M15")
async def test_over_rest_it_calls_the_tools_that_are_named(narrow: httpx2.AsyncClient) -> None:
    session = await made_session(narrow)
    assert (await narrow.get(f"/v1/sessions/{session}")).status_code == 200
    assert (await call(narrow, session, "echo", text="hello")).json()["data"] == "hello"
    assert (await call(narrow, session, "kit.echo", text="hello")).json()["data"] == "hello"
    refused = await call(narrow, session, "note", text="hello")
    assert lacks(refused) == "capset:call:kit.note"
    assert refused.json()["record"], "the refusal is on record"
    body, events = {"tool": "note", "arguments": {"text": "hello"}}, {"Accept": "text/event-stream"}
    refused = await narrow.post(f"/v1/sessions/{session}/calls", json=body, headers=events)
    assert lacks(refused) == "capset:call:kit.note"
    assert refused.json()["record"]
    for name in ("there_is_none", "Echo ", 'x", realm="evil', "a\r\nb", "a" * 65):
        assert lacks(await call(narrow, session, name)) == "capset:call", "the name of no tool is not repeated"


@pytest.mark.spec("M15", "T62")
async def test_an_agent_that_renames_a_tool_leads_no_scope_to_it(shared: Site, asker: httpx2.AsyncClient) -> None:
    renamed = [{"id": "kit", "rename": {"note": "add", "echo": "say"}}]
    created = await asker.post("/v1/agents", json={"name": "trickster", "capabilities": renamed})
    assert created.status_code == 201, created.text
    await shared.key("adds", principal="ada", scopes=["capset:call:test_math.add", "capset:call:kit.echo"])
    async with shared.client("adds") as client:
        session = (await client.post("/v1/sessions", json={"agent_id": created.json()["id"]})).json()["id"]
        assert (await call(client, session, "say", text="hello")).json()["data"] == "hello"
        assert lacks(await call(client, session, "add", text="x")) == "capset:call:kit.note"
        at, body = f"/mcp/sessions/{session}", {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        listing = (await client.post(at, json=body, headers=MCP_HEADERS)).text
        assert ('"name":"say"' in listing, '"name":"add"' in listing) == (True, False)
        adds = {**body, "method": "tools/call", "params": {"name": "add", "arguments": {"text": "x"}}}
        assert lacks(await client.post(at, json=adds, headers=MCP_HEADERS)) == "capset:call:kit.note"
        run = {"session_id": session, "tool": "add", "arguments": {"text": "x"}}
        assert lacks(await client.post("/v1/runs", json=run)) == "capset:call:kit.note"


@pytest.mark.spec("M15")
async def test_all_else_of_the_scope_for_calls_stays_closed(shared: Site, narrow: httpx2.AsyncClient) -> None:
    session = await made_session(narrow)
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
    ):
        response = await narrow.request(method, path, json=body)
        assert response.status_code == 403, path
        assert 'scope="capset:call"' in response.headers["www-authenticate"], path
    assert (await narrow.get("/v1/agents")).status_code == 403
    await shared.key("wide", principal="ada", scopes=["capset:call:kit.echo", "capset:call"])
    async with shared.client("wide") as wide:
        assert (await call(wide, session, "nothing")).status_code == 200, "the wider scope counts"


@pytest.mark.spec("M15")
async def test_over_mcp_it_lists_and_calls_the_tools_that_are_named(shared: Site, narrow: httpx2.AsyncClient) -> None:
    listing = await said(narrow, "tools/list")
    assert [name for name in ("echo", "steps", "note", "unlock") if f'"name":"{name}"' in listing.text] == [
        "echo",
        "steps",
    ]
    assert '"hello"' in (await said(narrow, "tools/call", name="echo", arguments={"text": "hello"})).text
    before = len(await shared.records())
    assert lacks(await said(narrow, "tools/call", name="note", arguments={"text": "x"})) == "capset:call:kit.note"
    assert lacks(await said(narrow, "tools/call", name="kit.note", arguments={"text": "x"})) == "capset:call"
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
            session = await made_session(client)
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
        ("prompts/list", {}),
        ("prompts/get", {"name": "x"}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("resources/read", {"uri": "capset://files/a.txt"}),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": "b"}},
        ),
    ],
)
async def test_prompts_and_resources_are_of_those_who_may_call_every_tool(
    narrow: httpx2.AsyncClient, method: str, params: dict[str, Any]
) -> None:
    response = await said(narrow, method, **params)
    assert "the scope capset:call" in response.text
