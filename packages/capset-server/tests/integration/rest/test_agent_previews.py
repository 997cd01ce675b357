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
    async with site(loud, thief, vault) as found:
        yield found


@pytest.mark.spec("P7")
async def test_a_preview_is_what_a_session_of_it_would_be(shared: Site, asker: httpx2.AsyncClient) -> None:
    before = (await asker.get("/v1/agents")).json()["total"]
    given = {"name": "keeper", "system_prompt": "Keep.", "instructions": ["Be kind."], "capabilities": ["kit"]}
    response = await asker.post("/v1/agents/preview", json=given)
    assert response.status_code == 200
    found = response.json()
    assert (found["valid"], found["problems"], found["conflicts"], found["needs_admin"]) == (True, [], [], [])
    assert "Keep." in found["snapshot"]["system_text"]
    assert "Be kind." in found["snapshot"]["system_text"]
    assert (await asker.get("/v1/agents")).json()["total"] == before, "nothing is kept"
    assert (await asker.get("/v1/sessions")).json()["items"] == []
    made = (await asker.post("/v1/agents", json=given)).json()
    session = (await asker.post("/v1/sessions", json={"agent_id": made["id"]})).json()["id"]
    snapshot = (await asker.get(f"/v1/sessions/{session}/snapshot")).json()
    for name in ("static_hash", "runtime_hash", "prompt_hash", "tools", "system_text"):
        assert found["snapshot"][name] == snapshot[name], name
    assert made["static_hash"] == snapshot["static_hash"]


@pytest.mark.spec("P7", "P3")
async def test_everything_that_is_wrong_is_told_at_once(asker: httpx2.AsyncClient) -> None:
    wanted = ["kitt", "kit", {"id": "noop", "presets": {"none": True}}, "loud", "thief", "soon"]
    response = await asker.post("/v1/agents/preview", json={"name": "x", "capabilities": wanted})
    assert response.status_code == 200, response.text
    found = response.json()
    assert (found["valid"], found["snapshot"]) == (False, None)
    assert [one["path"] for one in found["problems"]] == [
        "capabilities.0",
        "capabilities.2.presets.none",
        "capabilities.5",
    ]
    assert [one["code"] for one in found["conflicts"]] == ["tool_name_conflict", "tool_name_conflict"]
    for one, (theirs, name) in zip(found["conflicts"], (("loud", "echo"), ("thief", "unlock")), strict=True):
        assert "'kit'" in one["message"]
        assert theirs in one["message"]
        assert name in one["message"]


@pytest.mark.spec("P7")
async def test_a_change_is_previewed_as_a_merge_patch(asker: httpx2.AsyncClient) -> None:
    agent = await make_agent(asker, "kit")
    url = f"/v1/agents/{agent['id']}/preview"
    as_it_is = (await asker.post(url, json={})).json()
    assert as_it_is["snapshot"]["static_hash"] == agent["static_hash"]
    changed = (await asker.post(url, json={"capabilities": ["noop"], "system_prompt": "Anew."})).json()
    assert changed["snapshot"]["capabilities"] == ["noop"]
    assert (await asker.get(f"/v1/agents/{agent['id']}")).json() == agent, "nothing is kept"
    written = await asker.patch(f"/v1/agents/{agent['id']}", json={"capabilities": ["noop"], "system_prompt": "Anew."})
    assert written.json()["static_hash"] == changed["snapshot"]["static_hash"]
    said = problem(await asker.post(url, json={"descripton": "x"}), 422, "invalid_arguments")
    assert said["fields"][0]["did_you_mean"] == "description"
    problem(await asker.post("/v1/agents/nowhere/preview", json={}), 404, "not_found")


@pytest.mark.spec("P4", "P7")
async def test_an_agent_in_code_is_shown_as_it_is(asker: httpx2.AsyncClient) -> None:
    detail = (await asker.get("/v1/agents/foreman")).json()
    found = (await asker.post("/v1/agents/foreman/preview", json={})).json()
    assert found["snapshot"]["static_hash"] == detail["static_hash"]
    problem(await asker.post("/v1/agents/foreman/preview", json={"description": "x"}), 409, "conflict")


