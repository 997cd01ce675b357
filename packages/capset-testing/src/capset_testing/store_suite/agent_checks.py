"""Checks of stored agents and their versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from capset.errors import StoreError
from capset.stores.base import AGENT_FIELDS, AgentField, AgentQuery, AgentRow, CapabilityRow, Page, VersionQuery
from capset_testing.store_suite.support import LATER, NOW, Make, expect, expect_error, open_store

_AGENT: Final = AgentRow(
    id="id-0",
    org="acme",
    name="scribe",
    description="Keeps notes.",
    system_prompt="Keep tidy notes.",
    instructions=("Be brief.", "Grüße, 世界 🌍"),
    capabilities=(CapabilityRow("b"), CapabilityRow("a")),
    tags=("x", "y"),
    status="active",
    version=1,
    static_hash="1" * 64,
    created_at=NOW,
    updated_at=NOW,
)
_FIRST: Final = replace(
    _AGENT,
    capabilities=(CapabilityRow("b", config={"limit": 1, "none": None}), CapabilityRow("a", rename={"save": "keep"})),
    model="openai:gpt-9",
    allowance={"run": {"calls": 5}},
    mcp_servers={"books": {"url": "https://books.example.com/mcp", "tools": ["title"]}},
    static_context={"tier": "pro", "limits": {"depth": [1, 2.5, None]}},
    author="user:ada",
)


_SAMPLES: Final[Mapping[str, object]] = {
    "text": "Grüße",
    "texts": ("Grüße", "世界 🌍"),
    "object": {"deep": [1, 2.5, None, {"yes": True}]},
    "capabilities": (CapabilityRow("c", config={"limit": 1}),),
}


async def an_agent_comes_back_as_it_was_given(make: Make) -> None:
    """Check that it is unchanged for its org, and missing for others."""
    async with open_store(make) as store:
        bare = replace(_AGENT, id="id-1", org=None, instructions=(), capabilities=(), tags=())
        await store.agents.create(_AGENT)
        await store.agents.create(bare)
        expect(await store.agents.get("acme", "id-0"), _AGENT, "the agent")
        expect(await store.agents.get(None, "id-1"), bare, "the agent without an org")
        for org, agent_id in ((None, "id-0"), ("other", "id-0"), ("acme", "id-1"), ("acme", "id-2")):
            expect(await store.agents.get(org, agent_id), None, f"the agent {agent_id} for {org}")
        await expect_error(StoreError, store.agents.create(replace(_AGENT, org=None)), "a second agent with an id")
        expect(await store.agents.get("acme", "id-0"), _AGENT, "the first agent")


async def agents_are_listed_newest_first_by_org(make: Make) -> None:
    """Check pages, totals and filters."""
    async with open_store(make) as store:
        rows = [replace(_AGENT, id=f"id-{number}", name=f"agent-{number % 2}") for number in range(5)]
        rows[4] = replace(rows[4], status="archived")
        for row in (*rows, replace(_AGENT, id="id-9", org=None)):
            await store.agents.create(row)
        page = await store.agents.list(AgentQuery("acme", limit=3))
        expect((page.items, page.total), ((rows[4], rows[3], rows[2]), 5), "the first page")
        page = await store.agents.list(AgentQuery("acme", limit=3, before=page.next))
        expect((page.items, page.total, page.next), ((rows[1], rows[0]), 5, None), "the last page")
        page = await store.agents.list(AgentQuery("acme", status="active", name="agent-0"))
        expect((page.items, page.total), ((rows[2], rows[0]), 2), "the filtered agents")
        servers = {"shop": {"url": "https://shop.example.com/mcp"}}
        more = replace(
            _AGENT, id="id-7", capabilities=(CapabilityRow("a"), CapabilityRow("mcp:shop")), mcp_servers=servers
        )
        await store.agents.create(more)
        await store.agents.create(replace(more, id="id-8", org="other"))
        for query, expected in (
            (AgentQuery("acme", capabilities=("mcp:shop",)), [more]),
            (AgentQuery("acme", has_servers=True), [more]),
            (AgentQuery("acme", text="ENT-0"), [rows[4], rows[2], rows[0]]),
            (AgentQuery("acme", "active", text="t-1"), [rows[3], rows[1]]),
            (AgentQuery("acme", text="_"), []),
            (AgentQuery("acme", text="%"), []),
            (AgentQuery("acme", "archived", has_servers=True), []),
            (AgentQuery("acme", capabilities=("mcp:shop", "b"), limit=2), [more, rows[4]]),
            (AgentQuery("acme", capabilities=("c",)), []),
        ):
            page = await store.agents.list(query)
            expect(list(page.items), expected, f"the agents of {query}")
        expect((await store.agents.list(AgentQuery("acme", capabilities=("a",)))).total, 6, "how many agents use it")


async def an_agent_is_replaced_by_its_next_version_only(make: Make) -> None:
    """Check that its capabilities are replaced too, and that only its org can replace it."""
    async with open_store(make) as store:
        await store.agents.create(_AGENT)
        used = (CapabilityRow("a", prefix="a_"), CapabilityRow("c"))
        second = replace(_AGENT, version=2, capabilities=used, status="archived", updated_at=LATER)
        for wrong in (replace(second, version=1), replace(second, version=3), replace(second, org="other")):
            expect(await store.agents.replace(wrong), False, "a version that is not the next")
        expect(await store.agents.get("acme", "id-0"), _AGENT, "the first version")
        expect(await store.agents.replace(second), True, "the next version")
        expect(await store.agents.replace(second), False, "the same version again")
        expect(await store.agents.get("acme", "id-0"), second, "the second version")


async def an_agents_capabilities_come_back_as_they_were_given(make: Make) -> None:
    """Check their order, presets, config and names; changing a returned row does not change the stored one."""
    config = {"limit": 5, "names": ["Grüße", "世界 🌍"], "deep": {"none": None, "yes": True, "half": 0.5}}
    used = (
        CapabilityRow("z", presets={"full": True, "tools": False}),
        CapabilityRow("plain"),
        CapabilityRow("a:b", config=config, prefix="p_"),
        CapabilityRow("empty", config={}, prefix=""),
        CapabilityRow("named", rename={"save": "keep", "load": "fetch"}),
    )
    async with open_store(make) as store:
        agent = replace(_AGENT, capabilities=used)
        await store.agents.create(agent)
        expect(await store.agents.get("acme", "id-0"), agent, "the agent")
        (listed_agent,) = (await store.agents.list(AgentQuery("acme"))).items
        expect(listed_agent, agent, "the agent in a list")
        read = listed_agent.capabilities[2].config
        if isinstance(read, dict):
            read["limit"] = 6
        expect(await store.agents.get("acme", "id-0"), agent, "the agent after a returned row was changed")
        second = replace(agent, version=2, capabilities=(CapabilityRow("z", config={"x": []}), used[1]))
        expect(await store.agents.replace(second), True, "the next version")
        expect(await store.agents.get("acme", "id-0"), second, "the second version")


def _next(row: AgentRow, **changes: Any) -> AgentRow:
    number = row.version + 1
    return replace(row, version=number, static_hash=str(number) * 64, updated_at=LATER, **changes)


async def every_version_of_an_agent_is_kept(make: Make) -> None:
    """Check complete versions with their authors; changing a returned row does not change the stored one."""
    async with open_store(make) as store:
        second = _next(
            _FIRST, capabilities=(), model=None, static_context=None, allowance=None, author=None, tags=("z",)
        )
        third = _next(second, name="writer", status="archived", instructions=(), author="user:bo")
        await store.agents.create(_FIRST)
        for row in (second, third):
            expect(await store.agents.replace(row), True, f"the version {row.version}")
        expect(await store.agents.get("acme", "id-0"), third, "the agent")
        for row in (_FIRST, second, third):
            expect(await store.agents.version("acme", "id-0", row.version), row, f"the version {row.version}")
        read = await store.agents.version("acme", "id-0", 1)
        if read is not None and isinstance(read.static_context, dict):
            read.static_context["tier"] = "free"
        expect(await store.agents.version("acme", "id-0", 1), _FIRST, "the first after a returned row was changed")
        for org, agent_id, number in (
            (None, "id-0", 1),
            ("other", "id-0", 1),
            ("acme", "id-1", 1),
            ("acme", "id-0", 4),
        ):
            expect(
                await store.agents.version(org, agent_id, number), None, f"the version {number} of {agent_id} for {org}"
            )


async def every_field_of_an_agent_is_kept(make: Make) -> None:
    """Check each field in the agent, in lists and in every version, also in versions without it."""
    async with open_store(make) as store:
        for number, field in enumerate(AGENT_FIELDS):
            agent = replace(_AGENT, id=f"id-{number:02}", **{field.name: _sample(field)})
            without = _next(replace(_AGENT, id=agent.id))
            restored = _next(without, **{field.name: _sample(field)})
            await store.agents.create(agent)
            expect(await store.agents.get("acme", agent.id), agent, f"an agent with its {field.name}")
            expect(await store.agents.replace(without), True, f"the version without that {field.name}")
            expect(await store.agents.get("acme", agent.id), without, f"an agent without that {field.name}")
            expect(await store.agents.replace(restored), True, f"the version with that {field.name} again")
            (listed_agent,) = (await store.agents.list(AgentQuery("acme", limit=1))).items
            expect(listed_agent, restored, f"an agent in a list, with its {field.name}")
            versions = await store.agents.versions(VersionQuery("acme", agent.id))
            expect(versions.items, (restored, without, agent), f"the versions of an agent with {field.name}")


def _sample(field: AgentField) -> object:
    """Return a value of a field that the plain agent of these checks does not have."""
    if field.name == "status":
        return "archived"
    if field.is_optional and (first_value := getattr(_FIRST, field.name)) is not None:
        return first_value
    return _SAMPLES[field.kind]


async def versions_are_listed_newest_first(make: Make) -> None:
    """Check pages of the versions of one agent, in its org only."""
    async with open_store(make) as store:
        rows = [_FIRST]
        await store.agents.create(_FIRST)
        for _ in range(4):
            rows.append(_next(rows[-1]))
            await store.agents.replace(rows[-1])
        await store.agents.create(replace(_FIRST, id="id-1"))
        page = await store.agents.versions(VersionQuery("acme", "id-0", limit=2))
        expect(page, Page((rows[4], rows[3]), 4), "the first page")
        page = await store.agents.versions(VersionQuery("acme", "id-0", limit=2, before=page.next))
        expect(page, Page((rows[2], rows[1]), 2), "the second page")
        page = await store.agents.versions(VersionQuery("acme", "id-0", limit=2, before=page.next))
        expect(page, Page((rows[0],), None), "the last page")
        full_page = await store.agents.versions(VersionQuery("acme", "id-0", limit=5))
        expect(full_page, Page(tuple(rows[::-1]), None), "a page that is exactly full")
        for org, agent_id in ((None, "id-0"), ("other", "id-0"), ("acme", "id-2")):
            versions = await store.agents.versions(VersionQuery(org, agent_id))
            expect(versions, Page((), None), f"the versions of {agent_id} for {org}")


async def a_version_is_written_once(make: Make) -> None:
    """Check that a late writer is refused, and leaves no version."""
    async with open_store(make) as store:
        await store.agents.create(_FIRST)
        second = _next(_FIRST, description="the quicker one's")
        expect(await store.agents.replace(second), True, "the next version")
        for late in (_next(_FIRST, description="late"), replace(second, version=4), replace(second, org="other")):
            expect(await store.agents.replace(late), False, "a version that is not the next")
        page = await store.agents.versions(VersionQuery("acme", "id-0"))
        expect(page.items, (second, _FIRST), "the versions")


async def an_agent_is_found_by_the_hash_of_any_version(make: Make) -> None:
    """Check that a hash finds the newest version of the newest agent with that hash, in one org only."""
    async with open_store(make) as store:
        await store.agents.create(_FIRST)
        second = _next(_FIRST)
        back = replace(_next(second), static_hash=_FIRST.static_hash)
        for row in (second, back):
            await store.agents.replace(row)
        await store.agents.create(replace(_FIRST, id="id-9", org=None))
        expect(await store.agents.by_hash("acme", "1" * 64), back, "the newest version with a hash")
        expect(await store.agents.by_hash("acme", "2" * 64), second, "a version that was replaced")
        newer = replace(_FIRST, id="id-1", static_hash="2" * 64)
        await store.agents.create(newer)
        expect(await store.agents.by_hash("acme", "2" * 64), newer, "the newest agent with a hash")
        for org, digest in (("other", "1" * 64), (None, "2" * 64), ("acme", "9" * 64)):
            expect(await store.agents.by_hash(org, digest), None, f"{digest[:4]}… for {org}")
