"""``/v1/agents/{agent}/versions``, ``/rollback`` and ``/diff`` (spec 5, P5, P7, P15)."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.helpers.server.support import make_agent, problem


async def changed(client: httpx2.AsyncClient, agent: str, **patch: Any) -> dict[str, Any]:
    response = await client.patch(f"/v1/agents/{agent}", json=patch)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.spec("P5", "P7")
async def test_every_version_is_there_as_it_was(asker: httpx2.AsyncClient) -> None:
    first = await make_agent(asker)
    second = await changed(asker, first["id"], description="More.", capabilities=["kit", "noop"])
    third = await changed(asker, first["id"], name="renamed", status="archived")
    url = f"/v1/agents/{first['id']}/versions"
    page = (await asker.get(url)).json()
    assert ([version["version"] for version in page["items"]], page["next"]) == ([3, 2, 1], None)
    assert page["items"][0] == {
        "version": 3,
        "name": "renamed",
        "static_hash": third["static_hash"],
        "status": "archived",
        "author": "user:ada",
        "created_at": third["updated_at"],
    }
    for was in (first, second, third):
        got = await asker.get(f"{url}/{was['version']}")
        assert (got.json(), got.headers["etag"]) == (was, f'"{was["version"]}"')


@pytest.mark.spec("P7", "P15")
async def test_versions_come_in_pages_of_fifty_or_of_what_is_asked_for(asker: httpx2.AsyncClient) -> None:
    agent = (await make_agent(asker))["id"]
    for number in range(51):
        await changed(asker, agent, description=str(number))
    url = f"/v1/agents/{agent}/versions"
    for query, numbers, following in (
        ("", range(52, 2, -1), "3"),
        ("?cursor=3", range(2, 0, -1), None),
        ("?limit=2", range(52, 50, -1), "51"),
        ("?limit=2&cursor=3", range(2, 0, -1), None),
    ):
        page = (await asker.get(url + query)).json()
        assert ([version["version"] for version in page["items"]], page["next"]) == ([*numbers], following), query
    for query in ("limit=0", "limit=201", "cursor=0", "cursor=x", "cursor=99999999999", "nmae=x"):
        problem(await asker.get(f"{url}?{query}"), 422, "invalid_arguments")


@pytest.mark.spec("P7")
async def test_what_there_is_not_is_not_found(asker: httpx2.AsyncClient) -> None:
    agent = (await make_agent(asker))["id"]
    for agent_id, version in ((agent, 2), ("nowhere", 1)):
        url = f"/v1/agents/{agent_id}"
        for path in (f"versions/{version}", f"diff?before=1&after={version}"):
            problem(await asker.get(f"{url}/{path}"), 404, "not_found")
        problem(await asker.post(f"{url}/rollback", json={"version": version}), 404, "not_found")
    problem(await asker.get("/v1/agents/nowhere/versions"), 404, "not_found")
    for version in ("0", "-1", "x", str(2**31)):
        problem(await asker.get(f"/v1/agents/{agent}/versions/{version}"), 422, "invalid_arguments")
    for body in ({}, {"version": 0}, {"version": "1"}, {"version": 1, "now": True}):
        problem(await asker.post(f"/v1/agents/{agent}/rollback", json=body), 422, "invalid_arguments")


@pytest.mark.spec("P5", "P7", "P15")
async def test_a_rollback_is_a_version_of_its_own(asker: httpx2.AsyncClient) -> None:
    first = await make_agent(asker, "kit")
    agent = first["id"]
    await changed(asker, agent, capabilities=["noop"], tags=["later"], static_context={"a": 1}, model="m")
    archived = await changed(asker, agent, status="archived")
    url = f"/v1/agents/{agent}/rollback"
    problem(await asker.post(url, json={"version": 1}, headers={"If-Match": '"2"'}), 412, "outdated")
    response = await asker.post(url, json={"version": 1}, headers={"If-Match": '"3"'})
    assert (response.status_code, response.headers["etag"]) == (200, '"4"')
    back = response.json()
    expected = {"version": 4, "status": "archived", "updated_at": back["updated_at"]}
    assert back == {**first, **expected}, "all that it said, but for the status"
    assert back["updated_at"] > archived["updated_at"]
    repeated = await asker.post(url, json={"version": 1})
    assert repeated.json() == back, "what changes nothing makes no version"


@pytest.mark.spec("P5", "P7")
async def test_two_versions_are_compared_field_by_field_and_hash_by_hash(asker: httpx2.AsyncClient) -> None:
    first = await make_agent(asker, "kit")
    await changed(asker, first["id"], tags=["b"], model="m", static_context={"tier": {"name": "pro"}})
    third = await changed(asker, first["id"], capabilities=["kit", "noop"], static_context={"tier": {"name": "free"}})
    url = f"/v1/agents/{first['id']}/diff"
    diff = (await asker.get(url, params={"before": 2})).json()
    assert (diff["before"], diff["after"], diff["notices"]) == (2, 3, [])
    assert diff["fields"] == [
        {"path": "capabilities[noop]", "kind": "added", "after": "noop"},
        {"path": "static_context.tier.name", "kind": "changed", "before": "pro", "after": "free"},
    ]
    hashes = diff["composition"]["hashes"]
    assert hashes["static"] == {"before": first["static_hash"], "after": third["static_hash"], "moved": True}
    unhashed = (await asker.get(url, params={"before": 1, "after": 2})).json()
    assert [(field["path"], field["kind"]) for field in unhashed["fields"]] == [
        (path, "added") for path in ("model", "static_context", "tags[0]")
    ]
    assert unhashed["composition"]["differs"] is False, "no hash covers a tag, a model or a static context"
    same = (await asker.get(url, params={"before": 3, "after": 3})).json()
    assert (same["fields"], same["composition"]["differs"]) == ([], False)


@pytest.mark.spec("P4", "P5")
async def test_an_agent_in_code_has_one_version_and_keeps_it(asker: httpx2.AsyncClient) -> None:
    page = (await asker.get("/v1/agents/foreman/versions")).json()
    detail = (await asker.get("/v1/agents/foreman")).json()
    assert [(version["version"], version["static_hash"]) for version in page["items"]] == [(1, detail["static_hash"])]
    assert (await asker.get("/v1/agents/foreman/versions", params={"cursor": "1"})).json()["items"] == []
    assert (await asker.get("/v1/agents/foreman/versions/1")).json() == detail
    problem(await asker.get("/v1/agents/foreman/versions/2"), 404, "not_found")
    problem(await asker.post("/v1/agents/foreman/rollback", json={"version": 1}), 409, "conflict")
    diff = (await asker.get("/v1/agents/foreman/diff", params={"before": 1})).json()
    assert (diff["fields"], diff["composition"]["differs"]) == ([], False)


@pytest.mark.spec("F29", "P12")
async def test_a_hash_of_a_version_that_was_replaced_is_still_explained(asker: httpx2.AsyncClient) -> None:
    first = await make_agent(asker, "kit", system_prompt="Only here.")
    await changed(asker, first["id"], capabilities=["noop"])
    response = await asker.get(f"/v1/fingerprints/{first['static_hash']}")
    assert (response.status_code, response.json()["hash"]) == (200, first["static_hash"])
