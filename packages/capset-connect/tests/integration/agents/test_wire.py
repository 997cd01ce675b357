"""Agents as every door shows them (spec 5, P5, P7)."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from dataclasses import replace
from threading import Lock

import pytest
from pydantic import BaseModel, field_validator

from capset import Agent, Capability, Kernel, Principal, Registry, tool
from capset.errors import NotFound
from capset.stores.base import CapabilityRow
from capset.wire.agents import AgentInput, CapabilityEntry
from capset_connect.agents.permissions import Author
from capset_connect.agents.store import StoredAgents
from capset_connect.agents.wire import diff_of, page_of, shown_preview

ADA = Author("user:ada")
WHO = Principal("ada", org="acme")


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
REGISTRY = Registry.of([eyes, other_eyes], [Agent("watchman", uses=[eyes])])


def given(name: str, *capabilities: str) -> AgentInput:
    return AgentInput(name=name, capabilities=list(capabilities))


@pytest.mark.spec("P7", "P15")
async def test_a_long_list_lets_others_have_their_turn() -> None:
    async with Kernel(store="memory://") as kernel:
        agents = StoredAgents(kernel, REGISTRY)
        for number in range(50):
            await agents.create("acme", given(f"a{number}", "eyes"), author=ADA)
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.ensure_future(tick())
        page = await page_of(kernel, StoredAgents(kernel, REGISTRY), "acme", limit=200)
        ticking.cancel()
        assert (len(page.items), page.total, page.next) == (51, 51, None)
        assert ticks >= len(page.items), "between any two agents"


@pytest.mark.spec("P5", "P7")
async def test_a_version_that_cannot_be_composed_any_more_is_still_compared_as_it_was_written(store: str) -> None:
    async with Kernel(store=store) as kernel:
        agents = StoredAgents(kernel, REGISTRY)
        first = await agents.create("acme", given("keeper", "eyes"), author=ADA)
        both = (CapabilityRow("eyes"), CapabilityRow("other_eyes"))
        await kernel.store.agents.replace(replace(first, version=2, capabilities=both))
        diff = await diff_of(kernel, agents, first.id, 1, None, author=ADA, principal=WHO, env={})
        assert (diff.before, diff.after, diff.composition) == (1, 2, None)
        assert [field.path for field in diff.fields] == ["capabilities[other_eyes]"]
        (notice,) = diff.notices
        assert notice.startswith("version 2: ")
        assert "look" in notice
        assert diff.plain()["composition"] is None
        gone = StoredAgents(kernel, Registry.of([other_eyes]))
        diff = await diff_of(kernel, gone, first.id, 1, 2, author=ADA, principal=WHO, env={})
        assert diff.composition is not None
        assert [came.name for came in diff.composition.tools.came] == ["look"]
        assert all("'eyes' is gone" in notice for notice in diff.notices)
        with pytest.raises(NotFound):
            await diff_of(kernel, agents, first.id, 1, 2, author=ADA, principal=Principal("eve", org="evil"), env={})


@pytest.mark.spec("P5")
async def test_large_numbers_are_told_apart(store: str) -> None:
    async with Kernel(store=store) as kernel:
        agents = StoredAgents(kernel, REGISTRY)
        row = await agents.create("acme", AgentInput(name="keeper", static_context={"big": 2**70}), author=ADA)
        await agents.change("acme", row.id, {"tags": ["x"]}, author=ADA)
        await agents.change("acme", row.id, {"static_context": {"big": 2**70 + 1}}, author=ADA)
        diff = await diff_of(kernel, agents, row.id, 1, 2, author=ADA, principal=WHO, env={})
        assert [field.path for field in diff.fields] == ["tags[0]"]
        diff = await diff_of(kernel, agents, row.id, 1, 3, author=ADA, principal=WHO, env={})
        assert [(field.path, field.kind) for field in diff.fields] == [
            ("static_context.big", "changed"),
            ("tags[0]", "added"),
        ]


@pytest.mark.spec("P7")
async def test_a_preview_is_for_whoever_asks(store: str) -> None:
    guarded = Capability("guarded", tools=[tool(effect="read", permissions={"a:b"})(_peek)])
    async with Kernel(store=store) as kernel:
        agents = StoredAgents(kernel, Registry.of([guarded]))
        preview = await agents.preview(given("keeper", "guarded"))
        for principal, in_play in ((WHO, False), (Principal("bob", permissions={"a:b"}), True)):
            shape = await shown_preview(kernel, preview, author=ADA, principal=principal, env={})
            assert shape.snapshot is not None
            assert [listed_tool.in_play for listed_tool in shape.snapshot.tools] == [in_play]


@pytest.mark.realtime
@pytest.mark.spec("P7", "P15")
async def test_two_previews_are_worked_out_at_once() -> None:
    running, highest, lock = 0, 0, Lock()

    class Slow(BaseModel):
        size: int

        @field_validator("size")
        @classmethod
        def _wait(cls, size: int) -> int:
            nonlocal running, highest
            with lock:
                running += 1
                highest = max(highest, running)
            time.sleep(0.02)
            with lock:
                running -= 1
            return size

    async with Kernel(store="memory://") as kernel:
        agents = StoredAgents(kernel, Registry.of([Capability("slow", config=Slow)]))
        entry = CapabilityEntry(id="slow", config={"size": 1})
        definition = AgentInput(name="keeper", capabilities=[entry])
        previews = await asyncio.gather(*(agents.preview(definition) for _ in range(6)))
        assert [preview.problems for preview in previews] == [()] * 6
        assert highest == 2


@pytest.mark.spec("P7")
async def test_a_preview_leaves_nothing_behind() -> None:
    async with Kernel(store="memory://") as kernel:
        agents = StoredAgents(kernel, REGISTRY)
        references: list[weakref.ref[Agent]] = []
        for _ in range(10):
            preview = await agents.preview(given("keeper", "eyes"))
            await shown_preview(kernel, preview, author=ADA, principal=WHO, env={})
            assert preview.agent is not None
            references.append(weakref.ref(preview.agent))
            del preview
        gc.collect()
        assert sum(reference() is not None for reference in references) <= 2, "an idle thread holds its last result"


async def _peek() -> str:
    """Peek."""
    return "peeked"
