"""Agents that choose of their capabilities, and sessions whose tools come and go, over REST (spec 5, P4, P6–P8)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from tests.helpers.server.dynamic import Door, desk, shelf
from tests.helpers.server.support import Site, call, problem, site

ENTRY: dict[str, Any] = {
    "id": "shelf",
    "presets": {"quiet": True, "writing": False},
    "config": {"count": 7},
    "prefix": "s_",
    "rename": {"put": "place"},
}


@pytest.fixture(scope="module")
async def shared() -> AsyncGenerator[Site]:
    """Give a server with the shelf, the desk, and an agent in code whose tools come and go."""
    async with site(shelf, desk, agents=[Door(is_open=True).agent]) as server:
        yield server


async def made(asker: httpx2.AsyncClient, *capabilities: Any) -> dict[str, Any]:
    response = await asker.post("/v1/agents", json={"name": "keeper", "capabilities": list(capabilities)})
    assert response.status_code == 201, response.text
    return response.json()


async def session_of(asker: httpx2.AsyncClient, agent_id: str) -> str:
    return (await asker.post("/v1/sessions", json={"agent_id": agent_id})).json()["id"]


@pytest.mark.spec("P4", "P7")
async def test_entries_come_back_as_they_were_and_plain_ids_as_such(asker: httpx2.AsyncClient) -> None:
    agent = await made(asker, "noop", ENTRY)
    assert agent["capabilities"] == ["noop", ENTRY]
    url = f"/v1/agents/{agent['id']}"
    assert (await asker.get(url)).json() == agent
    same = await asker.patch(url, json={"capabilities": agent["capabilities"]})
    assert same.json() == agent, "what is read can be written again"
    plain = (await asker.patch(url, json={"capabilities": [{"id": "bookcase", "presets": {}}]})).json()
    assert (plain["capabilities"], plain["version"]) == (["shelf"], 2)
    assert plain["static_hash"] != agent["static_hash"]


@pytest.mark.spec("P3", "P4")
async def test_everything_that_does_not_fit_is_named(asker: httpx2.AsyncClient) -> None:
    wrong = {"id": "shelf", "presets": {"quite": True}, "config": {"count": 0, "x": 1}, "rename": {"look": "a b"}}
    body = {"name": "x", "capabilities": ["kitt", wrong, "bookcase", {"id": "noop", "config": {}}]}
    refusal = problem(await asker.post("/v1/agents", json=body), 422, "invalid_definition")
    problems = {field["path"]: field["expected"] for field in refusal["fields"]}
    assert problems.keys() == {
        "capabilities.0",
        *(f"capabilities.1.{place}" for place in ("presets.quite", "config.count", "config.x", "rename.look")),
        "capabilities.2",
        "capabilities.3.config",
    }
    assert "did you mean 'quiet'" in problems["capabilities.1.presets.quite"]


@pytest.mark.spec("P8", "P9", "C40")
async def test_a_session_has_what_was_chosen(shared: Site, asker: httpx2.AsyncClient) -> None:
    session = await session_of(asker, (await made(asker, ENTRY))["id"])
    assert (await call(asker, session, "s_look")).json()["data"] == 7
    assert (await call(asker, session, "place", book="x")).status_code == 404, "its preset is off"
    snapshot = (await asker.get(f"/v1/sessions/{session}/snapshot")).json()
    assert [entry["name"] for entry in snapshot["tools"]] == ["s_look"]
    (used,) = snapshot["uses"]
    assert used == {
        "id": "shelf",
        "name": "A shelf",
        "path": ["keeper", "shelf"],
        "presets": {"writing": False, "quiet": True},
        "config": {"count": 7},
        "names": {"look": "s_look", "put": "place"},
        "is_dynamic": False,
    }
    assert {(entry["surface"], entry["name"], entry.get("preset")) for entry in snapshot["explained"]} == {
        ("tool", "s_look", None),
        ("instruction", "Keep it tidy.", None),
        ("context", "Hush.", "quiet"),
    }
    assert snapshot["system_text"].endswith("Hush.")
    record = await shared.record(session=session, tool="s_look")
    assert (record.capability, record.static_hash) == ("shelf", snapshot["static_hash"])


@pytest.mark.spec("C40")
async def test_what_came_by_another_says_so(asker: httpx2.AsyncClient) -> None:
    session = await session_of(asker, (await made(asker, "desk"))["id"])
    snapshot = (await asker.get(f"/v1/sessions/{session}/snapshot")).json()
    assert [(use["id"], use["path"]) for use in snapshot["uses"]] == [
        ("shelf", ["keeper", "desk", "shelf"]),
        ("desk", ["keeper", "desk"]),
    ]
    assert [entry["name"] for entry in snapshot["tools"]] == ["d_look", "d_put"]


@pytest.mark.spec("C27", "P8")
async def test_tools_that_come_and_go_are_those_of_the_moment() -> None:
    door = Door()
    async with site(agents=[door.agent]) as server, server.client() as asker:
        session = await session_of(asker, "thief")
        assert (await call(asker, session, "v_peek")).status_code == 404
        before = (await asker.get(f"/v1/sessions/{session}/snapshot")).json()
        door.is_open = True
        peeked = (await call(asker, session, "v_peek")).json()
        taken = (await call(asker, session, "v_take")).json()
        after = (await asker.get(f"/v1/sessions/{session}/snapshot")).json()
        assert (peeked["data"], taken["data"]) == ({"seen": "gold"}, "taken")
        assert [entry["name"] for entry in before["tools"]] == []
        assert [entry["name"] for entry in after["tools"]] == ["v_peek", "v_take"]
        assert [(use["id"], use["is_dynamic"]) for use in after["uses"]] == [("vault", True)]
        assert (before["dynamic"], after["dynamic"]) == (["inside"], ["inside"])
        assert before["system_text"].endswith("<door>\n  shut\n</door>")
        assert after["system_text"].endswith("<door>\n  open\n</door>")
        assert peeked["runtime_hash"] == taken["runtime_hash"] == after["runtime_hash"] != before["runtime_hash"]
        door.broken = True
        refusal = problem(await asker.get(f"/v1/sessions/{session}/snapshot"), 500, "context_error")
        assert "stands()" in refusal["detail"]
        assert "hunter2" not in refusal["detail"]


@pytest.mark.spec("P5")
async def test_a_session_of_what_only_code_says_is_refused_where_the_code_is_not(tmp_path: Any) -> None:
    store = f"sqlite:///{tmp_path}/capset.db"
    async with site(store=store, agents=[Door().agent]) as server, server.client() as asker:
        session = await session_of(asker, "thief")
    async with site(store=store, agents=[Door(is_open=True).agent]) as server:
        await server.key("again", principal="ada")
        async with server.client("again") as asker:
            assert (await call(asker, session, "v_peek")).status_code == 200, "its code is here: it goes on"
    async with site(store=store) as server:
        await server.key("once more", principal="ada")
        async with server.client("once more") as asker:
            refusal = problem(await asker.get(f"/v1/sessions/{session}/snapshot"), 409, "conflict")
            assert "dynamic uses" in refusal["detail"]
            problem(await call(asker, session, "v_peek"), 409, "conflict")


@pytest.mark.spec("P6")
async def test_a_capability_is_told_with_all_that_can_be_chosen(asker: httpx2.AsyncClient) -> None:
    capability = (await asker.get("/v1/capabilities/shelf")).json()
    assert (await asker.get("/v1/capabilities/bookcase")).json() == capability
    assert (capability["id"], capability["risk"], capability["version"], capability["aliases"]) == (
        "shelf",
        "medium",
        "2",
        ["bookcase"],
    )
    assert [entry["name"] for entry in capability["tools"]] == ["look", "put"]
    assert capability["presets"] == [
        {
            "name": "writing",
            "default": True,
            "instructions": ["You may put."],
            "tools": ["put"],
            "adds": ["instructions", "tools"],
        },
        {"name": "quiet", "default": False, "instructions": [], "tools": [], "adds": ["context"]},
    ]
    assert capability["config"]["properties"]["count"] == {"default": 5, "minimum": 1, "type": "integer"}
    assert capability["config"]["additionalProperties"] is False, "what a config may not have is refused"
    assert (await asker.get("/v1/capabilities/desk")).json()["uses"] == ["shelf"]
    page = (await asker.get("/v1/capabilities", params={"text": "BOOKCASE"})).json()
    assert [row["id"] for row in page["items"]] == ["shelf"]
