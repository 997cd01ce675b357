"""Agents that choose of their capabilities, by the client (spec 5, P4)."""

from __future__ import annotations

import pytest

from capset.errors import DefinitionError
from capset_server.client import AgentInput, CapabilityEntry, Client, data_of

ENTRIES = [
    "test_math",
    CapabilityEntry(id="workshop", prefix="w_", rename={"echo": "say"}),
    CapabilityEntry(id="memory", presets={"full_context": True}, config={"full": 3}),
]


@pytest.mark.spec("P4")
async def test_entries_come_back_as_they_were_given(boss: Client) -> None:
    created = await boss.agents.create(AgentInput(name="chooser", capabilities=[*ENTRIES, CapabilityEntry(id="noop")]))
    assert created.capabilities == [*ENTRIES, "noop"], "where nothing is chosen, an entry is a plain id"
    assert await boss.agents.get(created.id) == created
    repeated = await boss.agents.create(AgentInput(name="chooser", capabilities=created.capabilities))
    assert repeated.static_hash == created.static_hash
    fewer = await boss.agents.change(created.id, {"capabilities": [{"id": "workshop", "prefix": "x_"}]})
    assert fewer.capabilities == [CapabilityEntry(id="workshop", prefix="x_")]


@pytest.mark.spec("P4", "P8", "C40")
async def test_a_session_shows_and_does_what_was_chosen(boss: Client) -> None:
    created = await boss.agents.create(AgentInput(name="chooser", capabilities=ENTRIES))
    session = await boss.sessions.create(created.id)
    assert data_of(await boss.call(session.id, "say", {"text": "hi"})) == "hi"
    assert (await boss.call(session.id, "echo", {"text": "hi"})).success is False
    snapshot = await boss.sessions.snapshot(session.id)
    used = {use.id: use for use in snapshot.uses}
    assert used["memory"].presets == {"recent_context": True, "full_context": True, "tools": True}
    assert ((used["memory"].config or {})["full"], used["workshop"].names["echo"]) == (3, "say")
    presets = {explanation.preset for explanation in snapshot.explained if explanation.capability == "memory"}
    assert presets >= {"full_context", "tools"}


@pytest.mark.spec("P4")
async def test_what_does_not_fit_is_named_with_its_place(boss: Client) -> None:
    wrong = CapabilityEntry(id="memory", presets={"ful_context": True}, config={"full": 0})
    with pytest.raises(DefinitionError) as refused:
        await boss.agents.create(AgentInput(name="chooser", capabilities=[wrong]))
    paths = [field.path for field in refused.value.fields]
    assert paths == ["capabilities.0.presets.ful_context", "capabilities.0.config.full"]


@pytest.mark.spec("P6")
async def test_a_capability_says_what_can_be_chosen(boss: Client) -> None:
    detail = await boss.capabilities.get("memory")
    presets = {preset.name: preset.default for preset in detail.presets}
    assert presets == {"recent_context": True, "full_context": False, "tools": True}
    assert (detail.config or {})["properties"]["recent"]["maximum"] == 100
