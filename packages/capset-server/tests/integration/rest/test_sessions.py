"""``/v1/sessions`` and their snapshots (spec 5, P5, P8, P16)."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from capset import Kernel, Principal
from capset_server.auth.callers import Caller
from tests.helpers.server.support import ALL_SCOPES, Site, call, make_agent, make_session, problem, site
from tests.waiting import until


@pytest.mark.spec("P8", "P16")
async def test_a_session_is_of_an_agents_version_and_of_a_principal(asker: httpx2.AsyncClient) -> None:
    agent = await make_agent(asker)
    response = await asker.post("/v1/sessions", json={"agent_id": agent["id"]})
    assert response.status_code == 201
    session = response.json()
    assert response.headers["location"] == f"/v1/sessions/{session['id']}"
    assert (session["agent"], session["agent_id"], session["agent_version"]) == ("helper", agent["id"], 1)
    assert session["static_hash"] == agent["static_hash"]
    assert (session["principal"], session["principal_kind"]) == ("ada", "user")
    assert (await asker.get(f"/v1/sessions/{session['id']}")).json() == session
    page = (await asker.get("/v1/sessions", params={"agent_id": agent["id"]})).json()
    assert page["items"] == [session]


@pytest.mark.spec("P5")
async def test_a_session_keeps_the_version_that_it_started_with(asker: httpx2.AsyncClient) -> None:
    agent = await make_agent(asker, "kit", system_prompt="First.")
    old = (await asker.post("/v1/sessions", json={"agent_id": agent["id"]})).json()
    change = {"system_prompt": "Second.", "capabilities": ["noop"], "name": "renamed"}
    await asker.patch(f"/v1/agents/{agent['id']}", json=change)
    new = (await asker.post("/v1/sessions", json={"agent_id": agent["id"]})).json()
    assert (old["agent_version"], new["agent_version"]) == (1, 2)
    first = (await asker.get(f"/v1/sessions/{old['id']}/snapshot")).json()
    second = (await asker.get(f"/v1/sessions/{new['id']}/snapshot")).json()
    assert (first["system_prompt"], first["capabilities"], first["agent"]) == ("First.", ["kit"], "helper")
    assert (second["system_prompt"], second["capabilities"], second["agent"]) == ("Second.", ["noop"], "renamed")
    assert first["static_hash"] == old["static_hash"] == agent["static_hash"] != second["static_hash"]
    assert (await call(asker, old["id"], "echo", text="x")).json()["data"] == "x"
    gone = (await call(asker, new["id"], "echo", text="x")).json()
    assert gone["error"]["code"] == "not_found"


@pytest.mark.spec("P8")
async def test_a_snapshot_says_what_may_be_called_and_why_not(asker: httpx2.AsyncClient) -> None:
    session = await make_session(asker, "kit")
    snapshot = (await asker.get(f"/v1/sessions/{session}/snapshot")).json()
    tools = {tool["name"]: tool for tool in snapshot["tools"]}
    assert (tools["echo"]["in_play"], tools["unlock"]["in_play"]) == (True, False)
    assert "vault:open" in tools["unlock"]["reason"]
    called = (await call(asker, session, "echo")).json()
    assert (called["runtime_hash"], called["prompt_hash"]) == (snapshot["runtime_hash"], snapshot["prompt_hash"])


@pytest.mark.spec("P8", "P16")
async def test_deleting_takes_the_files_and_leaves_the_records(shared: Site, asker: httpx2.AsyncClient) -> None:
    session = await make_session(asker)
    await call(asker, session, "note", text="x")
    assert len(await shared.kernel.store.files.list(session, "/", recursive=True)) == 1
    assert (await asker.delete(f"/v1/sessions/{session}")).status_code == 204
    for path in ("", "/snapshot", "/files/note.txt", "/files/"):
        problem(await asker.get(f"/v1/sessions/{session}{path}"), 404, "not_found")
    problem(await call(asker, session, "echo"), 404, "not_found")
    problem(await asker.delete(f"/v1/sessions/{session}"), 404, "not_found")
    assert await shared.kernel.store.files.list(session, "/", recursive=True) == []
    records = (await asker.get("/v1/audit", params={"session": session})).json()["items"]
    assert [record["tool"] for record in records] == ["note"]


@pytest.mark.spec("P15")
async def test_sessions_are_paged(here: Site, ada: httpx2.AsyncClient) -> None:
    agent = (await make_agent(ada))["id"]
    session_ids = [(await ada.post("/v1/sessions", json={"agent_id": agent})).json()["id"] for _ in range(5)]
    first = (await ada.get("/v1/sessions", params={"limit": 3})).json()
    rest = (await ada.get("/v1/sessions", params={"limit": 3, "cursor": first["next"]})).json()
    assert [session["id"] for session in first["items"] + rest["items"]] == session_ids[::-1]
    assert rest["next"] is None
    assert (await ada.get("/v1/sessions", params={"agent_id": "another"})).json()["items"] == []


@pytest.mark.spec("P16")
async def test_two_keys_of_one_principal_share_its_sessions(shared: Site, asker: httpx2.AsyncClient) -> None:
    await shared.key("second", principal="ada", permissions=["vault:open"])
    session = await make_session(asker, "kit")
    async with shared.client("second") as second:
        assert (await second.get(f"/v1/sessions/{session}")).status_code == 200
        assert (await call(second, session, "unlock")).json()["data"] == "open", "each with its own permissions"
    assert (await call(asker, session, "unlock")).status_code == 403


@pytest.mark.spec("P16")
async def test_a_deleted_session_is_gone_for_every_key(shared: Site, asker: httpx2.AsyncClient) -> None:
    await shared.key("third", principal="ada")
    session = await make_session(asker)
    async with shared.client("third") as third:
        assert (await third.get(f"/v1/sessions/{session}/snapshot")).status_code == 200
        await asker.delete(f"/v1/sessions/{session}")
        problem(await third.get(f"/v1/sessions/{session}/snapshot"), 404, "not_found")
        problem(await third.put(f"/v1/sessions/{session}/files/a", content=b"x"), 404, "not_found")
    assert await shared.kernel.store.files.list(session, "/", recursive=True) == []


@pytest.mark.spec("P16")
async def test_a_door_of_an_agent_follows_it_when_it_is_renamed(asker: httpx2.AsyncClient) -> None:
    agent = await make_agent(asker, "kit")
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"Accept": "application/json, text/event-stream"}
    path = f"/mcp/agents/{agent['id']}"
    assert (await asker.post(path, json=body, headers=headers)).status_code == 200

    async def session() -> dict[str, Any]:
        (only,) = (await asker.get("/v1/sessions", params={"agent_id": agent["id"]})).json()["items"]
        return only

    async def has_moved() -> bool:
        assert (await asker.post(path, json=body, headers=headers)).status_code == 200
        return (await session())["agent"] == "renamed"

    door = await session()
    await asker.patch(f"/v1/agents/{agent['id']}", json={"name": "renamed", "capabilities": ["noop"]})
    await until(has_moved, "the session to have its agent's new name, once what is cached of the agent is too old")
    moved = await session()
    assert (moved["id"], moved["agent"], moved["agent_version"]) == (door["id"], "renamed", 2)


@pytest.mark.spec("P8")
@pytest.mark.parametrize(
    "body", [{}, {"agent_id": ""}, {"agent_id": 5}, {"agent_id": "a" * 201}, {"agent": "x"}, {"agent_id": "x", "y": 1}]
)
async def test_a_session_without_an_agent_is_refused(asker: httpx2.AsyncClient, body: dict[str, object]) -> None:
    problem(await asker.post("/v1/sessions", json=body), 422, "invalid_arguments")


async def test_sessions_outlast_the_server(tmp_path: object) -> None:
    store = f"sqlite:///{tmp_path}/capset.db"
    async with site(store=store) as server, server.client() as client:
        session = await make_session(client)
        await call(client, session, "note", text="kept")
    async with Kernel(store=store) as kernel:
        assert await kernel.find_session(session) is not None
    async with site(store=store) as server, server.client() as client:
        assert (await client.get(f"/v1/sessions/{session}/files/note.txt")).content == b"kept"
        assert (await call(client, session, "echo", text="on")).json()["data"] == "on"


class Acting:
    """Tokens of a bot: each names the person for whom it acts."""

    resource = None

    async def identify(self, token: str) -> Caller:
        principal = Principal("bot", kind="agent", org="acme").acting_for(Principal(token.split(".")[1], org="acme"))
        return Caller(principal, frozenset(ALL_SCOPES), "jwt:here")


@pytest.mark.spec("P14", "P16")
async def test_a_session_is_of_those_that_its_principal_acts_for() -> None:
    """What a bot was told by one person is not there for it when it acts for another."""
    async with site(tokens=lambda _: Acting()) as server, server.client() as client:

        def bot(name: str) -> dict[str, str]:
            return {"Authorization": f"Bearer for.{name}.here"}

        response = await client.post("/v1/sessions", json={"agent_id": "foreman"}, headers=bot("ada"))
        path = f"/v1/sessions/{response.json()['id']}"
        for place in ("", "/messages", "/events?follow=false"):
            assert (await client.get(path + place, headers=bot("ada"))).status_code == 200
            problem(await client.get(path + place, headers=bot("eve")), 404, "not_found")
        session_lists = [
            (await client.get("/v1/sessions", headers=bot(name))).json()["items"] for name in ("ada", "eve")
        ]
        assert [len(sessions) for sessions in session_lists] == [1, 0]
        problem(await client.post(f"{path}/fork", json={}, headers=bot("eve")), 404, "not_found")
        problem(await client.delete(path, headers=bot("eve")), 404, "not_found")
        callers = [await Acting().identify(f"for.{name}.here") for name in ("ada", "eve", "ada")]
        first, other, repeated = [
            await server.service.thread_session(caller, "foreman", "thread") for caller in callers
        ]
        assert first.id == repeated.id != other.id
        assert callers[0].identity != callers[1].identity
