"""Moving a session to another version of its agent (spec 5, P5, P8)."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from capset import Principal
from tests.helpers.server.support import Site, call, foreman, make_agent, problem


async def two_versions(client: httpx2.AsyncClient) -> tuple[dict[str, Any], str]:
    """Make a session of an agent's first version, and then the second version; return the agent and the session."""
    agent = await make_agent(client, "kit", system_prompt="First.")
    session = (await client.post("/v1/sessions", json={"agent_id": agent["id"]})).json()["id"]
    change = {"system_prompt": "Second.", "capabilities": ["kit", "session_file_system"]}
    changed = await client.patch(f"/v1/agents/{agent['id']}", json=change)
    assert changed.json()["version"] == 2
    return changed.json(), session


@pytest.mark.spec("P5", "P8")
async def test_a_session_moves_back_to_a_version_that_was_replaced(asker: httpx2.AsyncClient) -> None:
    agent, session = await two_versions(asker)
    first = (await asker.get(f"/v1/sessions/{session}")).json()
    await asker.patch(f"/v1/sessions/{session}", json={"agent_version": None})
    back = await asker.patch(f"/v1/sessions/{session}", json={"agent_version": 1})
    assert back.json() == first
    snapshot = (await asker.get(f"/v1/sessions/{session}/snapshot")).json()
    assert (snapshot["system_prompt"], snapshot["static_hash"]) == ("First.", first["static_hash"])
    assert first["static_hash"] != agent["static_hash"]


@pytest.mark.spec("P5", "P8")
@pytest.mark.parametrize("version", [None, 2, 2.0])
async def test_a_session_moves_when_it_is_told_to(asker: httpx2.AsyncClient, version: float | None) -> None:
    agent, session = await two_versions(asker)
    await call(asker, session, "note", text="kept")
    before = (await asker.get(f"/v1/sessions/{session}")).json()
    moved = await asker.patch(f"/v1/sessions/{session}", json={"agent_version": version})
    assert moved.status_code == 200, moved.text
    changes = {"agent_version": 2, "static_hash": agent["static_hash"]}
    assert moved.json() == {**before, **changes}
    assert moved.headers["etag"] == '"2"'
    assert (await asker.get(f"/v1/sessions/{session}")).json() == moved.json()
    snapshot = (await asker.get(f"/v1/sessions/{session}/snapshot")).json()
    assert (snapshot["system_prompt"], snapshot["static_hash"]) == ("Second.", agent["static_hash"])
    assert (await call(asker, session, "read_file", path="/note.txt")).json()["data"]["content"] == "kept"


@pytest.mark.spec("P5")
async def test_the_next_link_tells_that_it_moved(asker: httpx2.AsyncClient) -> None:
    _, session = await two_versions(asker)
    first = (await asker.post("/v1/links", json={"session_id": session})).json()
    await asker.patch(f"/v1/sessions/{session}", json={"agent_version": None})
    second = (await asker.post("/v1/links", json={"session_id": session, "reason": "moved"})).json()
    (transition,) = (await asker.get(f"/v1/sessions/{session}/transitions")).json()["items"]
    assert (transition["from_link"], transition["to_link"]) == (first["id"], second["id"])
    assert transition["reason"] == "moved"


@pytest.mark.spec("P15")
async def test_a_session_in_another_version_than_expected_stays(asker: httpx2.AsyncClient) -> None:
    _, session = await two_versions(asker)
    path = f"/v1/sessions/{session}"
    tag = (await asker.get(path)).headers["etag"]
    assert tag == '"1"'
    refused = await asker.patch(path, json={"agent_version": 2}, headers={"If-Match": '"2"'})
    problem(refused, 412, "outdated")
    assert (await asker.get(path)).headers["etag"] == tag
    assert (await asker.patch(path, json={"agent_version": 2}, headers={"If-Match": tag})).status_code == 200


@pytest.mark.spec("P5")
async def test_a_version_that_there_is_not_is_not_found(asker: httpx2.AsyncClient) -> None:
    _, session = await two_versions(asker)
    body = problem(await asker.patch(f"/v1/sessions/{session}", json={"agent_version": 9}), 404, "not_found")
    assert "no version 9" in body["detail"]


@pytest.mark.spec("P5", "P16")
async def test_what_has_no_versions_does_not_move(shared: Site, asker: httpx2.AsyncClient) -> None:
    of_code = (await asker.post("/v1/sessions", json={"agent_id": "foreman"})).json()["id"]
    problem(await asker.patch(f"/v1/sessions/{of_code}", json={"agent_version": 1}), 409, "conflict")
    by_hand = shared.kernel.new_session(foreman, Principal("ada", org="acme"))
    await shared.kernel.store.sessions.create(by_hand)
    problem(await asker.patch(f"/v1/sessions/{by_hand.id}", json={"agent_version": None}), 409, "conflict")
    agent = await make_agent(asker)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"Accept": "application/json, text/event-stream"}
    await asker.post(f"/mcp/agents/{agent['id']}", json=body, headers=headers)
    (door,) = (await asker.get("/v1/sessions", params={"agent_id": agent["id"]})).json()["items"]
    error = problem(await asker.patch(f"/v1/sessions/{door['id']}", json={"agent_version": 1}), 409, "conflict")
    assert "by itself" in error["detail"]


@pytest.mark.spec("P8")
@pytest.mark.parametrize("body", [{}, {"agent_version": 0}, {"agent_version": "2"}, {"agent_version": 1, "agent": "x"}])
async def test_a_move_to_nowhere_is_refused(asker: httpx2.AsyncClient, body: dict[str, object]) -> None:
    agent = await make_agent(asker)
    session = (await asker.post("/v1/sessions", json={"agent_id": agent["id"]})).json()["id"]
    problem(await asker.patch(f"/v1/sessions/{session}", json=body), 422, "invalid_arguments")
