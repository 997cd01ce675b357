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
    made = await boss.agents.create(AgentInput(name="chooser", capabilities=[*ENTRIES, CapabilityEntry(id="noop")]))
    assert made.capabilities == [*ENTRIES, "noop"], "where nothing is chosen, an entry is a plain id"
    assert await boss.agents.get(made.id) == made
    again = await boss.agents.create(AgentInput(name="chooser", capabilities=made.capabilities))
    assert again.static_hash == made.static_hash
    fewer = await boss.agents.change(made.id, {"capabilities": [{"id": "workshop", "prefix": "x_"}]})
    assert fewer.capabilities == [CapabilityEntry(id="workshop", prefix="x_")]


@pytest.mark.spec("P4", "P8", "C40")
async def test_a_session_shows_and_does_what_was_chosen(boss: Client) -> None:
    made = await boss.agents.create(AgentInput(name="chooser", capabilities=ENTRIES))
    session = await boss.sessions.create(made.id)
    assert data_of(await boss.call(session.id, "say", {"text": "hi"})) == "hi"
    assert (await boss.call(session.id, "echo", {"text": "hi"})).success is False
    snapshot = await boss.sessions.snapshot(session.id)
    used = {one.id: one for one in snapshot.uses}
    assert used["memory"].presets == {"recent_context": True, "full_context": True, "tools": True}
    assert (used["memory"].config or {})["full"] == 3
    assert used["workshop"].names["echo"] == "say"
    assert {one.preset for one in snapshot.explained if one.capability == "memory"} >= {"full_context", "tools"}


@pytest.mark.spec("P4")
async def test_what_does_not_fit_is_named_with_its_place(boss: Client) -> None:
    wrong = CapabilityEntry(id="memory", presets={"ful_context": True}, config={"full": 0})
    with pytest.raises(DefinitionError) as refused:
        await boss.agents.create(AgentInput(name="chooser", capabilities=[wrong]))
    assert [one.path for one in refused.value.fields] == [
        "capabilities.0.presets.ful_context",
        "capabilities.0.config.full",
    ]


@pytest.mark.spec("P6")
async def test_a_capability_says_what_can_be_chosen(boss: Client) -> None:
    detail = await boss.capabilities.get("memory")
    assert [(one.name, one.default) for one in detail.presets] == [
        ("recent_context", True),
        ("full_context", False),
        ("tools", True),
    ]
    assert detail.config is not None
    assert detail.config["properties"]["recent"]["maximum"] == 100
