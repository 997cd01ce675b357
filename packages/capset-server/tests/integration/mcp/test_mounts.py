"""A real server at its three paths: files, prompts and questions of the session that a path leads to."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import TextResourceContents

from tests.helpers.server.mcp.support import Era
from tests.helpers.server.support import Site, make_agent, make_session


@asynccontextmanager
async def client(shared: Site, path: str, era: Era, key: str = "ada") -> AsyncGenerator[Client]:
    async with shared.client(key) as http:
        transport = streamable_http_client(f"{shared.url}{path}", http_client=http)
        async with Client(transport, mode=era) as mcp_client:
            yield mcp_client


@pytest.mark.spec("M11", "P16")
async def test_files_that_came_by_rest_are_resources_of_their_session(shared: Site, era: Era) -> None:
    async with shared.client() as ada:
        session = await make_session(ada)
        other = await make_session(ada)
        assert (await ada.put(f"/v1/sessions/{session}/files/notes/a b.md", content=b"# A" * 50_000)).status_code == 200
    async with client(shared, f"/mcp/sessions/{session}", era) as mcp_client:
        (resource,) = (await mcp_client.list_resources()).resources
        assert (resource.uri, resource.size) == ("capset://files/notes/a%20b.md", 150_000)
        (read,) = (await mcp_client.read_resource(resource.uri)).contents
        assert isinstance(read, TextResourceContents)
        assert read.text == "# A" * 50_000
    async with client(shared, f"/mcp/sessions/{other}", era) as mcp_client:
        assert (await mcp_client.list_resources()).resources == []
        with pytest.raises(MCPError):
            await mcp_client.read_resource(resource.uri)


@pytest.mark.spec("M11", "P16")
async def test_the_session_of_an_agents_path_has_its_own(shared: Site) -> None:
    async with shared.client() as ada:
        agent = (await make_agent(ada))["id"]
    await shared.key("mcp default", principal="ada", agent=agent)
    async with client(shared, f"/mcp/agents/{agent}", "auto") as mcp_client:
        await mcp_client.call_tool("write_file", {"path": "/a.txt", "content": "a"})
    async with client(shared, "/mcp", "auto", "mcp default") as mcp_client:
        assert [resource.name for resource in (await mcp_client.list_resources()).resources] == ["/a.txt"]


@pytest.mark.spec("M11")
async def test_a_key_without_the_permission_sees_no_files(shared: Site) -> None:
    async with shared.client() as ada:
        agent = (await make_agent(ada))["id"]
    await shared.key("blind", permissions=["session_files:write"])
    async with client(shared, f"/mcp/agents/{agent}", "auto", "blind") as mcp_client:
        await mcp_client.call_tool("write_file", {"path": "/a.txt", "content": "a"})
        assert (await mcp_client.list_resources()).resources == []
        with pytest.raises(MCPError, match="lacks the permission session_files:read"):
            await mcp_client.read_resource("capset://files/a.txt")


@pytest.mark.spec("M11", "P13")
async def test_a_response_has_the_headers_of_its_own_request_only(shared: Site) -> None:
    async with shared.client() as ada:
        path = f"/mcp/sessions/{await make_session(ada)}"
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
        accept = {"Accept": "application/json, text/event-stream"}
        opened = await ada.post(path, json=message, headers=accept)
        ticket = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
        message |= {"method": "tools/call", "params": {"name": "read_file", "arguments": {"path": "/a"}}}
        for correlation in ("first", "second"):
            headers = {**accept, **ticket, "MCP-Protocol-Version": "2025-11-25", "X-Correlation-Id": correlation}
            response = await ada.post(path, json=message, headers=headers)
            assert response.headers["content-type"].startswith("text/event-stream")
            assert "mcp-session-id" not in response.headers
            assert response.headers.get_list("x-correlation-id") == [correlation]
