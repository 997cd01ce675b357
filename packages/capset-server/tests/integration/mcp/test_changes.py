"""Clients that listen are told what changes in their own lists and files, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    Subscription,
    SubscriptionLost,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError

from capset import Kernel, Principal
from capset.kernel.kernel import Kernel as AnyKernel
from capset_server.http.request_rules import RequestLimits
from capset_server.mcp import changes
from capset_server.mcp.exchanges import Exchange
from capset_server.mcp.protocol import make_server
from tests.databases import require_scheme
from tests.helpers.server.dynamic import Door
from tests.helpers.server.killed import serving
from tests.helpers.server.support import Site, make_agent, make_session, problem, site
from tests.waiting import until

pytestmark = pytest.mark.realtime

ALL: dict[str, Any] = {"tools_list_changed": True, "prompts_list_changed": True, "resources_list_changed": True}
NOTE = "capset://files/a%20b.md"


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often, so that no test waits for long."""
    monkeypatch.setattr(changes, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(changes, "RUNG_SECONDS", 0.02)


@asynccontextmanager
async def client(server: Site, path: str, key: str = "ada") -> AsyncGenerator[Client]:
    async with server.client(key) as http:
        transport = streamable_http_client(f"{server.url}{path}", http_client=http)
        async with Client(transport, mode="auto") as mcp_client:
            yield mcp_client


async def heard(changed: Subscription, count: int = 1) -> set[ServerEvent]:
    async with asyncio.timeout(60):
        return {await anext(changed) for _ in range(count)}


async def nothing_for(changed: Subscription, seconds: float = 0.4) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await anext(changed)


@pytest.mark.spec("M24")
async def test_tools_that_come_and_go_are_told() -> None:
    door = Door()
    async with Kernel("memory://") as kernel, kernel.open(door.agent, principal=Principal("user-1")) as session:
        exchange = Exchange(session)
        async with (
            Client(make_server(lambda: exchange), mode="auto") as mcp_client,
            mcp_client.listen(**ALL) as changed,
        ):
            assert changed.honored.tools_list_changed
            await nothing_for(changed)
            door.is_open = True
            assert await heard(changed, 2) == {ToolsListChanged(), PromptsListChanged()}
            assert [tool.name for tool in (await mcp_client.list_tools()).tools] == ["v_peek", "v_take"]
            door.is_open = False
            assert await heard(changed, 2) == {ToolsListChanged(), PromptsListChanged()}
            async with mcp_client.listen(prompts_list_changed=True) as narrow:
                door.is_open = True
                assert await heard(narrow) == {PromptsListChanged()}
                await nothing_for(narrow)


@pytest.mark.spec("M24")
async def test_a_session_s_files_are_told_to_their_caller_alone(shared: Site) -> None:
    async with shared.client() as ada, AsyncExitStack() as stack:
        agent = (await make_agent(ada))["id"]
        await shared.key("bob")
        ada_client, bob = [
            await stack.enter_async_context(client(shared, f"/mcp/agents/{agent}", user)) for user in ("ada", "bob")
        ]
        changed, others = [
            await stack.enter_async_context(listener.listen(**ALL, resource_subscriptions=[NOTE, "kit://other"]))
            for listener in (ada_client, bob)
        ]
        assert changed.honored.resource_subscriptions == [NOTE], "what a tool gives is known only by calling it"
        await ada_client.call_tool("write_file", {"path": "/a b.md", "content": "one"})
        assert await heard(changed, 2) == {ResourcesListChanged(), ResourceUpdated(NOTE)}
        sessions = (await ada.get("/v1/sessions")).json()["items"]
        (session,) = [row for row in sessions if row["agent_id"] == agent]
        assert (await ada.put(f"/v1/sessions/{session['id']}/files/a b.md", content=b"two")).status_code == 200
        assert await heard(changed) == {ResourceUpdated(NOTE)}
        assert (await ada.put(f"/v1/sessions/{session['id']}/files/c.md", content=b"c")).status_code in (200, 201)
        assert await heard(changed) == {ResourcesListChanged()}
        await nothing_for(others)


@pytest.mark.gate
@pytest.mark.spec("M24")
async def test_a_new_version_of_the_agent_is_told(shared: Site) -> None:
    async with shared.client() as ada:
        agent = await make_agent(ada, "kit")
        async with client(shared, f"/mcp/agents/{agent['id']}") as mcp_client, mcp_client.listen(**ALL) as changed:
            patched = await ada.patch(
                f"/v1/agents/{agent['id']}",
                json={"capabilities": ["kit", "session_file_system"]},
                headers={"If-Match": '"1"', "Content-Type": "application/merge-patch+json"},
            )
            assert patched.status_code == 200, patched.text
            assert ToolsListChanged() in await heard(changed, 2)
            assert "write_file" in [tool.name for tool in (await mcp_client.list_tools()).tools]


@pytest.mark.spec("M24")
async def test_a_stream_ends_with_its_key_its_session_and_its_server() -> None:
    async with site() as server, server.client() as ada:
        session = await make_session(ada)
        await server.key("lost", principal="ada")
        async with client(server, f"/mcp/sessions/{session}", "lost") as lost, lost.listen(**ALL) as changed:
            (key,) = [row for row in await server.kernel.store.keys.list() if row.name == "lost"]
            await revoke(server.kernel, key.id)
            async with asyncio.timeout(60):
                assert [change async for change in changed] == []
        async with client(server, f"/mcp/sessions/{session}") as last, last.listen(**ALL) as changed:
            assert (await ada.delete(f"/v1/sessions/{session}")).status_code == 204
            async with asyncio.timeout(60):
                assert [change async for change in changed] == []
        await until(lambda: not server.service.turns.followers.count)
        async with client(server, "/mcp/agents/foreman") as end, end.listen(**ALL) as changed:
            server.server.should_exit = True
            async with asyncio.timeout(60):
                assert [change async for change in changed] == [], "the shutdown waits for no one that listens"


@pytest.mark.spec("M24")
async def test_who_listens_at_an_agent_does_not_bring_a_deleted_session_back(shared: Site) -> None:
    await shared.key("eve")
    async with shared.client("eve") as eve, client(shared, "/mcp/agents/foreman", "eve") as mcp_client:
        async with mcp_client.listen(**ALL) as changed:
            (session,) = (await eve.get("/v1/sessions")).json()["items"]
            assert (await eve.delete(f"/v1/sessions/{session['id']}")).status_code == 204
            async with asyncio.timeout(60):
                assert [change async for change in changed] == []
        assert (await eve.get("/v1/sessions")).json()["items"] == []


@pytest.mark.spec("M24")
async def test_a_stream_holds_no_large_body(shared: Site) -> None:
    """The memory for large bodies is everybody's, and a stream has no end."""
    large_message = message(resourceSubscriptions=["file:///" + "x" * 1_000] * 70)
    async with shared.client() as http:
        refused = await http.post("/mcp/agents/foreman", headers=LISTENING, json=large_message)
        problem(refused, 413, "body_too_large")
    await until(lambda: not shared.service.turns.followers.count)


async def revoke(kernel: AnyKernel, key: str) -> None:
    act = kernel.act("key.revoke", {"id": key}, by=Principal("root", org=None))
    assert await kernel.store.keys.revoke(key, now=kernel.now(), act=act)


@pytest.mark.spec("M24")
async def test_streams_are_bounded_for_a_principal_and_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(limits=RequestLimits(followers=1)) as server, AsyncExitStack() as stack:
        await server.key("bob")
        ada = await stack.enter_async_context(client(server, "/mcp/agents/foreman"))
        bob = await stack.enter_async_context(client(server, "/mcp/agents/foreman", "bob"))
        async with ada.listen(**ALL):
            with pytest.raises((MCPError, SubscriptionLost)):
                async with ada.listen(**ALL):
                    pass
            async with server.client() as http:
                refused = await http.post("/mcp/agents/foreman", headers=LISTENING, json=message())
                refusal = problem(refused, 429, "too_many_followers")
                assert ("ask for the lists again" in refusal["detail"], refusal["retryable"]) == (True, True)
                lying = await http.post(
                    "/mcp/agents/foreman", headers=LISTENING | {"Mcp-Method": "ping"}, json=message()
                )
                assert lying.status_code == 400, "the header by which it is counted is its method"
            monkeypatch.setattr(changes, "MAX_LISTENERS", 1)
            with pytest.raises(MCPError, match="no room for another stream of changes") as caught:
                async with bob.listen(**ALL):
                    pass
            assert caught.value.error.data == {"retryable": True, "retry_after": 30.0}
        await until(lambda: not server.service.turns.followers.count)
        async with bob.listen(**ALL):
            pass


LISTENING = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "subscriptions/listen",
}


