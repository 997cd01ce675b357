"""``/v1/fingerprints`` (spec 2, F1–F9; spec 5, P12)."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from capset import Agent, Capability, Preset, Toolkit, compose
from capset.evaluation.code import code_of
from capset.fingerprint.canonical import PROFILE, digest
from capset.fingerprint.hashes import tool_hash, toolkit_hash
from capset.fingerprint.payloads import code_payload
from capset.stores.base import PayloadRow
from tests.distributions import fresh_import
from tests.helpers.server import dynamic
from tests.helpers.server.dynamic import desk, look, put, shelf
from tests.helpers.server.support import (
    Site,
    crash,
    echo,
    foreman,
    make_agent,
    make_session,
    note,
    problem,
    refuse,
    site,
)

deep = Toolkit("deep", [crash])
chest = Capability(
    "chest",
    tools=[Toolkit("upper", [echo, deep], instructions="Look here first.")],
    presets={"locked": Preset(tools=[Toolkit("lower", [note])]), "open": Preset(tools=[refuse])},
    default=["open"],
)


@pytest.fixture(scope="module")
async def shared() -> AsyncGenerator[Site]:
    async with site(shelf, desk, chest) as server:
        yield server


async def covered(client: httpx2.AsyncClient, hash: str) -> dict[str, Any]:
    """Return what a hash covers, after checking that it does."""
    response = await client.get(f"/v1/fingerprints/{hash}")
    assert response.status_code == 200, response.text
    body = response.json()
    assert (body["hash"], body["profile"]) == (hash, PROFILE)
    assert digest(body["payload"]) == hash
    assert body["kind"] == body["payload"]["kind"]
    return body["payload"]


@pytest.mark.spec("P12", "F35")
async def test_the_code_of_what_is_installed_is_known_before_anything_was_listed_or_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "from capset import tool\n\n@tool\nasync def unread() -> str:\n    '''Say it.'''\n    return 'so far'\n"
    (tmp_path / "never_read.py").write_text(text)
    module = fresh_import("never_read", tmp_path, monkeypatch)
    expected = digest(code_payload({"never_read.py": hashlib.sha256(text.encode()).hexdigest()}))
    async with site(Capability("fresh", tools=[module.unread])) as server, server.client() as client:
        assert (await covered(client, expected))["kind"] == "code"


@pytest.mark.spec("P12", "F3", "F6")
async def test_what_is_installed_is_listed_with_hashes_that_lead_to_payloads(asker: httpx2.AsyncClient) -> None:
    installed = (await asker.get("/v1/fingerprints")).json()
    assert installed["profile"] == PROFILE
    by_id = {row["id"]: row for row in installed["capabilities"]}
    assert list(by_id) == [row["id"] for row in (await asker.get("/v1/capabilities")).json()["items"]]
    assert by_id["shelf"]["tools"] == [
        {"name": "look", "hash": tool_hash(look), "code": code_of(look).hash},
        {"name": "put", "hash": tool_hash(put), "code": code_of(put).hash},
    ]
    assert [entry["name"] for entry in by_id["chest"]["tools"]] == ["crash", "echo", "note", "refuse"]
    for capability in by_id.values():
        payload = await covered(asker, capability["hash"])
        assert (payload["kind"], payload["name"]) == ("capability", capability["id"])
        for tool in capability["tools"]:
            assert (await covered(asker, tool["hash"]))["kind"] == "tool"
    (needed,) = (await covered(asker, by_id["desk"]["hash"]))["uses"]
    assert needed["name"] == "shelf"
    used = compose(Agent("a", uses=[chest])).capability_uses[0]
    assert (await covered(asker, by_id["chest"]["hash"]))["presets"] == list(used.presets) == ["open"]


@pytest.mark.spec("F35", "P12")
async def test_the_code_behind_what_is_installed_is_told_and_what_its_hash_covers(asker: httpx2.AsyncClient) -> None:
    installed = (await asker.get("/v1/fingerprints")).json()
    by_hash = {row["hash"]: row for row in installed["code"]}
    own_code = by_hash[code_of(look).hash]
    assert {"shelf.look", "shelf.put", "desk.tidy"} & {*own_code["tools"]} == {"shelf.look", "shelf.put"}
    response = await asker.get(f"/v1/fingerprints/{own_code['hash']}")
    assert response.json()["code"] == {name: own_code[name] for name in ("hash", "kind", "name", "version", "reason")}
    payload = await covered(asker, own_code["hash"])
    file_hash = hashlib.sha256(Path(dynamic.__file__).read_bytes()).hexdigest()
    assert payload["files"] == [{"path": "dynamic.py", "digest": file_hash}]


@pytest.mark.spec("P12", "F4", "F7")
async def test_toolkits_and_agents_in_code_are_known_too(asker: httpx2.AsyncClient) -> None:
    upper = chest.part.members[0]
    assert isinstance(upper, Toolkit)
    payload = await covered(asker, toolkit_hash(upper))
    assert [member["name"] for member in payload["members"]] == ["deep", "echo"]
    assert (await covered(asker, toolkit_hash(deep)))["members"] == [{"name": "crash", "hash": tool_hash(crash)}]
    own_hash = compose(foreman).static_hash
    assert (await covered(asker, own_hash))["systemPrompt"] == "You run the workshop."


@pytest.mark.spec("P12", "P14")
async def test_what_a_stored_agent_is_made_of_is_its_organisations(shared: Site, asker: httpx2.AsyncClient) -> None:
    entry = {"id": "shelf", "config": {"count": 9}, "prefix": "z_"}
    agent = await make_agent(asker, system_prompt="Count to nine.", capabilities=[entry])
    payload = await covered(asker, agent["static_hash"])
    assert payload["systemPrompt"] == "Count to nine."
    (used,) = payload["capabilities"]
    assert (await covered(asker, used["hash"]))["config"] == {"count": 9}
    await asker.delete(f"/v1/agents/{agent['id']}")
    await covered(asker, used["hash"])  # an archived one is still known
    await shared.key("eve", org="evil")
    await shared.key("bob", scopes=["capset:read"])
    async with shared.client("eve") as eve, shared.client("bob") as bob:
        await covered(bob, used["hash"])
        for fingerprint in (agent["static_hash"], used["hash"]):
            refusal = problem(await eve.get(f"/v1/fingerprints/{fingerprint}"), 404, "not_found")
            assert fingerprint in refusal["detail"]
        await covered(eve, tool_hash(look))  # what is installed, all share


@pytest.mark.spec("P12", "F8", "F9", "F28")
async def test_what_was_recorded_is_known_and_only_to_its_organisation(shared: Site, asker: httpx2.AsyncClient) -> None:
    agent = await make_agent(asker, capabilities=[{"id": "shelf", "prefix": "recorded_"}])
    session = (await asker.post("/v1/sessions", json={"agent_id": agent["id"]})).json()["id"]
    link = (await asker.post("/v1/links", json={"session_id": session})).json()
    assert (await covered(asker, link["runtime_hash"]))["tools"] == [
        {"name": ref["name"], "hash": ref["hash"]} for ref in link["tool_refs"]
    ]
    assert (await covered(asker, link["prompt_hash"]))["kind"] == "prompt"
    await shared.key("mallory", org="evil")
    async with shared.client("mallory") as mallory:
        problem(await mallory.get(f"/v1/fingerprints/{link['runtime_hash']}"), 404, "not_found")


@pytest.mark.spec("F35", "F28")
async def test_what_code_a_turn_had_stays_known(shared: Site, asker: httpx2.AsyncClient) -> None:
    """Kept with the link, for when the server runs other code; whose it was is not."""
    session = await make_session(asker, "kit")
    link = (await asker.post("/v1/links", json={"session_id": session})).json()
    code_hashes = {ref["code"] for ref in link["tool_refs"]}
    assert code_hashes == {code_of(note).hash}
    row = await shared.kernel.store.lineage.payload("acme", link["tool_refs"][0]["code"])
    assert row is not None
    assert row.kind == "code"
    assert hashlib.sha256(row.payload.encode()).hexdigest() in code_hashes


@pytest.mark.spec("P12")
@pytest.mark.parametrize("hash", ["x", "0" * 63, "0" * 65, "A" * 64, "g" * 64, "0" * 63 + "%0A"])
async def test_what_is_no_hash_is_refused(asker: httpx2.AsyncClient, hash: str) -> None:
    refusal = problem(await asker.get(f"/v1/fingerprints/{hash}"), 422, "invalid_arguments")
    assert [field["path"] for field in refusal["fields"]] == ["hash"]


@pytest.mark.spec("P12")
async def test_a_hash_of_nothing_is_not_there(asker: httpx2.AsyncClient) -> None:
    problem(await asker.get(f"/v1/fingerprints/{'0' * 64}"), 404, "not_found")


@pytest.mark.spec("P12", "F2")
@pytest.mark.parametrize("payload", ['{"kind":"prompt"}', "[]", "{broken"])
async def test_a_payload_that_does_not_give_its_hash_is_not_told(
    shared: Site, asker: httpx2.AsyncClient, payload: str
) -> None:
    forged = digest({"forged": payload})
    await shared.kernel.store.lineage.record_payloads(
        [PayloadRow("acme", forged, PROFILE, "prompt", payload)], named_at=shared.kernel.now()
    )
    refusal = problem(await asker.get(f"/v1/fingerprints/{forged}"), 503, "store_unavailable")
    assert payload not in refusal["detail"]


@pytest.mark.spec("P56")
async def test_two_hashes_of_one_kind_are_compared(shared: Site, asker: httpx2.AsyncClient) -> None:
    agent = await make_agent(asker, system_prompt="One.", capabilities=[{"id": "chest"}])
    headers = {"If-Match": f'"{agent["version"]}"'}
    changed = await asker.patch(f"/v1/agents/{agent['id']}", json={"system_prompt": "Two."}, headers=headers)
    assert changed.is_success, changed.text
    before, after = agent["static_hash"], changed.json()["static_hash"]
    diff = (await asker.get(f"/v1/fingerprints/{before}/diff/{after}")).json()
    assert diff == {
        "before": before,
        "after": after,
        "kind": "agent",
        "changes": [{"path": "systemPrompt", "kind": "changed", "before": "One.", "after": "Two."}],
    }
    assert (await asker.get(f"/v1/fingerprints/{after}/diff/{after}")).json()["changes"] == []
    unlike = await asker.get(f"/v1/fingerprints/{after}/diff/{tool_hash(look)}")
    refusal = problem(unlike, 422, "invalid_arguments")
    assert "agent and tool" in refusal["detail"]
    problem(await asker.get(f"/v1/fingerprints/{after}/diff/{'0' * 64}"), 404, "not_found")
    problem(await asker.get(f"/v1/fingerprints/{after}/diff/x"), 422, "invalid_arguments")
    await shared.key("trudy", org="evil")
    async with shared.client("trudy") as trudy:
        problem(await trudy.get(f"/v1/fingerprints/{before}/diff/{after}"), 404, "not_found")
