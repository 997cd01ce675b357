"""``/v1/links``, ``/v1/envelopes`` and ``/v1/sessions/{id}/transitions`` (spec 2, F26–F31; spec 5, P12)."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from capset.evaluation.code import code_of
from capset.evaluation.compare.comparison import diff_envelopes
from capset.evaluation.snapshot.envelope import SnapshotEnvelope
from capset.fingerprint.hashes import Ref, invocation_hash, runtime_hash
from capset.stores.base import EnvelopeRow, LinkRow
from capset.wire.diffs import diff_shape
from tests.helpers.server.dynamic import Door
from tests.helpers.server.support import Site, make_agent, make_session, note, problem, site

NOT_THERE = "01890000-0000-7000-8000-000000000000"


async def recorded(client: httpx2.AsyncClient, session: str, **more: Any) -> dict[str, Any]:
    response = await client.post("/v1/links", json={"session_id": session, **more})
    assert response.status_code == 201, response.text
    assert response.headers["location"] == f"/v1/links/{response.json()['id']}"
    return response.json()


@pytest.mark.spec("P12", "F26", "F28")
async def test_a_link_has_the_hashes_that_the_snapshot_has(asker: httpx2.AsyncClient) -> None:
    agent = await make_agent(asker, "kit")
    session = (await asker.post("/v1/sessions", json={"agent_id": agent["id"]})).json()["id"]
    snapshot = (await asker.get(f"/v1/sessions/{session}/snapshot")).json()
    recorded_link = await recorded(asker, session, metadata={"turn": 1, "of": None})
    for name in ("static_hash", "runtime_hash", "prompt_hash", "profile"):
        assert recorded_link[name] == snapshot[name]
    in_play = [(tool["name"], tool["hash"]) for tool in snapshot["tools"] if tool["in_play"]]
    assert [(ref["name"], ref["hash"]) for ref in recorded_link["tool_refs"]] == in_play
    assert {ref["code"] for ref in recorded_link["tool_refs"]} == {code_of(note).hash}
    assert runtime_hash(Ref(**ref) for ref in recorded_link["tool_refs"]) == recorded_link["runtime_hash"]
    assert (recorded_link["agent_id"], recorded_link["agent_name"], recorded_link["session_id"]) == (
        agent["id"],
        "helper",
        session,
    )
    assert (recorded_link["invocation_hash"], recorded_link["transition"]) == (None, None)
    assert recorded_link["metadata"] == {"turn": 1, "of": None}
    link = (await asker.get(f"/v1/links/{recorded_link['id']}")).json()
    assert recorded_link == {**link, "envelope_id": recorded_link["envelope_id"], "transition": None}


@pytest.mark.spec("P12", "F27", "F16")
async def test_an_envelope_holds_all_that_there_was_and_who_really_acted(asker: httpx2.AsyncClient) -> None:
    session = await make_session(asker, "kit")
    link = await recorded(asker, session, context={"channel": "web", "none": None})
    body = (await asker.get(f"/v1/envelopes/{link['envelope_id']}")).json()
    assert (await asker.get(f"/v1/links/{link['id']}/envelope")).json() == body
    assert (body["id"], body["link_id"]) == (link["envelope_id"], link["id"])
    envelope = SnapshotEnvelope.model_validate(body["envelope"])
    assert not diff_envelopes(envelope, envelope).differs, "its hashes are those of what it says"
    assert envelope.link.runtime_hash == link["runtime_hash"]
    assert envelope.context == {"channel": "web", "none": None}
    around = envelope.runtime.toolkit_context
    assert around.principal is not None
    assert (around.principal.id, around.principal.org, around.env) == ("ada", "acme", {})
    assert envelope.static is not None
    assert envelope.static.hash == link["static_hash"]


@pytest.mark.spec("F16")
@pytest.mark.parametrize("name", ["principal", "env", "org", "permissions", "agent_id", "policy_mode"])
async def test_nobody_says_in_a_body_who_acts_or_where(asker: httpx2.AsyncClient, name: str) -> None:
    session = await make_session(asker, "kit")
    body = problem(await asker.post("/v1/links", json={"session_id": session, name: "x"}), 422, "invalid_arguments")
    assert [field["path"] for field in body["fields"]] == [name]


@pytest.mark.spec("F10", "F14")
async def test_an_invocation_is_hashed_for_this_link_and_not_kept(here: Site, ada: httpx2.AsyncClient) -> None:
    session = await make_session(ada, "kit")
    invocation = {"tenant": "a-tenant-of-ours", "persona": None}
    link = await recorded(ada, session, invocation=invocation)
    assert link["invocation_hash"] == invocation_hash({"tenant": "a-tenant-of-ours"})
    assert (await recorded(ada, session))["invocation_hash"] is None
    assert (await recorded(ada, session, invocation={}))["invocation_hash"] is None
    assert "a-tenant-of-ours" not in (await ada.get(f"/v1/links/{link['id']}/envelope")).text
    assert await here.kernel.store.lineage.payload("acme", link["invocation_hash"]) is None
    problem(await ada.get(f"/v1/fingerprints/{link['invocation_hash']}"), 404, "not_found")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"context": {"password": "hunter2"}}, "'password'"),
        ({"context": {"deep": {"token": "hunter2"}}}, "'deep.token'"),
        ({"context": []}, "context"),
        ({"metadata": "x"}, "metadata"),
        ({"reason": "x" * 1001}, "reason"),
        ({"reason": "\0"}, "reason"),
        ({"session_id": 5}, "session_id"),
    ],
)
@pytest.mark.spec("P12")
async def test_what_cannot_be_kept_is_refused_and_nothing_is(
    asker: httpx2.AsyncClient, more: dict[str, Any], expected: str
) -> None:
    session = await make_session(asker, "kit")
    body = problem(await asker.post("/v1/links", json={"session_id": session, **more}), 422, "invalid_arguments")
    assert expected in body["detail"]
    assert "hunter2" not in body["detail"]
    assert (await asker.get("/v1/links", params={"session_id": session})).json()["items"] == []


@pytest.mark.spec("P12", "F29", "C27")
async def test_a_session_whose_tools_change_leaves_a_transition() -> None:
    door = Door()
    async with site(agents=[door.agent]) as server, server.client() as asker:
        session = (await asker.post("/v1/sessions", json={"agent_id": "thief"})).json()["id"]
        path = f"/v1/sessions/{session}/transitions"
        assert (await asker.get(path)).json() == {"items": []}
        first = await recorded(asker, session, reason="begun")
        same = await recorded(asker, session, reason="nothing new")
        door.is_open = True
        moved = await recorded(asker, session, reason="the door was opened")
        assert (first["transition"], same["transition"]) == (None, None)
        assert first["runtime_hash"] == same["runtime_hash"] != moved["runtime_hash"]
        assert moved["transition"] == {
            "session_id": session,
            "from_link": same["id"],
            "to_link": moved["id"],
            "reason": "the door was opened",
            "at": moved["created_at"],
        }
        assert (await asker.get(path)).json() == {"items": [moved["transition"]]}
        params = {"before": first["id"], "after": moved["id"]}
        compared = (await asker.get("/v1/links/diff", params=params)).json()
        assert [tool["name"] for tool in compared["tools"]["came"]] == ["v_peek", "v_take"]
        assert compared["hashes"]["runtime"]["moved"] is True


@pytest.mark.spec("P12", "F31")
async def test_a_comparison_is_that_of_the_envelopes_and_leaves_out_what_is_not_known(
    asker: httpx2.AsyncClient,
) -> None:
    agent = await make_agent(asker, "kit")
    old = (await asker.post("/v1/sessions", json={"agent_id": agent["id"]})).json()["id"]
    await asker.patch(f"/v1/agents/{agent['id']}", json={"capabilities": ["noop"], "system_prompt": "Rest."})
    new = (await asker.post("/v1/sessions", json={"agent_id": agent["id"]})).json()["id"]
    before, after = await recorded(asker, old), await recorded(asker, new)
    envelopes = [
        SnapshotEnvelope.model_validate((await asker.get(f"/v1/links/{link['id']}/envelope")).json()["envelope"])
        for link in (before, after)
    ]
    expected = diff_shape(diff_envelopes(*envelopes)).plain()
    assert expected["differs"] is True
    for before_id in (before["id"], before["envelope_id"]):
        params = {"before": before_id, "after": after["id"]}
        assert (await asker.get("/v1/links/diff", params=params)).json() == expected
    same = (await asker.get("/v1/links/diff", params={"before": old, "after": new})).status_code
    assert same == 404, "a session is no link"
    params = {"before": before["id"], "after": NOT_THERE}
    assert NOT_THERE in problem(await asker.get("/v1/links/diff", params=params), 404, "not_found")["detail"]
    problem(await asker.get("/v1/links/diff", params={"before": before["id"]}), 422, "invalid_arguments")


@pytest.mark.spec("P12", "P15")
async def test_links_are_listed_by_agent_and_session_newest_first_and_paged(
    here: Site, ada: httpx2.AsyncClient
) -> None:
    first, second = await make_session(ada, "kit"), await make_session(ada, "kit")
    link_ids = [(await recorded(ada, first))["id"] for _ in range(3)]
    other = await recorded(ada, second)
    page = (await ada.get("/v1/links", params={"session_id": first, "limit": 2})).json()
    assert [link["id"] for link in page["items"]] == link_ids[:0:-1]
    rest = (await ada.get("/v1/links", params={"session_id": first, "limit": 2, "cursor": page["next"]})).json()
    assert ([link["id"] for link in rest["items"]], rest["next"]) == (link_ids[:1], None)
    of_agent = (await ada.get("/v1/links", params={"agent_id": other["agent_id"]})).json()
    assert [link["id"] for link in of_agent["items"]] == [other["id"]]
    assert [link["id"] for link in (await ada.get("/v1/links")).json()["items"]] == [other["id"], *link_ids[::-1]]
    assert (await ada.get("/v1/links", params={"session_id": "nowhere"})).json()["items"] == []
    for wrong in ({"limit": 0}, {"limit": 201}, {"cursor": "%"}, {"session": first}):
        problem(await ada.get("/v1/links", params=wrong), 422, "invalid_arguments")
    await here.key("caller", principal="ada", scopes=["capset:call"])
    async with here.client("caller") as caller:
        of_own = (await caller.get("/v1/links", params={"session_id": first})).json()["items"]
        assert [link["id"] for link in of_own] == link_ids[::-1]
        for params in ({}, {"agent_id": other["agent_id"]}):
            body = problem(await caller.get("/v1/links", params=params), 403, "permission_denied")
            assert "session_id" in body["detail"]


@pytest.mark.spec("P12", "F29")
async def test_links_outlast_their_session_for_those_who_may_audit(here: Site, ada: httpx2.AsyncClient) -> None:
    await here.key("caller", principal="ada", scopes=["capset:call"])
    session = await make_session(ada, "kit")
    link = await recorded(ada, session)
    await ada.delete(f"/v1/sessions/{session}")
    assert (await ada.get(f"/v1/links/{link['id']}")).status_code == 200
    assert (await ada.get(f"/v1/envelopes/{link['envelope_id']}")).status_code == 200
    async with here.client("caller") as caller:
        problem(await caller.get(f"/v1/links/{link['id']}"), 404, "not_found")
        problem(await caller.get(f"/v1/envelopes/{link['envelope_id']}"), 404, "not_found")


@pytest.mark.spec("P12")
async def test_what_a_host_recorded_itself_is_there_for_those_who_may_audit(
    here: Site, ada: httpx2.AsyncClient
) -> None:
    await here.key("caller", principal="ada", scopes=["capset:call"])
    refs = (Ref("echo", "a" * 64),)
    hashes = ("b" * 64, runtime_hash(refs), "c" * 64, None)
    row = LinkRow("of-host", "acme", None, "bot", "bot", *hashes, "jcs-1", refs, '{"n":1}', here.kernel.now())
    await here.kernel.store.lineage.record_turn(row)
    link = (await ada.get("/v1/links/of-host")).json()
    assert (link["session_id"], link["metadata"]) == (None, {"n": 1})
    body = problem(await ada.get("/v1/links/of-host/envelope"), 404, "not_found")
    assert "without an envelope" in body["detail"]
    compared = (await ada.get("/v1/links/diff", params={"before": "of-host", "after": "of-host"})).json()
    assert compared["differs"] is False
    assert not compared.keys() & {"policies", "mode"}, "of a link alone nobody knows them"
    async with here.client("caller") as caller:
        problem(await caller.get("/v1/links/of-host"), 404, "not_found")
        problem(await caller.get("/v1/links/of-host/envelope"), 404, "not_found")


@pytest.mark.spec("P12", "F27")
async def test_an_envelope_that_is_none_any_more_is_not_told(here: Site, ada: httpx2.AsyncClient) -> None:
    lineage, now = here.kernel.store.lineage, here.kernel.now()
    await lineage.record_envelope(EnvelopeRow("broken", "acme", None, "1", '{"runtime":5}', now))
    problem(await ada.get("/v1/envelopes/broken"), 503, "store_unavailable")
    session = await make_session(ada, "kit")
    link = await recorded(ada, session)
    envelope = await lineage.envelope("acme", link["envelope_id"])
    assert envelope is not None
    body = envelope.body.replace('"effect":"read"', '"effect":"write"')
    await lineage.record_envelope(EnvelopeRow("forged", "acme", link["id"], "1", body, now))
    params = {"before": link["envelope_id"], "after": "forged"}
    problem(await ada.get("/v1/links/diff", params=params), 503, "store_unavailable")
    await here.key("caller", principal="ada", scopes=["capset:call"])
    async with here.client("caller") as caller:
        problem(await caller.get("/v1/envelopes/broken"), 404, "not_found")
