"""``/mcp`` leads to the agent of the key or the token that is shown (spec 5, P16)."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from capset.errors import DefinitionError
from tests.helpers.server.auth.issuing import issuing, token
from tests.helpers.server.support import Site, make_agent, problem
from tests.helpers.server.walk import MCP_HEADERS

LIST: dict[str, Any] = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
BEGIN: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


async def said(client: httpx2.AsyncClient, path: str, body: dict[str, Any], ticket: str = "") -> httpx2.Response:
    headers = MCP_HEADERS | ({"mcp-session-id": ticket} if ticket else {})
    return await client.post(path, json=body, headers=headers)


@pytest.mark.spec("P16")
async def test_it_is_the_session_of_the_agents_own_path(shared: Site) -> None:
    async with shared.client() as ada:
        agent = (await make_agent(ada, "kit"))["id"]
    await shared.key("default", principal="dora", agent=agent)
    async with shared.client("default") as client:
        for path in ("/mcp", f"/mcp/agents/{agent}"):
            body = {**LIST, "method": "tools/call", "params": {"name": "note", "arguments": {"text": path}}}
            assert (await said(client, path, body)).status_code == 200
        assert len((await client.get("/v1/sessions")).json()["items"]) == 1
        ticket = (await said(client, "/mcp", BEGIN)).headers["mcp-session-id"]
        for path in ("/mcp", f"/mcp/agents/{agent}"):
            assert (await said(client, path, LIST, ticket)).status_code == 200
        assert '"name":"echo"' in (await said(client, "/mcp", LIST, ticket)).text
        problem(await client.get("/mcp", headers=MCP_HEADERS), 405, "method_not_allowed")
    async with shared.client() as ada:
        assert (await said(ada, f"/mcp/agents/{agent}", LIST, ticket)).status_code == 404, "it is dora's"


@pytest.mark.spec("P16")
async def test_an_agent_of_code_is_named(shared: Site) -> None:
    await shared.key("of code", agent="foreman")
    async with shared.client("of code") as client:
        assert (await said(client, "/mcp", LIST)).status_code == 200


@pytest.mark.spec("P14", "P16")
async def test_without_an_agent_or_with_anothers_there_is_none(shared: Site) -> None:
    async with shared.client() as ada:
        agent = (await make_agent(ada, "kit"))["id"]
        for response in (await said(ada, "/mcp", LIST), await ada.get("/mcp"), await ada.delete("/mcp")):
            assert "default agent" in problem(response, 404, "not_found")["detail"]
    await shared.key("eve", org="evil", agent=agent)
    await shared.key("nowhere", org="evil", agent="01890000-0000-7000-8000-000000000000")
    details = list[str]()
    for name in ("eve", "nowhere"):
        async with shared.client(name) as client:
            for response in (await said(client, "/mcp", LIST), await client.get("/mcp", headers=MCP_HEADERS)):
                details.append(problem(response, 404, "not_found")["detail"].replace(agent, "X"))
            assert (await client.get("/v1/sessions")).json()["items"] == []
    assert len({detail.replace("01890000-0000-7000-8000-000000000000", "X") for detail in details}) == 1


@pytest.mark.spec("P14", "P16")
async def test_a_key_without_the_scope_is_told_so(shared: Site) -> None:
    await shared.key("reader", scopes=["capset:read"], agent="foreman")
    async with shared.client("reader") as client:
        problem(await said(client, "/mcp", LIST), 403, "permission_denied")


@pytest.mark.spec("P14", "P16")
async def test_a_token_names_its_agent() -> None:
    async with issuing() as issuer:
        for agent, status in (("foreman", 200), ("nobody", 404), (None, 404)):
            headers = {"Authorization": f"Bearer {token(agent=agent)}"}
            async with issuer.site.client(None, headers=headers) as client:
                assert (await said(client, "/mcp", LIST)).status_code == status


@pytest.mark.spec("P16")
@pytest.mark.parametrize("agent", ["", " ", "a\0b", "a" * 201])
async def test_an_agent_has_a_name(shared: Site, agent: str) -> None:
    with pytest.raises(DefinitionError, match="an agent is named"):
        await shared.key("odd", agent=agent)
