"""The end of all use within a second of a revocation: one property, over every kind of it (spec 4, G54).

A kind gives something away, and takes it back by another process of the same database, which tells this server nothing.
Its ways use it: each is tried before, and again and again after that. What takes long (a stream, a turn) goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from capset import Kernel
from capset.ext import Answer
from capset.kernel.registry import Registry
from capset_cli.common.upstream import Upstream
from capset_connect.agents.mcp_servers import AgentServers
from capset_connect.agents.permissions import Author
from capset_connect.agents.server_allowances import ServerAllowances
from capset_connect.agents.store import StoredAgents
from capset_connect.mcp import McpServer, open_mcp_servers
from capset_connect.openapi import OpenApi, open_apis
from capset_connect.pins.tool_pins import withdraw
from capset_server.auth.keys import revoke_key
from tests.databases import require_scheme
from tests.helpers.connect.mcp.urls import There
from tests.helpers.connect.notifications.slack_town import buttons, click
from tests.helpers.server.approvals.slack import chatting
from tests.helpers.server.approving import again, asked
from tests.helpers.server.revoking import BOSS, REQUESTS, Bench, Grant, Way
from tests.helpers.server.support import FILES, Site, call, site
from tests.waiting import until

SECONDS: Final = 1.0
"""How much longer something may be used, from the answer to its revocation on."""
PATIENCE: Final = 0.5
"""The tolerance beside that, for a busy machine."""
AFTER: Final = 0.8
"""How long it is tried after that."""
ROOT: Final = Author("user:root", is_admin=True)

Kind = Callable[["Bench"], Awaitable[Grant]]
KINDS: Final[dict[str, Kind]] = {}


def kind(name: str) -> Callable[[Kind], Kind]:
    """List a kind of revocation by its name."""

    def register(grant_maker: Kind) -> Kind:
        KINDS[name] = grant_maker
        return grant_maker

    return register


@kind("an API key")
async def api_key(bench: Bench) -> Grant:
    await bench.open()
    return Grant(await bench.ways(await bench.agent("desk")), lambda: revoke_own_key(bench))


@kind("a permission of a principal")
async def permission(bench: Bench) -> Grant:
    await bench.open()

    async def revoke() -> None:
        await revoke_own_key(bench)
        await bench.sign_in("ada", *FILES)  # the same principal, with less

    return Grant(await bench.ways(await bench.agent("desk")), revoke)


async def revoke_own_key(bench: Bench) -> None:
    """Revoke the keys of ada."""
    async with bench.elsewhere() as kernel:
        for row in await kernel.store.keys.list():
            if row.principal == "ada":
                assert await revoke_key(kernel, row.id)


@kind("an agent, which is archived")
async def agent(bench: Bench) -> Grant:
    await bench.open()
    archived = await bench.agent("desk")

    async def revoke() -> None:
        async with bench.elsewhere() as kernel:
            agents = StoredAgents(kernel, Registry.of([bench.local()]))
            await agents.change("acme", archived, {"status": "archived"}, author=ROOT)

    return Grant(await bench.ways(archived), revoke)


def mcp_server(peer: There) -> McpServer:
    """Return the server of the tools as an operator declares it."""
    rules: dict[str, Any] = {"tick": {"effect": "read"}, "pay": {"approval": "ask"}}
    return McpServer(name="desk", url=peer.url, internal=[peer.host], rules=rules, trust_first_use=True)


@kind("the approval of tools of an operator's MCP server")
async def operators_tools(bench: Bench) -> Grant:
    capset_server = await bench.open()
    server = mcp_server(await bench.mcp())
    (capability,) = await bench.stack.enter_async_context(open_mcp_servers(capset_server.kernel, [server]))

    async def revoke() -> None:
        async with bench.elsewhere() as kernel:
            assert await withdraw(kernel, server, BOSS) == ["flow", "pay", "tick"]

    return Grant(await bench.ways(await bench.use(capability)), revoke)


@kind("the approval of operations of an API")
async def operations(bench: Bench) -> Grant:
    capset_server = await bench.open()
    peer = await bench.api()
    place = {"in": "query", "name": "place", "required": True, "schema": {"type": "string"}}
    operation = {"parameters": [place], "responses": {"200": {"description": "Counted."}}}
    paths = {
        f"/{name}": {"get": {"operationId": name, "summary": "Count.", **operation}} for name in ("tick", "flow", "pay")
    }
    api = OpenApi(
        name="desk",
        document={"openapi": "3.1.0", "info": {"title": "desk", "version": "1"}, "paths": paths},
        url=f"http://{peer.host}",
        internal=[peer.host],
        rules={"pay": {"approval": "ask"}},
        trust_first_use=True,
    )
    (capability,) = await bench.stack.enter_async_context(open_apis(capset_server.kernel, [api]))

    async def revoke() -> None:
        async with bench.elsewhere() as kernel:
            assert await withdraw(kernel, api, BOSS) == ["flow", "pay", "tick"]

    return Grant(await bench.ways(await bench.use(capability)), revoke)


@kind("an operator's MCP server, which is declared no more")
async def operators_server(bench: Bench) -> Grant:
    capset_server = await bench.open()
    server, upstream = mcp_server(await bench.mcp()), Upstream(bench.store)
    upstream._kernel = capset_server.kernel  # which a command opens by it
    capability = await upstream.capability(server, capset_server.kernel)
    assert upstream._servers is not None
    await bench.stack.enter_async_context(upstream._servers)

    async def revoke() -> None:
        upstream.declare([])  # as a reload of the configuration does

    return Grant(await bench.ways(await bench.use(capability)), revoke)


async def own_server(bench: Bench) -> str:
    """Make an agent with the tools of an MCP server of its own, approved by an administrator, and return its id."""
    await bench.open()
    peer = await bench.mcp()
    declared = {"desk": {"url": peer.url, "rules": {"tick": {"effect": "read"}, "pay": {"approval": "ask"}}}}
    agent_id = await bench.agent("mcp:desk", mcp_servers=declared)
    at = f"/v1/agents/{agent_id}/mcp-servers/desk"
    body = (await bench.clients["root"].get(at)).json()
    assert body["problem"] is None, body
    hashes = {tool["tool"]: tool["hash"] for tool in body["tools"]}
    approved = await bench.clients["root"].post(f"{at}/approve", json={"tools": hashes})
    assert approved.status_code == 200, approved.text
    return agent_id


def stored(kernel: Kernel) -> StoredAgents:
    """Return the agents of a database as another server with the same options sees them."""
    return StoredAgents(kernel, Registry.of([]), AgentServers(kernel, ServerAllowances(["acme=127.0.0.1"])))


@kind("the approval of tools of an agent's own MCP server")
async def own_tools(bench: Bench) -> Grant:
    owner = await own_server(bench)

    async def revoke() -> None:
        async with bench.elsewhere() as kernel:
            row = await kernel.store.agents.get("acme", owner)
            assert row is not None
            gone = await stored(kernel).servers.withdraw(row, "desk", ["flow", "pay", "tick"], BOSS)
            assert gone == ["flow", "pay", "tick"]

    return Grant(await bench.ways(owner), revoke)


@kind("an agent's own MCP server, which it declares no more")
async def dropped_server(bench: Bench) -> Grant:
    owner = await own_server(bench)

    async def revoke() -> None:
        async with bench.elsewhere() as kernel:
            patch = {"mcp_servers": None, "capabilities": []}
            await stored(kernel).change("acme", owner, patch, author=ROOT)

    return Grant(await bench.ways(owner), revoke)


@kind("an approval, which is taken back")
async def approval(bench: Bench) -> Grant:
    capset_server = await bench.open()
    session = await bench.session(await bench.agent("desk"))
    approved: list[tuple[str, str]] = []
    for number in range(REQUESTS):
        answer = await call(bench.clients["ada"], session, "desk_pay", place=f"approved {number}")
        request = answer.json()["approval"]
        await capset_server.kernel.approvals.decide(request, Answer(approved=True), by=BOSS)
        approved.append((request, f"approved {number}"))

    async def way() -> bool:
        request, place = approved.pop() if approved else ("", "none")
        body = {"tool": "desk_pay", "arguments": {"place": place}, "approval": request}
        await bench.clients["ada"].post(f"/v1/sessions/{session}/calls", json=body)
        return bench.uses[place] > 0

    async def revoke() -> None:
        async with bench.elsewhere() as kernel:
            await kernel.approvals.withdraw([request_id for request_id, _ in approved], org="acme", by="boss")

    return Grant({"a call with it": way}, revoke)


async def chat(bench: Bench) -> tuple[Site, httpx2.AsyncClient, str, list[tuple[str, dict[str, Any]]]]:
    """Serve with a conversation in Slack in which bea decides; return requests that wait, each with its button."""
    slack, capset_server, client, session = await bench.stack.enter_async_context(chatting(store=bench.store))
    waiting: list[tuple[str, dict[str, Any]]] = []
    for number in range(REQUESTS):
        request = await asked(client, session, amount=number + 1)
        waiting.append((request, buttons(await slack.message(number + 1))["capset_approve"]))
    return capset_server, client, session, waiting


def clicks(bench: Bench, client: httpx2.AsyncClient, session: str, waiting: list[tuple[str, dict[str, Any]]]) -> Way:
    """Return the way of a person who decides in a chat."""

    async def way() -> bool:
        if not waiting:
            return False
        request, button = waiting.pop()
        amount = len(waiting) + 1
        await click(bench.here, button)
        return (await again(client, session, request, amount=amount)).status_code == 200

    return way


@kind("a person of a chat")
async def person(bench: Bench) -> Grant:
    bench.here, client, session, waiting = await chat(bench)

    async def revoke() -> None:
        async with bench.here.client("root") as root:
            (bea,) = (await root.get("/v1/people")).json()["items"]
            assert (await root.delete(f"/v1/people/{bea['id']}")).status_code == 204

    return Grant({"a click": clicks(bench, client, session, waiting)}, revoke)


@kind("a channel, without which the server starts again")
async def channel(bench: Bench) -> Grant:
    bench.here, client, session, waiting = await chat(bench)

    async def revoke() -> None:
        bench.here = await bench.stack.enter_async_context(site(store=bench.store))

    return Grant({"a click": clicks(bench, client, session, waiting)}, revoke)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.nightly)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a database of the test's own."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/capset.db"
    require_scheme()
    return request.getfixturevalue("postgres_url")


@pytest.mark.gate
@pytest.mark.realtime
@pytest.mark.spec("G54", "R8", "T61")
@pytest.mark.parametrize("name", KINDS)
async def test_what_is_withdrawn_is_used_no_more_a_second_later(name: str, store: str) -> None:
    async with AsyncExitStack() as stack:
        grant = await KINDS[name](Bench(store, stack))
        for way, attempt in grant.ways.items():
            await until(attempt, f"{way} to use it as long as it is not withdrawn")
        await grant.revoke()
        revoked = time.monotonic()
        tries: list[tuple[float, str]] = []

        async def keep_trying(way: str, attempt: Way) -> None:
            while (begun := time.monotonic()) < revoked + SECONDS + PATIENCE + AFTER:
                if await attempt():
                    tries.append((begun - revoked, way))
                await asyncio.sleep(0.1)

        await asyncio.gather(*(keep_trying(*entry) for entry in grant.ways.items()))
        assert [(way, after) for after, way in tries if after > SECONDS + PATIENCE] == []