def message(**notifications: Any) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"_meta": meta, "notifications": notifications or {"toolsListChanged": True}}
    return {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}


@pytest.mark.spec("M15", "M24")
async def test_who_may_use_single_tools_is_told_of_these_alone(shared: Site) -> None:
    await shared.key("single", principal="ada", scopes=["capset:call:kit.echo"])
    async with client(shared, "/mcp/agents/foreman", "single") as mcp_client:
        assert mcp_client.server_capabilities.model_dump(exclude_none=True) == {"tools": {"list_changed": True}}
        async with mcp_client.listen(**ALL, resource_subscriptions=[NOTE]) as changed:
            assert changed.honored.model_dump(exclude_none=True) == {"tools_list_changed": True}
            async with client(shared, "/mcp/agents/foreman") as ada:
                await ada.call_tool("note", {"text": "secret"})
            await nothing_for(changed)


@pytest.mark.spec("M24")
async def test_only_who_can_listen_is_told_that_lists_change(shared: Site) -> None:
    async with client(shared, "/mcp/agents/foreman") as mcp_client:
        capabilities = mcp_client.server_capabilities
        assert capabilities.tools is not None
        assert capabilities.resources is not None
        assert (capabilities.tools.list_changed, capabilities.resources.subscribe) == (True, True)
    async with shared.client() as http:
        transport = streamable_http_client(f"{shared.url}/mcp/agents/foreman", http_client=http)
        async with Client(transport, mode="legacy") as older:
            capabilities = older.server_capabilities
            assert capabilities.tools is not None
            assert capabilities.resources is not None
            assert not capabilities.tools.list_changed
            assert not capabilities.resources.subscribe


@pytest.mark.nightly
@pytest.mark.spec("M24", "P39")
async def test_what_another_server_does_on_the_database_is_told(postgres_url: str) -> None:
    require_scheme()
    with serving(postgres_url) as first, serving(postgres_url) as two:
        headers = {"Authorization": f"Bearer {first.key}"}
        async with (
            httpx2.AsyncClient(base_url=first.url, headers=headers, timeout=30) as http,
            httpx2.AsyncClient(base_url=two.url, headers=headers, timeout=30) as other,
        ):
            session = await make_session(other)
            transport = streamable_http_client(f"{first.url}/mcp/sessions/{session}", http_client=http)
            async with (
                Client(transport, mode="auto") as mcp_client,
                mcp_client.listen(**ALL, resource_subscriptions=[NOTE]) as changed,
            ):
                assert (await other.put(f"/v1/sessions/{session}/files/a b.md", content=b"x")).status_code in (200, 201)
                assert await heard(changed, 2) == {ResourcesListChanged(), ResourceUpdated(NOTE)}
