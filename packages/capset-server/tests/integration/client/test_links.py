"""Links, envelopes, transitions and fingerprints of a real server (spec 2, F26–F31; spec 5, P12)."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from capset import Agent, Principal, Registry
from capset.errors import InvalidArguments, NotFound, PermissionDenied
from capset.evaluation.compare.comparison import diff_envelopes
from capset.evaluation.snapshot.hydrate import hydrate
from capset.fingerprint.canonical import digest
from capset.fingerprint.hashes import invocation_hash
from capset_server.client import AgentInput, Client
from tests.helpers.client.fixtures import Served

pytestmark = pytest.mark.spec("P12")


@pytest.fixture
async def ada(served: Served) -> AsyncGenerator[Client]:
    """Give the client of somebody who may only call."""
    async with Client(served.url, key=served.ada) as client:
        yield client


@pytest.mark.spec("F26", "F28", "F10")
async def test_a_turn_from_its_recording_to_its_envelope(ada: Client) -> None:
    session = (await ada.sessions.create("foreman")).id
    snapshot = await ada.sessions.snapshot(session)
    kept = await ada.links.record(
        session, metadata={"turn": None}, context={"channel": "web"}, invocation={"tenant": "t"}, reason="first"
    )
    assert (kept.session_id, kept.agent_id, kept.metadata) == (session, "foreman", {"turn": None})
    assert (kept.static_hash, kept.runtime_hash, kept.prompt_hash) == (
        snapshot.static_hash,
        snapshot.runtime_hash,
        snapshot.prompt_hash,
    )
    assert kept.invocation_hash == invocation_hash({"tenant": "t"})
    assert kept.transition is None
    assert kept.model_dump(exclude={"envelope_id", "transition"}) == (await ada.links.get(kept.id)).model_dump()
    found = await ada.links.envelope(kept.envelope_id)
    assert found == await ada.links.envelope_of(kept.id)
    assert (found.link_id, found.envelope.context) == (kept.id, {"channel": "web"})
    assert found.envelope.link.runtime_hash == kept.runtime_hash
    assert (await ada.sessions.transitions(session)).items == []


@pytest.mark.spec("F27")
async def test_an_envelope_that_came_over_the_wire_can_be_hydrated(boss: Client) -> None:
    """It is the whole of what was kept, so that whoever has the tools can bind them."""
    made = await boss.agents.create(AgentInput(name="adder", capabilities=["test_math"]))
    session = (await boss.sessions.create(made.id)).id
    envelope = (await boss.links.envelope_of((await boss.links.record(session)).id)).envelope
    here = Agent("adder", uses=[Registry.installed().get("test_math")])
    snapshot = await hydrate(envelope, here, principal=Principal("boss"))
    assert snapshot.runtime_hash == envelope.link.runtime_hash
    assert "add" in snapshot.tools


@pytest.mark.spec("F29", "F31")
async def test_versions_are_compared_and_listed(boss: Client) -> None:
    made = await boss.agents.create(AgentInput(name="changing", capabilities=["test_math"]))
    sessions = [(await boss.sessions.create(made.id)).id]
    await boss.agents.change(made.id, {"capabilities": ["noop"]})
    sessions.append((await boss.sessions.create(made.id)).id)
    before, after = [await boss.links.record(session) for session in sessions]
    shape = await boss.links.diff(before.id, after.envelope_id)
    assert shape.differs is True
    assert {one.name for one in shape.tools.went} >= {"add", "divide"}
    whole = [(await boss.links.envelope_of(one.id)).envelope for one in (before, after)]
    assert diff_envelopes(*whole).differs is True
    assert [one.id for one in (await boss.links.list(session_id=sessions[0])).items] == [before.id]
    assert [one.id async for one in boss.links.all(agent_id=made.id)] == [after.id, before.id]
    page = await boss.links.list(agent_id=made.id, limit=1)
    assert [one.id for one in (await boss.links.list(agent_id=made.id, limit=1, cursor=page.next)).items] == [before.id]


async def test_every_page_of_links_is_asked_for(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capset_server.client.links.LARGEST_PAGE", 2)
    session = (await boss.sessions.create("foreman")).id
    made = [(await boss.links.record(session)).id for _ in range(5)]
    assert [one.id async for one in boss.links.all(session_id=session)] == made[::-1]


@pytest.mark.spec("P14")
async def test_who_may_not_see_them(boss: Client, ada: Client) -> None:
    session = (await boss.sessions.create("foreman")).id
    kept = await boss.links.record(session)
    for asked in (
        ada.links.get(kept.id),
        ada.links.envelope_of(kept.id),
        ada.links.envelope(kept.envelope_id),
        ada.links.diff(kept.id, kept.id),
        ada.links.list(session_id=session),
        ada.links.record(session),
        ada.sessions.transitions(session),
    ):
        with pytest.raises(NotFound, match="there is no"):
            await asked
    with pytest.raises(PermissionDenied, match="capset:audit"):
        await ada.links.list()


async def test_what_cannot_be_kept_names_its_place(ada: Client) -> None:
    session = (await ada.sessions.create("foreman")).id
    with pytest.raises(InvalidArguments, match=r"'deep\.password'"):
        await ada.links.record(session, context={"deep": {"password": "x"}})
    with pytest.raises(InvalidArguments) as caught:
        await ada.links.record(session, reason="x" * 1001)
    assert [field.path for field in caught.value.fields] == ["reason"]


@pytest.mark.spec("F3", "F6", "F35")
async def test_what_hashes_cover(boss: Client) -> None:
    installed = await boss.fingerprints.installed()
    (math,) = [one for one in installed.capabilities if one.id == "test_math"]
    assert [one.name for one in math.tools] == ["add", "divide", "multiply", "subtract"]
    for shown in (math.hash, math.tools[0].hash):
        found = await boss.fingerprints.get(shown)
        assert (found.hash, digest(found.payload), found.profile) == (shown, shown, installed.profile)
    code = math.tools[0].code
    assert code is not None
    (own,) = [one for one in installed.code if one.hash == code]
    assert (own.name, "test_math.add" in own.tools) == ("capset-tools", True)
    found = await boss.fingerprints.get(code)
    assert (found.kind, digest(found.payload), found.code and found.code.hash) == ("code", code, code)
    detail = await boss.capabilities.get("test_math")
    assert {one.name: one.hash for one in detail.tools} == {one.name: one.hash for one in math.tools}
    with pytest.raises(NotFound, match="nothing is known here"):
        await boss.fingerprints.get("0" * 64)
    with pytest.raises(InvalidArguments):
        await boss.fingerprints.get("x")
