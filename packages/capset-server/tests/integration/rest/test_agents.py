"""``/v1/agents`` (spec 5, P3, P4, P7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from capset import Agent, Capability
from capset_server.client import Client
from tests.helpers.server.support import Site, call, make_agent, make_session, problem, site

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
    agent = created.json()
    assert (created.status_code, created.headers["etag"]) == (201, '"1"')
    assert created.headers["location"] == f"/v1/agents/{agent['id']}"
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
    agent = await make_agent(asker)
    url = f"/v1/agents/{agent['id']}"
    refusal = problem(await asker.patch(url, json={"tags": ["new"], **patch}), 422, "invalid_arguments")
    assert [field["path"] for field in refusal["fields"]] == [path]
    assert (await asker.get(url)).json() == agent
    if patch != {"name": None}:
        created = problem(await asker.post("/v1/agents", json={"name": "x", **patch}), 422, "invalid_arguments")
        assert path in [field["path"] for field in created["fields"]]


async def test_an_unknown_field_comes_with_the_nearest_name(asker: httpx2.AsyncClient) -> None:
    body = {"name": "x", "descripton": "x"}
    agent = await make_agent(asker)
    for refusal in (
        await asker.post("/v1/agents", json=body),
        await asker.patch(f"/v1/agents/{agent['id']}", json=body),
    ):
        (field,) = problem(refusal, 422, "invalid_arguments")["fields"]
        assert field == {"path": "descripton", "expected": "no such parameter", "did_you_mean": "description"}


@pytest.mark.spec("P3")
async def test_every_capability_that_cannot_be_had_is_named(asker: httpx2.AsyncClient) -> None:
    before = (await asker.get("/v1/agents")).json()["total"]
    body = {"name": "x", "capabilities": ["kitt", "noop", "noop", "soon", "nothing_like_it"]}
    refusal = problem(await asker.post("/v1/agents", json=body), 422, "invalid_definition")
    problems = {field["path"]: field["expected"] for field in refusal["fields"]}
    reasons = {0: "did you mean 'kit'", 2: "twice", 3: "coming soon", 4: ""}
    assert problems.keys() == {f"capabilities.{place}" for place in reasons}
    assert all(reason in problems[f"capabilities.{place}"] for place, reason in reasons.items())
    assert (await asker.get("/v1/agents")).json()["total"] == before
    deprecated = await make_agent(asker, "old")
    assert any("old" in notice for notice in deprecated["notices"])


@pytest.mark.spec("P4")
async def test_agents_that_are_defined_in_code_are_there_and_read_only(asker: httpx2.AsyncClient) -> None:
    agent = (await asker.get("/v1/agents/foreman")).json()
    assert (agent["id"], agent["read_only"], agent["capabilities"], agent["version"]) == ("foreman", True, ["kit"], 1)
    problem(await asker.patch("/v1/agents/foreman", json={"description": "x"}), 409, "conflict")
    problem(await asker.delete("/v1/agents/foreman"), 409, "conflict")
    assert (await asker.post("/v1/sessions", json={"agent_id": "foreman"})).status_code == 201


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
async def test_an_archived_agent_takes_no_sessions_and_its_sessions_call_nothing(asker: httpx2.AsyncClient) -> None:
    session = await make_session(asker)
    agent_id = (await asker.get(f"/v1/sessions/{session}")).json()["agent_id"]
    for _ in range(2):
        assert (await asker.delete(f"/v1/agents/{agent_id}")).status_code == 204
    agent = (await asker.get(f"/v1/agents/{agent_id}")).json()
    assert (agent["status"], agent["version"]) == ("archived", 2)
    refusal = problem(await asker.post("/v1/sessions", json={"agent_id": agent_id}), 409, "conflict")
    assert "archived" in refusal["detail"]
    assert "archived" in problem(await call(asker, session, "echo"), 403, "permission_denied")["detail"]
    assert (await asker.get(f"/v1/sessions/{session}")).status_code == 200, "it can be read"
    assert (await asker.patch(f"/v1/agents/{agent_id}", json={"status": None})).json()["status"] == "active"
    assert (await call(asker, session, "echo")).json()["data"] == "hello"
    assert (await asker.post("/v1/sessions", json={"agent_id": agent_id})).status_code == 201


@pytest.mark.spec("P7", "P15")
async def test_lists_are_paged_filtered_and_total(here: Site, ada: httpx2.AsyncClient) -> None:
    agent_ids = [(await make_agent(ada, name=f"agent {number % 2}"))["id"] for number in range(5)]
    await ada.delete(f"/v1/agents/{agent_ids[0]}")
    every = ["foreman", *agent_ids[::-1]]
    for limit in (1, 2, 4, 6, 50):
        ids: list[str] = []
        params: dict[str, Any] = {"limit": limit}
        while params:
            page = (await ada.get("/v1/agents", params=params)).json()
            assert (len(page["items"]), page["total"]) == (min(limit, 6 - len(ids)), 6)
            ids += [agent["id"] for agent in page["items"]]
            assert (page["next"] is None) == (len(ids) == 6), "no page is promised that is not there"
            params = {"limit": limit, "cursor": page["next"]} if page["next"] else {}
        assert ids == every, "those of code, then the newest first"
    for query, expected in (
        ({}, every),
        ({"status": "archived"}, agent_ids[:1]),
        ({"name": "agent 1"}, [agent_ids[3], agent_ids[1]]),
        ({"name": "foreman"}, ["foreman"]),
        ({"name": "foreman", "limit": 1}, ["foreman"]),
    ):
        page = (await ada.get("/v1/agents", params=query)).json()
        listed = [agent["id"] for agent in page["items"]]
        assert (listed, page["total"], page["next"]) == (expected, len(expected), None)


QUERIES = "limit=0 limit=201 limit=x cursor= cursor=%00 cursor='OR status=asleep nmae=x limit=1&page=2 capability='OR"


@pytest.mark.spec("P15")
@pytest.mark.parametrize("query", QUERIES.split())
async def test_a_query_that_does_not_fit_is_refused(asker: httpx2.AsyncClient, query: str) -> None:
    refusal = problem(await asker.get(f"/v1/agents?{query}"), 422, "invalid_arguments")
    assert len(refusal["fields"]) == 1


@pytest.mark.parametrize("id", ["nowhere", "%00", "%2e%2e", "a" * 200, "%F0%9F%98%80", "' OR 1=1 --"])
async def test_what_there_is_not_is_not_found(asker: httpx2.AsyncClient, id: str) -> None:
    for method, body in (("GET", None), ("PATCH", {}), ("DELETE", None)):
        problem(await asker.request(method, f"/v1/agents/{id}", json=body), 404, "not_found")
    problem(await asker.post("/v1/sessions", json={"agent_id": id}), 404, "not_found")


@pytest.mark.spec("P7")
async def test_agents_are_found_by_what_they_name(tmp_path: Path) -> None:
    renamed = Capability("renamed", aliases=["former"], description="It had another name.")
    keeper = Agent("keeper", uses=[renamed])
    async with site(renamed, agents=[keeper], store=f"sqlite:///{tmp_path / 'a.db'}") as test_server:
        await test_server.key("boss", scopes=["capset:admin"])
        await test_server.key("spy", org="other", scopes=["capset:admin"])
        async with test_server.client("boss") as boss, test_server.client("spy") as spy:
            agent_ids = [(await make_agent(boss, *names))["id"] for names in (["kit"], ["former", "noop"], ["renamed"])]
            servers = {name: {"url": "https://shop.example.com/mcp"} for name in ("shop", "more")}
            shop_agent = (await make_agent(boss, "mcp:shop", mcp_servers={"shop": servers["shop"]}))["id"]
            theirs = (await make_agent(spy, "renamed", mcp_servers=servers))["id"]

            async def list_ids(client: httpx2.AsyncClient, **query: Any) -> tuple[list[str], int]:
                page = (await client.get("/v1/agents", params=query)).json()
                return [agent["id"] for agent in page["items"]], page["total"]

            for expected, query in (
                (["keeper", agent_ids[2], agent_ids[1]], {"capability": "renamed"}),
                (["keeper", agent_ids[2], agent_ids[1]], {"capability": "former"}),
                ([agent_ids[0]], {"capability": "kit"}),
                ([shop_agent], {"capability": "mcp:shop"}),
                ([shop_agent], {"mcp_servers": "true"}),
                ([], {"mcp_servers": "true", "status": "archived"}),
                ([], {"capability": "nothing"}),
            ):
                assert await list_ids(boss, **query) == (expected, len(expected)), query
            assert await list_ids(spy, capability="renamed") == (["keeper", theirs], 2)
            await boss.patch(f"/v1/agents/{shop_agent}", json={"mcp_servers": None, "capabilities": ["kit"]})
            assert await list_ids(boss, mcp_servers="true") == ([], 0)
        async with Client(test_server.url, key=test_server.keys["spy"]) as client:
            assert [agent.id async for agent in client.agents.all(capability="former", mcp_servers=True)] == [theirs]
