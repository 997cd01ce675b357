"""Followers of events: woken by notification, and limited by principal (spec 5, P40, P41)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from capset import Principal
from capset.stores.sql.postgres import store as postgres_store
from capset_server import followers
from capset_server.auth.keys import create_key
from capset_server.http.request_rules import RequestLimits
from tests.databases import require_scheme
from tests.helpers.server.rest.turns import AS_EVENTS, send, turn
from tests.helpers.server.runners import Parrot
from tests.helpers.server.sse import following
from tests.helpers.server.support import make_session, problem, site
from tests.helpers.stores.sql.postgres.support import cut_off
from tests.waiting import until

NEVER = 10_000.0


@pytest.mark.spec("P40")
@pytest.mark.parametrize("engine", ["memory", "sqlite"])
async def test_a_server_wakes_its_own_followers(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followers, "LOOK_SECONDS", NEVER)
    store = "memory://" if engine == "memory" else f"sqlite:///{tmp_path}/capset.db"
    async with site(store=store, generator=Parrot()) as server, server.client() as client:
        session = await make_session(client, "kit")
        async with following(client, f"/v1/sessions/{session}/events") as events, asyncio.timeout(60):
            for number in range(3):
                assert (await send(client, session, number)).status_code == 202
                assert [(await anext(events)).type for _ in range(2)] == ["turn.started", "turn.ended"]
            assert (await client.delete(f"/v1/sessions/{session}")).status_code == 204
            assert [event async for event in events] == []


@pytest.mark.spec("P40")
async def test_what_another_process_stores_in_a_file_is_seen_by_looking(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/capset.db"
    async with AsyncExitStack() as stack:
        first_server, two = [await stack.enter_async_context(site(store=store, generator=Parrot())) for _ in range(2)]
        first, second = [await stack.enter_async_context(server.client()) for server in (first_server, two)]
        session = await make_session(first, "kit")
        async with following(second, f"/v1/sessions/{session}/events") as events, asyncio.timeout(60):
            await turn(first, session, "x")
            assert [(await anext(events)).type for _ in range(2)] == ["turn.started", "turn.ended"]
            assert (await first.delete(f"/v1/sessions/{session}")).status_code == 204
            assert [event async for event in events] == []


@pytest.mark.spec("P40")
async def test_a_server_is_notified_of_what_another_stores(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_scheme()
    monkeypatch.setattr(followers, "LOOK_SECONDS", NEVER)
    monkeypatch.setattr(postgres_store, "RECONNECT_SECONDS", 0.05)
    async with AsyncExitStack() as stack:
        first_server, two = [
            await stack.enter_async_context(site(store=postgres_url, generator=Parrot())) for _ in range(2)
        ]
        first, second = [await stack.enter_async_context(server.client()) for server in (first_server, two)]
        session = await make_session(first, "kit")
        async with following(second, f"/v1/sessions/{session}/events") as events, asyncio.timeout(60):
            for number in range(2):
                await turn(first, session, number)
                assert [(await anext(events)).type for _ in range(2)] == ["turn.started", "turn.ended"]
            assert cut_off(postgres_url) > 0
            await turn(first, session, "while nobody listens, or as they begin again")
            assert [(await anext(events)).type for _ in range(2)] == ["turn.started", "turn.ended"]
            assert (await first.delete(f"/v1/sessions/{session}")).status_code == 204
            assert [event async for event in events] == []


@pytest.mark.spec("P40", "P14")
async def test_an_idle_follower_whose_key_is_revoked_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followers, "LOOK_SECONDS", NEVER)
    monkeypatch.setattr(followers, "CHECK_SECONDS", 0.2)
    async with site() as server:
        row, server.keys["other"] = await create_key(server.kernel, "other", Principal("eve", org="acme"))
        async with server.client() as client:
            agent = (await client.post("/v1/agents", json={"name": "helper", "capabilities": ["kit"]})).json()
        async with server.client("other") as client:
            session = (await client.post("/v1/sessions", json={"agent_id": agent["id"]})).json()["id"]
            async with following(client, f"/v1/sessions/{session}/events") as events, asyncio.timeout(60):
                await until(lambda: server.service.turns.followers.count)
                await server.kernel.store.keys.revoke(row.id, server.kernel.now())
                assert [event async for event in events] == []
        await until(lambda: not server.service.turns.followers.count)


@pytest.mark.spec("P41", "T35")
async def test_a_principal_follows_with_so_many_streams_and_no_more() -> None:
    limits = RequestLimits(followers=2)
    async with site(limits=limits, generator=Parrot()) as server, AsyncExitStack() as stack:
        await server.key("ada again", principal="ada")
        await server.key("bob")
        await server.key("root", scopes=["capset:admin"], org=None)
        ada, ada_again, bob = [
            await stack.enter_async_context(server.client(name)) for name in ("ada", "ada again", "bob")
        ]
        session, other = await make_session(ada, "kit"), await make_session(bob, "kit")
        path = f"/v1/sessions/{session}/events"
        async with following(ada, path), following(ada_again, path):
            await until(lambda: server.service.turns.followers.count == 2)
            for refused in (
                await ada.get(path),
                await ada_again.post(f"/v1/sessions/{session}/messages", json={"content": "x"}, headers=AS_EVENTS),
            ):
                body = problem(refused, 429, "too_many_followers")
                assert ("'followers'" in body["detail"], " 2 " in body["detail"], body["retryable"]) == (True,) * 3
            assert (await ada.get(path, params={"follow": False})).text == "retry: 2000\n\n", "no turn has begun"
            async with server.client("root") as root:
                assert "capset_followers 2.0" in (await root.get("/v1/metrics")).text
            async with following(bob, f"/v1/sessions/{other}/events"):
                await until(lambda: server.service.turns.followers.count == 3)
        await until(lambda: not server.service.turns.followers.count)
        assert len(await turn(ada, session, "x")) == 2
        missing = await ada.post(f"/v1/sessions/{session}/messages", json={}, headers=AS_EVENTS)
        problem(missing, 422, "invalid_arguments")
        await until(lambda: not server.service.turns.followers.count)
