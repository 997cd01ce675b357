"""The agents of an organisation, and what becomes of them when what they use goes (spec 5, P3–P5)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from capset import Agent, Capability, Kernel, Principal, tool
from capset.errors import CapsetError, Conflict, DefinitionError, InvalidArguments, NotFound, Outdated
from capset.kernel.agent_definition import read_definition, with_file
from capset.kernel.registry import Registry
from capset.stores.base import AgentQuery, AgentRow, CapabilityRow
from capset.wire.agents import AgentInput
from capset_connect.agents.permissions import Author
from capset_connect.agents.store import StoredAgents


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


@tool(effect="read", name="look")
async def stare() -> str:
    """Stare."""
    return "stared"


eyes = Capability("eyes", tools=[look])
other_eyes = Capability("other_eyes", tools=[stare])
ears = Capability("ears")
ADA = Author("user:ada")
GIVEN = AgentInput(name="watcher", capabilities=["ears", "eyes"], tags=["x"])


async def kept(kernel: Kernel, *capabilities: Capability) -> AgentRow:
    return await StoredAgents(kernel, Registry.of(capabilities or (eyes, ears))).create("acme", GIVEN, author=ADA)


def ids_of(row: AgentRow) -> list[str]:
    return [capability.id for capability in row.capabilities]


@pytest.mark.spec("P3", "P4")
async def test_an_agent_whose_capability_has_gone_loads_without_it_and_says_so(store: str) -> None:
    async with Kernel(store=store) as kernel:
        row = await kept(kernel)
        later = StoredAgents(kernel, Registry.of([ears]))
        loaded = await later.get("acme", row.id)
        assert [use.name for use in loaded.agent.uses if not callable(use)] == ["ears"]
        assert loaded.row == row, "what is kept is kept: it may come back"
        (notice,) = loaded.notices
        assert "'eyes'" in notice
        assert "gone" in notice
        assert kernel.compose(loaded.agent).static_hash != row.static_hash
        back = await StoredAgents(kernel, Registry.of([ears, eyes])).get("acme", row.id)
        assert (kernel.compose(back.agent).static_hash, back.notices) == (row.static_hash, ())


@pytest.mark.spec("P3")
async def test_an_agent_whose_capability_has_gone_can_be_archived_and_mended(store: str) -> None:
    async with Kernel(store=store) as kernel:
        row = await kept(kernel)
        later = StoredAgents(kernel, Registry.of([ears]))
        with pytest.raises(DefinitionError, match="eyes"):
            await later.change("acme", row.id, {"description": "y"}, author=ADA)
        archived = await later.change("acme", row.id, {"status": "archived"}, author=ADA)
        assert (archived.status, ids_of(archived), archived.version) == ("archived", ["ears", "eyes"], 2)
        assert archived.static_hash == row.static_hash, "it is still the agent that it was"
        mended = await later.change("acme", row.id, {"capabilities": ["ears"], "status": "active"}, author=ADA)
        assert (ids_of(mended), (await later.get("acme", row.id)).notices) == (["ears"], ())


@pytest.mark.spec("P3")
async def test_an_agent_whose_capabilities_have_come_to_clash_says_so_and_hides_no_other(store: str) -> None:
    async with Kernel(store=store) as kernel:
        row = await kept(kernel)
        both = (CapabilityRow("eyes"), CapabilityRow("other_eyes"))
        await kernel.store.agents.create(replace(row, id=kernel.new_id(), capabilities=both))
        later = StoredAgents(kernel, Registry.of([eyes, ears, other_eyes]))
        page = await kernel.store.agents.list(AgentQuery("acme"))
        clashing, fine = [await later.loaded(stored) for stored in page.items]
        assert fine.notices == ()
        assert any("look" in notice for notice in clashing.notices)
        with pytest.raises(CapsetError):
            kernel.new_session(clashing.agent, Principal("ada", org="acme"))


@pytest.mark.spec("P14")
async def test_agents_of_other_organisations_are_not_there(store: str) -> None:
    async with Kernel(store=store) as kernel:
        row = await kept(kernel)
        agents = StoredAgents(kernel, Registry.of([eyes, ears]))
        for org in ("evil", None, "", "ACME"):
            with pytest.raises(NotFound):
                await agents.get(org, row.id)
            with pytest.raises(NotFound):
                await agents.change(org, row.id, {"tags": []}, author=ADA)


@pytest.mark.spec("P4")
async def test_one_that_is_defined_in_code_is_found_by_name_and_read_only(store: str) -> None:
    agent = Agent("watchman", uses=[eyes])
    async with Kernel(store=store) as kernel:
        agents = StoredAgents(kernel, Registry.of([eyes], [agent]))
        loaded = await agents.get("acme", "watchman")
        assert (loaded.agent, loaded.row, loaded.id) == (agent, None, "watchman")
        with pytest.raises(Conflict, match="in code"):
            await agents.change("acme", "watchman", {}, author=ADA)


@pytest.mark.spec("P7", "P15")
async def test_changes_at_once_are_all_made(store: str) -> None:
    async with Kernel(store=store) as kernel:
        row = await kept(kernel)
        agents = StoredAgents(kernel, Registry.of([eyes, ears]))
        patches = [{"description": "d"}, {"tags": ["t"]}, {"instructions": ["i"]}, {"system_prompt": "s"}]
        await asyncio.gather(*(agents.change("acme", row.id, patch, author=ADA) for patch in patches))
        now = (await agents.get("acme", row.id)).row
        assert now is not None
        assert (now.description, now.tags, now.instructions, now.system_prompt) == ("d", ("t",), ("i",), "s")
        assert now.version == 5
        with pytest.raises(Outdated, match="version 5"):
            await agents.change("acme", row.id, {"tags": []}, version=4, author=ADA)
        assert (await agents.change("acme", row.id, {"tags": []}, version=5, author=ADA)).version == 6


@pytest.mark.spec("P7")
async def test_a_patch_that_does_not_fit_changes_nothing(store: str) -> None:
    async with Kernel(store=store) as kernel:
        row = await kept(kernel)
        agents = StoredAgents(kernel, Registry.of([eyes, ears]))
        for patch in ({"name": None}, {"tags": 5}, {"unheard_of": None}, {"name": "ok", "status": "asleep"}):
            with pytest.raises(InvalidArguments):
                await agents.change("acme", row.id, patch, author=ADA)
        assert (await agents.get("acme", row.id)).row == row


@pytest.mark.spec("P4", "M6")
async def test_a_server_leaves_alone_the_file_that_a_session_names(store: str) -> None:
    """It names what the command line reads; a server starts nothing of it."""
    agent = Agent("watcher", uses=[eyes, Capability("mcp:shelf")])
    async with Kernel(store=store) as kernel:
        row = kernel.new_session(agent, Principal("ada"))
        named = with_file(row.definition, Path("/nowhere/agent.yaml"))
        assert read_definition(named)[1] == Path("/nowhere/agent.yaml")
        assert read_definition(row.definition) == (read_definition(named)[0], None)
        reopened = await StoredAgents(kernel, Registry.of([eyes])).of_session(replace(row, definition=named))
        assert [use.name for use in reopened.uses if not callable(use)] == ["eyes"]
