"""A key that is revoked at one of three servers opens no door of any of them a second later (spec 10, D7)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest

from tests.databases import require_scheme
from tests.helpers.server.many_servers import ask_mcp
from tests.helpers.server.running import EVERYTHING, Running, running
from tests.helpers.server.sse import following
from tests.helpers.server.support import make_agent
from tests.waiting import until

SECONDS = 1.0
"""How much longer a revoked key may be taken, from the answer to its revocation on."""
PATIENCE = 1.0
"""What is allowed beside that for the end of a stream to be seen, on a busy machine."""

Ask = Callable[[], Awaitable[bool]]


@dataclass
class Door:
    """A way into a server, tried again and again: when each request was sent, and whether it was let in."""

    name: str
    ask: Ask
    tried: list[tuple[float, bool]] = field(default_factory=list[tuple[float, bool]])

    async def keep_trying(self) -> None:
        """Try it again and again."""
        while True:
            sent = time.monotonic()
            self.tried.append((sent, await self.ask()))
            await asyncio.sleep(0.02)


async def doors_of(server: Running, key: str, agent: str, stack: AsyncExitStack) -> list[Door]:
    """Return the ways into a server: REST, MCP, and a page of the console by a sign-in."""

    async def client(**headers: str) -> httpx2.AsyncClient:
        http_client = httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=30, trust_env=False)
        return await stack.enter_async_context(http_client)

    bearing = await client(Authorization=f"Bearer {key}")
    browser = await client()
    assert (await browser.post("/login", data={"key": key})).status_code == 303

    async def rest() -> bool:
        return opened(await bearing.get("/v1/agents"), refused=401)

    async def mcp() -> bool:
        return opened(await ask_mcp(bearing, f"/mcp/agents/{agent}", "tools/list"), refused=401)

    async def page() -> bool:
        return opened(await browser.get("/agents"), refused=303)

    return [Door(f"{ask.__name__} at {server.url}", ask) for ask in (rest, mcp, page)]


def opened(answer: httpx2.Response, *, refused: int) -> bool:
    assert answer.status_code in (200, refused), answer.text
    return answer.status_code == 200


async def follow_to_the_end(server: Running, key: str, session: str, begun: asyncio.Event) -> None:
    """Follow a session's events, of which there are none, until the stream has ended."""
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=30, trust_env=False) as client,
        following(client, f"/v1/sessions/{session}/events") as events,
    ):
        begun.set()
        assert [event async for event in events] == []


@pytest.mark.gate
@pytest.mark.realtime
@pytest.mark.spec("D7", "P14")
@pytest.mark.parametrize("engine", [pytest.param("sqlite", marks=pytest.mark.nightly), "postgres"])
async def test_a_revoked_key_is_refused_everywhere_within_a_second(
    engine: str, tmp_path: Path, postgres_url: str
) -> None:
    require_scheme()
    db = postgres_url if engine == "postgres" else f"sqlite:///{tmp_path}/capset.db"
    async with AsyncExitStack() as stack:
        folders = [tmp_path / name for name in ("one", "two", "three")]
        for folder in folders:
            folder.mkdir()
        servers = [stack.enter_context(running(folder, CAPSET_DB=db)) for folder in folders]
        admins = {"Authorization": f"Bearer {servers[0].key('root', scopes=EVERYTHING)}"}
        # Two keys: a server that ends a stream for a key would take it for a shorter time at its other doors, too.
        scopes = ("capset:read", "capset:call", "capset:write")
        key, other = (servers[0].key("eve", org="acme", scopes=scopes) for _ in range(2))
        bearing = {"Authorization": f"Bearer {key}"}
        async with httpx2.AsyncClient(base_url=servers[1].url, headers=bearing, trust_env=False) as eve:
            agent = (await make_agent(eve, "test_math"))["id"]
            session = (await eve.post("/v1/sessions", json={"agent_id": agent})).json()["id"]
        doors = [door for server in servers for door in await doors_of(server, key, agent, stack)]
        begun = [asyncio.Event() for _ in servers]
        following_events = [
            asyncio.ensure_future(follow_to_the_end(server, other, session, event))
            for server, event in zip(servers, begun, strict=True)
        ]
        trying: list[asyncio.Task[None]] = []
        try:
            for event in begun:
                await event.wait()
            async with httpx2.AsyncClient(base_url=servers[0].url, headers=admins, trust_env=False) as admin:
                ids = [
                    entry["id"] for entry in (await admin.get("/v1/keys", params={"principal": "eve"})).json()["items"]
                ]
            assert len(ids) == 2
            await asyncio.sleep(
                SECONDS + 0.2
            )  # so that each server looks the key up now, and takes it as long as it may
            assert [await door.ask() for door in doors] == [True] * len(doors)
            async with httpx2.AsyncClient(base_url=servers[0].url, headers=admins, trust_env=False) as admin:
                for key_id in ids:
                    assert (await admin.post(f"/v1/keys/{key_id}/revoke")).json()["revoked_at"]
            revoked = time.monotonic()
            trying = [asyncio.ensure_future(door.keep_trying()) for door in doors]
            await asyncio.wait_for(asyncio.gather(*following_events), SECONDS + PATIENCE)
            await until(
                lambda: all(door.tried and door.tried[-1][0] > revoked + SECONDS for door in doors),
                "every door to be tried once the key may not be taken any more",
            )
        finally:
            for task in (*trying, *following_events):
                task.cancel()
            await asyncio.wait([*trying, *following_events])
        assert [task.exception() for task in trying if not task.cancelled()] == []
        for door in doors:
            late = [was_let_in for sent, was_let_in in door.tried if sent > revoked + SECONDS]
            assert late, door.name
            assert not any(late), door.name
        for server in servers:
            async with httpx2.AsyncClient(base_url=server.url, trust_env=False) as browser:
                assert (await browser.post("/login", data={"key": key})).status_code == 401