@pytest.mark.spec("P3", "P7")
async def test_a_preview_names_what_only_an_administrator_enables(shared: Site, asker: httpx2.AsyncClient) -> None:
    given: dict[str, Any] = {"name": "banker", "capabilities": ["vault"]}
    found = (await asker.post("/v1/agents/preview", json=given)).json()
    assert (found["valid"], found["needs_admin"], found["snapshot"]) == (True, ["vault"], None), "nothing of it is run"
    said = problem(await asker.post("/v1/agents", json=given), 403, "permission_denied")
    assert "only an administrator enables 'vault'" in said["detail"]
    await shared.key("boss", principal="boss", scopes=[*ALL_SCOPES, "capset:admin"])
    async with shared.client("boss") as boss:
        shown = (await boss.post("/v1/agents/preview", json=given)).json()
        assert (shown["needs_admin"], shown["snapshot"]["capabilities"]) == (["vault"], ["vault"])
        made = (await boss.post("/v1/agents", json=given)).json()
    assert made["author"] == "user:boss"
    url = f"/v1/agents/{made['id']}"
    found = (await asker.post(f"{url}/preview", json={"description": "x"})).json()
    assert found["needs_admin"] == [], "it is enabled already"
    changed = await asker.patch(url, json={"description": "x"})
    assert (changed.status_code, changed.json()["author"]) == (200, "user:ada")
    found = (await asker.post(f"{url}/preview", json={"capabilities": [{"id": "vault", "prefix": "v_"}]})).json()
    assert found["needs_admin"] == ["vault"], "it would be used otherwise"
    assert (await asker.patch(url, json={"capabilities": ["kit"]})).status_code == 200, "anybody takes it away"
    problem(await asker.post(f"{url}/rollback", json={"version": 1}), 403, "permission_denied")


@pytest.mark.spec("P7")
async def test_a_previewed_change_is_compared_with_the_agent_as_it_is(asker: httpx2.AsyncClient) -> None:
    agent = await make_agent(asker, "kit", system_prompt="Be kind.")
    url = f"/v1/agents/{agent['id']}/preview"
    same = (await asker.post(url, json={})).json()["diff"]
    assert (same["before"], same["after"], same["fields"], same["composition"]["differs"]) == (1, 1, [], False)
    patch = {"system_prompt": "Be strict.", "capabilities": ["loud"], "instructions": ["Shout. "], "model": None}
    found = (await asker.post(url, json=patch)).json()["diff"]
    assert [(one["path"], one["kind"]) for one in found["fields"]] == [
        ("capabilities[kit]", "removed"),
        ("capabilities[loud]", "added"),
        ("instructions[0]", "added"),
        ("system_prompt", "changed"),
    ]
    assert "before" not in found["fields"][1], "what is unknown is left out"
    tools = found["composition"]["tools"]
    assert ([one["name"] for one in tools["came"]], [one["name"] for one in tools["changed"]]) == ([], ["echo"])
    assert "crash" in [one["name"] for one in tools["went"]]
    written = (await asker.patch(f"/v1/agents/{agent['id']}", json=patch)).json()
    told = (await asker.get(f"/v1/agents/{agent['id']}/diff", params={"before": 1})).json()
    assert (found["after"], found["fields"]) == (written["version"], told["fields"]), "it is what is written then"
    assert found["composition"] == told["composition"]


@pytest.mark.spec("P7")
async def test_a_change_with_conflicts_is_compared_by_its_fields_alone(asker: httpx2.AsyncClient) -> None:
    agent = await make_agent(asker, "kit")
    patch = {"capabilities": ["kit", "loud"]}
    found = (await asker.post(f"/v1/agents/{agent['id']}/preview", json=patch)).json()
    assert [one["capability"] for one in found["conflicts"]] == ["loud"]
    assert [one["path"] for one in found["diff"]["fields"]] == ["capabilities[loud]"]
    assert found["diff"]["composition"] is None
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
