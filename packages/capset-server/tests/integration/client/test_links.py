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
    link = await ada.links.record(
        session, metadata={"turn": None}, context={"channel": "web"}, invocation={"tenant": "t"}, reason="first"
    )
    assert (link.session_id, link.agent_id, link.metadata) == (session, "foreman", {"turn": None})
    for name in ("static_hash", "runtime_hash", "prompt_hash"):
        assert getattr(link, name) == getattr(snapshot, name)
    assert (link.invocation_hash, link.transition) == (invocation_hash({"tenant": "t"}), None)
    assert link.model_dump(exclude={"envelope_id", "transition"}) == (await ada.links.get(link.id)).model_dump()
    stored_envelope = await ada.links.envelope(link.envelope_id)
    assert stored_envelope == await ada.links.envelope_of(link.id)
    assert (stored_envelope.link_id, stored_envelope.envelope.context) == (link.id, {"channel": "web"})
    assert (await ada.sessions.transitions(session)).items == []


@pytest.mark.spec("F27")
async def test_an_envelope_that_came_over_the_wire_can_be_hydrated(boss: Client) -> None:

    created = await boss.agents.create(AgentInput(name="adder", capabilities=["test_math"]))
    session = (await boss.sessions.create(created.id)).id
    envelope = (await boss.links.envelope_of((await boss.links.record(session)).id)).envelope
    local_agent = Agent("adder", uses=[Registry.installed().get("test_math")])
    snapshot = await hydrate(envelope, local_agent, principal=Principal("boss"))
    assert snapshot.runtime_hash == envelope.link.runtime_hash
    assert "add" in snapshot.tools


@pytest.mark.spec("F29", "F31")
async def test_versions_are_compared_and_listed(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    created = await boss.agents.create(AgentInput(name="changing", capabilities=["test_math"]))
    sessions = [(await boss.sessions.create(created.id)).id]
    await boss.agents.change(created.id, {"capabilities": ["noop"]})
    sessions.append((await boss.sessions.create(created.id)).id)
    before, after = [await boss.links.record(session) for session in sessions]
    shape = await boss.links.diff(before.id, after.envelope_id)
    assert (shape.differs, {tool.name for tool in shape.tools.went} >= {"add", "divide"}) == (True, True)
    assert diff_envelopes(*[(await boss.links.envelope_of(link.id)).envelope for link in (before, after)]).differs
    assert [link.id for link in (await boss.links.list(session_id=sessions[0])).items] == [before.id]
    page = await boss.links.list(agent_id=created.id, limit=1)
    rest = await boss.links.list(agent_id=created.id, limit=1, cursor=page.next)
    monkeypatch.setattr("capset_server.client.links.LARGEST_PAGE", 1)
    for listed in ([*page.items, *rest.items], [link async for link in boss.links.all(agent_id=created.id)]):
        assert [link.id for link in listed] == [after.id, before.id]


@pytest.mark.spec("P14")
async def test_who_may_not_see_them(boss: Client, ada: Client) -> None:
    session = (await boss.sessions.create("foreman")).id
    link = await boss.links.record(session)
    for request in (
        ada.links.get(link.id),
        ada.links.envelope_of(link.id),
        ada.links.envelope(link.envelope_id),
        ada.links.diff(link.id, link.id),
        ada.links.list(session_id=session),
        ada.links.record(session),
        ada.sessions.transitions(session),
    ):
        with pytest.raises(NotFound, match="there is no"):
            await request
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
    (math,) = [capability for capability in installed.capabilities if capability.id == "test_math"]
    assert [tool.name for tool in math.tools] == ["add", "divide", "multiply", "subtract"]
    for fingerprint in (math.hash, math.tools[0].hash):
        shape = await boss.fingerprints.get(fingerprint)
        assert (shape.hash, digest(shape.payload), shape.profile) == (fingerprint, fingerprint, installed.profile)
    code = math.tools[0].code or ""
    (own_code,) = [package for package in installed.code if package.hash == code]
    assert (own_code.name, "test_math.add" in own_code.tools) == ("capset-tools", True)
    shape = await boss.fingerprints.get(code)
    assert (shape.kind, digest(shape.payload), shape.code and shape.code.hash) == ("code", code, code)
    detail = await boss.capabilities.get("test_math")
    assert {tool.name: tool.hash for tool in detail.tools} == {tool.name: tool.hash for tool in math.tools}
    with pytest.raises(NotFound, match="nothing known here"):
        await boss.fingerprints.get("0" * 64)
    with pytest.raises(InvalidArguments):
        await boss.fingerprints.get("x")
