"""``/v1/agents/preview`` and ``/v1/agents/{id}/preview`` (spec 5, P3, P7)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from capset import Capability, tool
from tests.helpers.server.support import ALL_SCOPES, Site, make_agent, problem, site


async def shout(text: str) -> str:
    """Shout."""
    return text.upper()


loud = Capability("loud", tools=[tool(effect="read", name="echo")(shout)])
thief = Capability("thief", tools=[tool(effect="read", name="unlock")(shout)])
vault = Capability("vault", risk="high", instructions="Careful.")


@pytest.fixture(scope="module")
async def shared() -> AsyncGenerator[Site]:
    async with site(loud, thief, vault) as server:
        yield server


async def preview_of(client: httpx2.AsyncClient, body: dict[str, Any], agent: str | None = None) -> dict[str, Any]:
    """Return the preview of a new agent, or of a change of one."""
    response = await client.post(f"/v1/agents/{agent}/preview" if agent else "/v1/agents/preview", json=body)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.spec("P7")
async def test_a_preview_is_what_a_session_of_it_would_be(asker: httpx2.AsyncClient) -> None:
    before = (await asker.get("/v1/agents")).json()["total"]
    body = {"name": "keeper", "system_prompt": "Keep.", "instructions": ["Be kind."], "capabilities": ["kit"]}
    preview = await preview_of(asker, body)
    previewed = preview.pop("snapshot")
    assert preview == {"valid": True, "problems": [], "conflicts": [], "needs_admin": [], "diff": None}
    assert "Keep." in previewed["system_text"]
    assert "Be kind." in previewed["system_text"]
    assert (await asker.get("/v1/agents")).json()["total"] == before, "nothing is kept"
    assert (await asker.get("/v1/sessions")).json()["items"] == []
    created = (await asker.post("/v1/agents", json=body)).json()
    session = (await asker.post("/v1/sessions", json={"agent_id": created["id"]})).json()["id"]
    snapshot = (await asker.get(f"/v1/sessions/{session}/snapshot")).json()
    for name in ("static_hash", "runtime_hash", "prompt_hash", "tools", "system_text"):
        assert previewed[name] == snapshot[name], name
    assert created["static_hash"] == snapshot["static_hash"]


@pytest.mark.spec("P7", "P3")
async def test_all_problems_and_conflicts_are_named_at_once(asker: httpx2.AsyncClient) -> None:
    capabilities = ["kitt", "kit", {"id": "noop", "presets": {"none": True}}, "loud", "thief", "soon"]
    preview = await preview_of(asker, {"name": "x", "capabilities": capabilities})
    assert (preview["valid"], preview["snapshot"]) == (False, None)
    paths = ["capabilities.0", "capabilities.2.presets.none", "capabilities.5"]
    assert [field_problem["path"] for field_problem in preview["problems"]] == paths
    for conflict, names in zip(preview["conflicts"], (("loud", "echo"), ("thief", "unlock")), strict=True):
        assert conflict["code"] == "tool_name_conflict"
        assert all(name in conflict["message"] for name in ("'kit'", *names))


@pytest.mark.spec("P4", "P7")
async def test_a_change_is_previewed_as_a_merge_patch(asker: httpx2.AsyncClient) -> None:
    agent = await make_agent(asker, "kit")
    url, patch = f"/v1/agents/{agent['id']}", {"capabilities": ["noop"], "system_prompt": "Anew."}
    assert (await preview_of(asker, {}, agent["id"]))["snapshot"]["static_hash"] == agent["static_hash"]
    changed = (await preview_of(asker, patch, agent["id"]))["snapshot"]
    assert changed["capabilities"] == ["noop"]
    assert (await asker.get(url)).json() == agent, "nothing is kept"
    assert (await asker.patch(url, json=patch)).json()["static_hash"] == changed["static_hash"]
    refusal = problem(await asker.post(f"{url}/preview", json={"descripton": "x"}), 422, "invalid_arguments")
    assert refusal["fields"][0]["did_you_mean"] == "description"
    problem(await asker.post("/v1/agents/nowhere/preview", json={}), 404, "not_found")
    in_code = (await asker.get("/v1/agents/foreman")).json()
    assert (await preview_of(asker, {}, "foreman"))["snapshot"]["static_hash"] == in_code["static_hash"]
    problem(await asker.post("/v1/agents/foreman/preview", json={"description": "x"}), 409, "conflict")


@pytest.mark.spec("P3", "P7")
async def test_a_preview_names_what_only_an_administrator_enables(shared: Site, asker: httpx2.AsyncClient) -> None:
    body: dict[str, Any] = {"name": "banker", "capabilities": ["vault"]}
    preview = await preview_of(asker, body)
    assert (preview["valid"], preview["needs_admin"]) == (True, ["vault"])
    assert preview["snapshot"] is None, "nothing of it is run"
    refusal = problem(await asker.post("/v1/agents", json=body), 403, "permission_denied")
    assert "'vault'" in refusal["detail"]
    await shared.key("boss", scopes=[*ALL_SCOPES, "capset:admin"])
    async with shared.client("boss") as boss:
        preview = await preview_of(boss, body)
        assert (preview["needs_admin"], preview["snapshot"]["capabilities"]) == (["vault"], ["vault"])
        created = (await boss.post("/v1/agents", json=body)).json()
    assert created["author"] == "user:boss"
    agent = created["id"]
    assert (await preview_of(asker, {"description": "x"}, agent))["needs_admin"] == [], "it is enabled already"
    prefixed = {"capabilities": [{"id": "vault", "prefix": "v_"}]}
    assert (await preview_of(asker, prefixed, agent))["needs_admin"] == ["vault"], "it would be used otherwise"


@pytest.mark.spec("P7")
async def test_a_previewed_change_is_compared_with_the_agent_as_it_is(asker: httpx2.AsyncClient) -> None:
    agent = (await make_agent(asker, "kit", system_prompt="Be kind."))["id"]
    same = (await preview_of(asker, {}, agent))["diff"]
    assert (same["before"], same["after"], same["fields"], same["composition"]["differs"]) == (1, 1, [], False)
    patch = {"system_prompt": "Be strict.", "capabilities": ["loud"], "instructions": ["Shout. "], "model": None}
    diff = (await preview_of(asker, patch, agent))["diff"]
    assert [(field["path"], field["kind"]) for field in diff["fields"]] == [
        ("capabilities[kit]", "removed"),
        ("capabilities[loud]", "added"),
        ("instructions[0]", "added"),
        ("system_prompt", "changed"),
    ]
    assert "before" not in diff["fields"][1], "what is unknown is left out"
    tools = diff["composition"]["tools"]
    assert (tools["came"], [entry["name"] for entry in tools["changed"]]) == ([], ["echo"])
    assert "crash" in [entry["name"] for entry in tools["went"]]
    saved = (await asker.patch(f"/v1/agents/{agent}", json=patch)).json()
    stored = (await asker.get(f"/v1/agents/{agent}/diff", params={"before": 1})).json()
    assert diff == {**stored, "after": saved["version"]}, "it is what is written then"
    clashing = await preview_of(asker, {"capabilities": ["kit", "loud"]}, agent)
    assert [conflict["capability"] for conflict in clashing["conflicts"]] == ["loud"]
    assert (clashing["snapshot"], clashing["diff"]["composition"]) == (None, None), "only its fields are compared"
    assert "capabilities[kit]" in [field["path"] for field in clashing["diff"]["fields"]]


@pytest.mark.spec("P7", "P14")
@pytest.mark.parametrize("number", ["1e999", "[-1e999]"])
async def test_a_number_beyond_every_float_is_refused(asker: httpx2.AsyncClient, number: str) -> None:
    url = f"/v1/agents/{(await make_agent(asker, 'kit', static_context={'rate': 1}))['id']}"
    body, headers = f'{{"static_context": {{"rate": {number}}}}}', {"Content-Type": "application/json"}
    for method, path in (("POST", f"{url}/preview"), ("PATCH", url)):
        answer = await asker.request(method, path, content=body, headers=headers)
        assert "1e999" in problem(answer, 422, "invalid_arguments")["detail"]
