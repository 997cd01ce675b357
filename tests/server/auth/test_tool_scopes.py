"""Scopes of single tools: their keys and tokens call these, and can do nothing else (spec 7, M15)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from capset.errors import DefinitionError
from capset.server.mcp.exchanges import Exchange
from capset.server.mcp.protocol import make_server
from tests.server.auth.issuing import issuing, token
from tests.server.mcp.support import Era, bench
from tests.server.support import Site, call, problem
from tests.server.walk import MCP_HEADERS

MCP = "/mcp/agents/foreman"


@pytest.fixture
async def narrow(shared: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    """Give a client whose key is for ``echo`` and ``steps``."""
    await shared.key("narrow", principal="ada", scopes=["capset:call:echo", "capset:call:steps"])
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
    assert lacks(await call(narrow, session, "note", text="hello")) == "capset:call:note"
    assert lacks(await call(narrow, session, "there_is_none")) == "capset:call:there_is_none", "as one that there is"
    for name in ("kit.echo", "Echo ", 'x", realm="evil', "a\r\nb", "a" * 65):
        assert lacks(await call(narrow, session, name)) == "capset:call", "the name of no tool is not repeated"


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
    await shared.key("wide", principal="ada", scopes=["capset:call:echo", "capset:call"])
    async with shared.client("wide") as wide:
        assert (await call(wide, session, "nothing")).status_code == 200, "the wider scope counts"


@pytest.mark.spec("M15")
async def test_over_mcp_it_lists_and_calls_the_tools_that_are_named(shared: Site, narrow: httpx2.AsyncClient) -> None:
    listed = await said(narrow, "tools/list")
    assert [name for name in ("echo", "steps", "note", "unlock") if f'"name":"{name}"' in listed.text] == [
        "echo",
        "steps",
    ]
    assert '"hello"' in (await said(narrow, "tools/call", name="echo", arguments={"text": "hello"})).text
    before = len(await shared.records())
    assert lacks(await said(narrow, "tools/call", name="note", arguments={"text": "x"})) == "capset:call:note"
    assert lacks(await said(narrow, "tools/call", name="kit.note", arguments={"text": "x"})) == "capset:call"
    assert len(await shared.records()) == before, "it was refused before its session"
    broken = await narrow.post(MCP, content=b"{", headers=MCP_HEADERS | {"content-type": "application/json"})
    assert broken.status_code == 400


@pytest.mark.spec("M15")
async def test_what_gets_past_the_entrance_is_refused_by_the_protocol() -> None:
    era: Era = "auto"
    async with bench(era) as here:
        exchange = Exchange(here.session, tools={"echo"})
        async with Client(make_server(lambda: exchange), mode=era) as client:
            assert [one.name for one in (await client.list_tools()).tools] == ["echo"]
            assert not (await client.call_tool("echo", {"text": "x"})).is_error
            with pytest.raises(MCPError, match="scope for this tool"):
                await client.call_tool("add", {"a": 1})
        assert [one.tool for one in await here.records()] == ["echo"]


@pytest.mark.spec("M15")
async def test_a_token_may_be_for_single_tools_too() -> None:
    async with issuing() as here:
        given = token(scope="openid capset:call:echo capset:call: capset:call:a.b")
        caller = await here.site.service.callers.identify(f"Bearer {given}")
        assert caller.scopes == {"capset:call:echo"}
        async with here.site.client(None, headers={"Authorization": f"Bearer {given}"}) as client:
            session = await made_session(client)
            assert (await call(client, session, "echo", text="hello")).json()["data"] == "hello"
            assert lacks(await call(client, session, "note", text="x")) == "capset:call:note"


@pytest.mark.spec("M15")
@pytest.mark.parametrize("scope", ["capset:call:", "capset:call:a b", "capset:call:a.b", "capset:read:echo"])
async def test_a_key_for_what_no_tool_is_named_is_not_made(shared: Site, scope: str) -> None:
    with pytest.raises(DefinitionError, match="capset:call:TOOL"):
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
