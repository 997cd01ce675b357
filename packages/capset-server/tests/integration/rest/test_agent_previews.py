"""``/v1/agents/preview`` and ``/v1/agents/{id}/preview`` (spec 5, P3, P7)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from capset import Capability, tool
from tests.helpers.server.support import ALL_SCOPES, Site, make_agent, problem, site


@tool(effect="read", name="echo")
async def shout(text: str) -> str:
    """Shout."""
    return text.upper()


@tool(effect="read", name="unlock")
async def pick() -> str:
    """Pick the lock."""
    return "open"


loud = Capability("loud", tools=[shout])
thief = Capability("thief", tools=[pick])
vault = Capability("vault", risk="high", instructions="Careful.")


@pytest.fixture(scope="module")
async def shared() -> AsyncGenerator[Site]:
    async with site(loud, thief, vault) as server:
        yield server


@pytest.mark.spec("P7")
async def test_a_preview_is_what_a_session_of_it_would_be(shared: Site, asker: httpx2.AsyncClient) -> None:
    before = (await asker.get("/v1/agents")).json()["total"]
    body = {"name": "keeper", "system_prompt": "Keep.", "instructions": ["Be kind."], "capabilities": ["kit"]}
    response = await asker.post("/v1/agents/preview", json=body)
    assert response.status_code == 200
    preview = response.json()
    assert (preview["valid"], preview["problems"], preview["conflicts"], preview["needs_admin"]) == (True, [], [], [])
    assert "Keep." in preview["snapshot"]["system_text"]
    assert "Be kind." in preview["snapshot"]["system_text"]
    assert (await asker.get("/v1/agents")).json()["total"] == before, "nothing is kept"
    assert (await asker.get("/v1/sessions")).json()["items"] == []
    created = (await asker.post("/v1/agents", json=body)).json()
    session = (await asker.post("/v1/sessions", json={"agent_id": created["id"]})).json()["id"]
    snapshot = (await asker.get(f"/v1/sessions/{session}/snapshot")).json()
    for name in ("static_hash", "runtime_hash", "prompt_hash", "tools", "system_text"):
        assert preview["snapshot"][name] == snapshot[name], name
    assert created["static_hash"] == snapshot["static_hash"]


@pytest.mark.spec("P7", "P3")
async def test_everything_that_is_wrong_is_told_at_once(asker: httpx2.AsyncClient) -> None:
    capabilities = ["kitt", "kit", {"id": "noop", "presets": {"none": True}}, "loud", "thief", "soon"]
    response = await asker.post("/v1/agents/preview", json={"name": "x", "capabilities": capabilities})
    assert response.status_code == 200, response.text
    preview = response.json()
    assert (preview["valid"], preview["snapshot"]) == (False, None)
    assert [field_problem["path"] for field_problem in preview["problems"]] == [
        "capabilities.0",
        "capabilities.2.presets.none",
        "capabilities.5",
    ]
    assert [conflict["code"] for conflict in preview["conflicts"]] == ["tool_name_conflict", "tool_name_conflict"]
    for conflict, (theirs, name) in zip(preview["conflicts"], (("loud", "echo"), ("thief", "unlock")), strict=True):
        assert "'kit'" in conflict["message"]
        assert theirs in conflict["message"]
        assert name in conflict["message"]


@pytest.mark.spec("P7")
async def test_a_change_is_previewed_as_a_merge_patch(asker: httpx2.AsyncClient) -> None:
    agent = await make_agent(asker, "kit")
    url = f"/v1/agents/{agent['id']}/preview"
    as_it_is = (await asker.post(url, json={})).json()
    assert as_it_is["snapshot"]["static_hash"] == agent["static_hash"]
    changed = (await asker.post(url, json={"capabilities": ["noop"], "system_prompt": "Anew."})).json()
    assert changed["snapshot"]["capabilities"] == ["noop"]
    assert (await asker.get(f"/v1/agents/{agent['id']}")).json() == agent, "nothing is kept"
    saved = await asker.patch(f"/v1/agents/{agent['id']}", json={"capabilities": ["noop"], "system_prompt": "Anew."})
    assert saved.json()["static_hash"] == changed["snapshot"]["static_hash"]
    refusal = problem(await asker.post(url, json={"descripton": "x"}), 422, "invalid_arguments")
    assert refusal["fields"][0]["did_you_mean"] == "description"
    problem(await asker.post("/v1/agents/nowhere/preview", json={}), 404, "not_found")


@pytest.mark.spec("P4", "P7")
async def test_an_agent_in_code_is_shown_as_it_is(asker: httpx2.AsyncClient) -> None:
    detail = (await asker.get("/v1/agents/foreman")).json()
    preview = (await asker.post("/v1/agents/foreman/preview", json={})).json()
    assert preview["snapshot"]["static_hash"] == detail["static_hash"]
    problem(await asker.post("/v1/agents/foreman/preview", json={"description": "x"}), 409, "conflict")


@pytest.mark.spec("P3", "P7")
async def test_a_preview_names_what_only_an_administrator_enables(shared: Site, asker: httpx2.AsyncClient) -> None:
    body: dict[str, Any] = {"name": "banker", "capabilities": ["vault"]}
    preview = (await asker.post("/v1/agents/preview", json=body)).json()
    assert (preview["valid"], preview["needs_admin"], preview["snapshot"]) == (True, ["vault"], None), (
        "nothing of it is run"
    )
    refusal = problem(await asker.post("/v1/agents", json=body), 403, "permission_denied")
    assert "only an administrator enables 'vault'" in refusal["detail"]
    await shared.key("boss", principal="boss", scopes=[*ALL_SCOPES, "capset:admin"])
    async with shared.client("boss") as boss:
        boss_preview = (await boss.post("/v1/agents/preview", json=body)).json()
        assert (boss_preview["needs_admin"], boss_preview["snapshot"]["capabilities"]) == (["vault"], ["vault"])
        created = (await boss.post("/v1/agents", json=body)).json()
    assert created["author"] == "user:boss"
    url = f"/v1/agents/{created['id']}"
    preview = (await asker.post(f"{url}/preview", json={"description": "x"})).json()
    assert preview["needs_admin"] == [], "it is enabled already"
    changed = await asker.patch(url, json={"description": "x"})
    assert (changed.status_code, changed.json()["author"]) == (200, "user:ada")
    preview = (await asker.post(f"{url}/preview", json={"capabilities": [{"id": "vault", "prefix": "v_"}]})).json()
    assert preview["needs_admin"] == ["vault"], "it would be used otherwise"
    assert (await asker.patch(url, json={"capabilities": ["kit"]})).status_code == 200, "anybody takes it away"
    problem(await asker.post(f"{url}/rollback", json={"version": 1}), 403, "permission_denied")


@pytest.mark.spec("P7")
async def test_a_previewed_change_is_compared_with_the_agent_as_it_is(asker: httpx2.AsyncClient) -> None:
    agent = await make_agent(asker, "kit", system_prompt="Be kind.")
    url = f"/v1/agents/{agent['id']}/preview"
    same = (await asker.post(url, json={})).json()["diff"]
    assert (same["before"], same["after"], same["fields"], same["composition"]["differs"]) == (1, 1, [], False)
    patch = {"system_prompt": "Be strict.", "capabilities": ["loud"], "instructions": ["Shout. "], "model": None}
    diff = (await asker.post(url, json=patch)).json()["diff"]
    assert [(field["path"], field["kind"]) for field in diff["fields"]] == [
        ("capabilities[kit]", "removed"),
        ("capabilities[loud]", "added"),
        ("instructions[0]", "added"),
        ("system_prompt", "changed"),
    ]
    assert "before" not in diff["fields"][1], "what is unknown is left out"
    tools = diff["composition"]["tools"]
    assert ([entry["name"] for entry in tools["came"]], [entry["name"] for entry in tools["changed"]]) == ([], ["echo"])
    assert "crash" in [entry["name"] for entry in tools["went"]]
    saved = (await asker.patch(f"/v1/agents/{agent['id']}", json=patch)).json()
    stored_diff = (await asker.get(f"/v1/agents/{agent['id']}/diff", params={"before": 1})).json()
    assert (diff["after"], diff["fields"]) == (saved["version"], stored_diff["fields"]), "it is what is written then"
    assert diff["composition"] == stored_diff["composition"]


@pytest.mark.spec("P7")
async def test_a_change_with_conflicts_is_compared_by_its_fields_alone(asker: httpx2.AsyncClient) -> None:
    agent = await make_agent(asker, "kit")
    patch = {"capabilities": ["kit", "loud"]}
    preview = (await asker.post(f"/v1/agents/{agent['id']}/preview", json=patch)).json()
    assert [conflict["capability"] for conflict in preview["conflicts"]] == ["loud"]
    assert [field["path"] for field in preview["diff"]["fields"]] == ["capabilities[loud]"]
    assert preview["diff"]["composition"] is None
    new = (await asker.post("/v1/agents/preview", json={"name": "x", "capabilities": ["kit"]})).json()
    assert new["diff"] is None


@pytest.mark.spec("P7", "P14")
@pytest.mark.parametrize("number", ["1e999", "[-1e999]"])
async def test_a_number_beyond_every_float_is_refused(asker: httpx2.AsyncClient, number: str) -> None:
    agent = await make_agent(asker, "kit", static_context={"rate": 1})
    url, body = f"/v1/agents/{agent['id']}", f'{{"static_context": {{"rate": {number}}}}}'
    for send, path in ((asker.post, f"{url}/preview"), (asker.patch, url)):
        answer = await send(path, content=body, headers={"Content-Type": "application/json"})
        assert "1e999" in problem(answer, 422, "invalid_arguments")["detail"]
