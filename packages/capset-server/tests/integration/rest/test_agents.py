"""``/v1/agents`` (spec 5, P3, P4, P7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from capset import Agent, Capability
from capset_server.client import Client
from tests.helpers.server.support import Site, make_agent, make_session, problem, site

FULL: dict[str, Any] = {
    "name": "Helper 1.0",
    "description": "Helps.",
    "system_prompt": "Help.",
    "instructions": ["Be kind.", "Be brief."],
    "capabilities": ["kit", {"id": "noop"}],
    "tags": ["a", "b", "a"],
}


@pytest.mark.spec("P4", "P7", "P15")
async def test_an_agent_is_kept_as_it_was_given(asker: httpx2.AsyncClient) -> None:
    created = await asker.post("/v1/agents", json=FULL)
    assert created.status_code == 201
    agent = created.json()
    assert created.headers["location"] == f"/v1/agents/{agent['id']}"
    assert created.headers["etag"] == '"1"'
    expected = {**FULL, "capabilities": ["kit", "noop"], "tags": ["a", "b"], "status": "active", "version": 1}
    assert {name: agent[name] for name in expected} == expected
    assert (agent["read_only"], agent["notices"]) == (False, [])
    assert len(agent["static_hash"]) == 64
    assert agent["created_at"] == agent["updated_at"]
    got = await asker.get(f"/v1/agents/{agent['id']}")
    assert (got.json(), got.headers["etag"]) == (agent, '"1"')


@pytest.mark.spec("P7")
async def test_a_patch_is_a_merge_patch(asker: httpx2.AsyncClient) -> None:
    agent = (await asker.post("/v1/agents", json=FULL)).json()
    url, headers = f"/v1/agents/{agent['id']}", {"Content-Type": "application/merge-patch+json"}
    changed = await asker.patch(url, content=b'{"description": null, "instructions": ["Be calm."]}', headers=headers)
    assert (changed.status_code, changed.headers["etag"]) == (200, '"2"')
    now = changed.json()
    assert (now["description"], now["instructions"]) == ("", ["Be calm."]), "null clears, a list is replaced whole"
    unchanged = set(agent) - {"description", "instructions", "version", "static_hash", "updated_at"}
    assert {name: now[name] for name in unchanged} == {name: agent[name] for name in unchanged}
    assert now["static_hash"] != agent["static_hash"]
    assert now["updated_at"] > agent["updated_at"]
    assert (await asker.get(url)).json() == now
    same = await asker.patch(url, json={"description": ""})
    assert same.json() == now, "what changes nothing makes no version"


@pytest.mark.spec("P4", "P7")
@pytest.mark.parametrize(
    ("patch", "path"),
    [
        ({"name": None}, "name"),
        ({"name": "-"}, "name"),
        ({"system_prompt": 5}, "system_prompt"),
        ({"capabilities": "kit"}, "capabilities"),
        ({"capabilities": [5]}, "capabilities.0"),
        ({"capabilities": [{"id": "kit", "confg": {}}]}, "capabilities.0.confg"),
        ({"status": "asleep"}, "status"),
        ({"descripton": "x"}, "descripton"),
        ({"descripton": None}, "descripton"),
        ({"id": "mine"}, "id"),
        ({"version": 7}, "version"),
        ({"tags": [""]}, "tags.0"),
        ({"description": "a\0b"}, "description"),
    ],
)
async def test_what_does_not_fit_is_named_and_changes_nothing(
    asker: httpx2.AsyncClient, patch: dict[str, Any], path: str
) -> None:
    agent = await make_agent(asker)
    url = f"/v1/agents/{agent['id']}"
    refusal = problem(await asker.patch(url, json={"tags": ["new"], **patch}), 422, "invalid_arguments")
    assert [field["path"] for field in refusal["fields"]] == [path]
    assert (await asker.get(url)).json() == agent
    created = await asker.post("/v1/agents", json={"name": "x", **{k: v for k, v in patch.items() if k != "name" or v}})
    if patch != {"name": None}:
        assert path in [field["path"] for field in problem(created, 422, "invalid_arguments")["fields"]]


async def test_an_unknown_field_is_told_with_the_nearest(asker: httpx2.AsyncClient) -> None:
    refusal = problem(await asker.post("/v1/agents", json={"name": "x", "descripton": "x"}), 422, "invalid_arguments")
    assert refusal["fields"] == [{"path": "descripton", "expected": "no such parameter", "did_you_mean": "description"}]
    agent = await make_agent(asker)
    refusal = problem(
        await asker.patch(f"/v1/agents/{agent['id']}", json={"descripton": "x"}), 422, "invalid_arguments"
    )
    assert refusal["fields"][0]["did_you_mean"] == "description"


@pytest.mark.spec("P3")
async def test_every_capability_that_cannot_be_had_is_named(shared: Site, asker: httpx2.AsyncClient) -> None:
    before = (await asker.get("/v1/agents")).json()["total"]
    capabilities = ["kitt", "noop", "noop", "soon", "nothing_like_it"]
    refusal = problem(
        await asker.post("/v1/agents", json={"name": "x", "capabilities": capabilities}), 422, "invalid_definition"
    )
    problems = {field["path"]: field["expected"] for field in refusal["fields"]}
    assert problems.keys() == {"capabilities.0", "capabilities.2", "capabilities.3", "capabilities.4"}
    assert "did you mean 'kit'" in problems["capabilities.0"]
    assert "twice" in problems["capabilities.2"]
    assert "coming soon" in problems["capabilities.3"]
    coming = problem(
        await asker.post("/v1/agents", json={"name": "x", "capabilities": ["soon"]}), 422, "invalid_definition"
    )
    assert [field["path"] for field in coming["fields"]] == ["capabilities.0"]
    assert (await asker.get("/v1/agents")).json()["total"] == before


@pytest.mark.spec("P3")
async def test_a_deprecated_capability_is_taken_and_warned_of(asker: httpx2.AsyncClient) -> None:
    agent = await make_agent(asker, "old")
    assert any("old" in notice for notice in agent["notices"])


@pytest.mark.spec("P4")
async def test_agents_that_are_defined_in_code_are_there_and_read_only(asker: httpx2.AsyncClient) -> None:
    agent = (await asker.get("/v1/agents/foreman")).json()
    assert (agent["id"], agent["read_only"], agent["capabilities"], agent["version"]) == ("foreman", True, ["kit"], 1)
    problem(await asker.patch("/v1/agents/foreman", json={"description": "x"}), 409, "conflict")
    problem(await asker.delete("/v1/agents/foreman"), 409, "conflict")
    session = await asker.post("/v1/sessions", json={"agent_id": "foreman"})
    assert session.status_code == 201


@pytest.mark.spec("P15")
async def test_a_change_is_held_to_the_version_that_was_read(asker: httpx2.AsyncClient) -> None:
    url = f"/v1/agents/{(await make_agent(asker))['id']}"
    assert (await asker.patch(url, json={"tags": ["b"]}, headers={"If-Match": '"1"'})).status_code == 200
    for method, body in (("PATCH", {"tags": ["c"]}), ("DELETE", None)):
        response = await asker.request(method, url, json=body, headers={"If-Match": '"1"'})
        assert "version 2" in problem(response, 412, "outdated")["detail"]
    for tag in ("*", 'W/"2"', '"2", "3"', "two", '""', '"-1"', ""):
        problem(await asker.patch(url, json={"tags": ["c"]}, headers={"If-Match": tag}), 400, "invalid_header")
    assert (await asker.get(url)).json()["tags"] == ["b"]
    assert (await asker.delete(url, headers={"If-Match": '"2"'})).status_code == 204


@pytest.mark.spec("P7")
async def test_an_archived_agent_takes_no_new_sessions_and_its_old_ones_call_nothing(
    asker: httpx2.AsyncClient,
) -> None:
    session = await make_session(asker)
    agent_id = (await asker.get(f"/v1/sessions/{session}")).json()["agent_id"]
    assert (await asker.delete(f"/v1/agents/{agent_id}")).status_code == 204
    assert (await asker.delete(f"/v1/agents/{agent_id}")).status_code == 204, "it is archived, as it was to be"
    agent = (await asker.get(f"/v1/agents/{agent_id}")).json()
    assert (agent["status"], agent["version"]) == ("archived", 2)
    refusal = problem(await asker.post("/v1/sessions", json={"agent_id": agent_id}), 409, "conflict")
    assert "archived" in refusal["detail"]
    body = {"tool": "echo", "arguments": {"text": "still here"}}
    refused = problem(await asker.post(f"/v1/sessions/{session}/calls", json=body), 403, "permission_denied")
    assert "archived" in refused["detail"]
    assert (await asker.get(f"/v1/sessions/{session}")).status_code == 200, "it can be read"
    assert (await asker.patch(f"/v1/agents/{agent_id}", json={"status": None})).json()["status"] == "active"
    assert (await asker.post(f"/v1/sessions/{session}/calls", json=body)).json()["data"] == "still here"
    assert (await asker.post("/v1/sessions", json={"agent_id": agent_id})).status_code == 201


@pytest.mark.spec("P7", "P15")
async def test_lists_are_paged_and_total(here: Site, ada: httpx2.AsyncClient) -> None:
    agent_ids = [(await make_agent(ada, name=f"agent {number % 2}"))["id"] for number in range(5)]
    await ada.delete(f"/v1/agents/{agent_ids[0]}")
    full_list = (await ada.get("/v1/agents")).json()
    assert [agent["id"] for agent in full_list["items"]] == ["foreman", *agent_ids[::-1]], (
        "defined ones, then the newest first"
    )
    assert (full_list["total"], full_list["next"]) == (6, None)
    for limit in (1, 2, 4):
        ids: list[str] = []
        params: dict[str, Any] = {"limit": limit}
        while params:
            page = (await ada.get("/v1/agents", params=params)).json()
            assert len(page["items"]) <= limit
            assert page["total"] == 6
            ids += [agent["id"] for agent in page["items"]]
            params = {"limit": limit, "cursor": page["next"]} if page["next"] else {}
        assert ids == ["foreman", *agent_ids[::-1]]
    archived = (await ada.get("/v1/agents", params={"status": "archived"})).json()
    assert ([agent["id"] for agent in archived["items"]], archived["total"]) == ([agent_ids[0]], 1)
    named = (await ada.get("/v1/agents", params={"name": "agent 1"})).json()
    assert ([agent["id"] for agent in named["items"]], named["total"]) == ([agent_ids[3], agent_ids[1]], 2)
    assert (await ada.get("/v1/agents", params={"name": "foreman"})).json()["total"] == 1


@pytest.mark.spec("P15")
@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=201",
        "limit=x",
        "cursor=",
        "cursor=%00",
        "cursor=' OR 1",
        "status=asleep",
        "nmae=x",
        "limit=1&page=2",
    ],
)
async def test_a_query_that_does_not_fit_is_refused(asker: httpx2.AsyncClient, query: str) -> None:
    refusal = problem(await asker.get(f"/v1/agents?{query}"), 422, "invalid_arguments")
    assert len(refusal["fields"]) == 1


@pytest.mark.parametrize("id", ["nowhere", "%00", "%2e%2e", "a" * 200, "%F0%9F%98%80", "' OR 1=1 --"])
async def test_what_there_is_not_is_not_found(asker: httpx2.AsyncClient, id: str) -> None:
    problem(await asker.get(f"/v1/agents/{id}"), 404, "not_found")
    problem(await asker.patch(f"/v1/agents/{id}", json={}), 404, "not_found")
    problem(await asker.delete(f"/v1/agents/{id}"), 404, "not_found")
    problem(await asker.post("/v1/sessions", json={"agent_id": id}), 404, "not_found")


async def test_an_id_that_is_too_long_is_refused(asker: httpx2.AsyncClient) -> None:
    problem(await asker.get(f"/v1/agents/{'a' * 201}"), 414, "id_too_long")


async def test_no_page_is_promised_that_is_not_there(here: Site, ada: httpx2.AsyncClient) -> None:
    only = (await ada.get("/v1/agents", params={"limit": 1})).json()
    assert ([agent["id"] for agent in only["items"]], only["next"]) == (["foreman"], None)
    agent_id = (await make_agent(ada))["id"]
    first = (await ada.get("/v1/agents", params={"limit": 1})).json()
    second = (await ada.get("/v1/agents", params={"limit": 1, "cursor": first["next"]})).json()
    assert ([agent["id"] for agent in second["items"]], second["next"]) == ([agent_id], None)


@pytest.mark.spec("P7")
async def test_agents_are_found_by_what_they_name(tmp_path: Path) -> None:
    renamed = Capability("renamed", aliases=["former"], description="It had another name.")
    keeper = Agent("keeper", uses=[renamed])
    async with site(renamed, agents=[keeper], store=f"sqlite:///{tmp_path / 'a.db'}") as test_server:
        await test_server.key("boss", scopes=["capset:admin"])
        await test_server.key("spy", org="other", scopes=["capset:admin"])
        async with test_server.client("boss") as boss, test_server.client("spy") as spy:
            agent_ids = [(await make_agent(boss, *names))["id"] for names in (["kit"], ["former", "noop"], ["renamed"])]
            server = {"shop": {"url": "https://shop.example.com/mcp"}}
            shop_agent = (await make_agent(boss, "mcp:shop", mcp_servers=server))["id"]
            theirs = (await make_agent(spy, "renamed", mcp_servers=server | {"more": server["shop"]}))["id"]

            async def list_ids(client: httpx2.AsyncClient, **query: Any) -> tuple[list[str], int]:
                page = (await client.get("/v1/agents", params=query)).json()
                return [agent["id"] for agent in page["items"]], page["total"]

            for name in ("renamed", "former"):
                assert await list_ids(boss, capability=name) == (["keeper", agent_ids[2], agent_ids[1]], 3)
            assert await list_ids(boss, capability="kit") == ([agent_ids[0]], 1)
            assert await list_ids(boss, capability="mcp:shop") == ([shop_agent], 1)
            assert await list_ids(boss, mcp_servers="true") == ([shop_agent], 1)
            assert await list_ids(boss, mcp_servers="true", status="archived") == ([], 0)
            assert await list_ids(boss, capability="nothing") == ([], 0)
            assert await list_ids(spy, capability="renamed") == (["keeper", theirs], 2)
            await boss.patch(f"/v1/agents/{shop_agent}", json={"mcp_servers": None, "capabilities": ["kit"]})
            assert await list_ids(boss, mcp_servers="true") == ([], 0)
            problem(await boss.get("/v1/agents", params={"capability": "' OR 1"}), 422, "invalid_arguments")
        async with Client(test_server.url, key=test_server.keys["spy"]) as client:
            assert [agent.id async for agent in client.agents.all(capability="former", mcp_servers=True)] == [theirs]
