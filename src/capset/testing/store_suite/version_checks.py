"""Checks of the versions of stored agents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from capset.stores.base import AgentRow, CapabilityRow, VersionPage, VersionQuery
from capset.testing.store_suite.support import LATER, NOW, Check, Make, expect, opened

_AGENT: Final = AgentRow(
    id="id-0",
    org="acme",
    name="scribe",
    description="Keeps notes.",
    system_prompt="Keep tidy notes.",
    instructions=("Be brief.", "Grüße, 世界 🌍"),
    capabilities=(CapabilityRow("b", config={"limit": 1, "none": None}), CapabilityRow("a", rename={"save": "keep"})),
    tags=("x", "y"),
    status="active",
    version=1,
    static_hash="1" * 64,
    created_at=NOW,
    updated_at=NOW,
    model="openai:gpt-9",
    allowance={"run": {"calls": 5}},
    static_context={"tier": "pro", "limits": {"depth": [1, 2.5, None]}},
    author="user:ada",
)


def _next(row: AgentRow, **changes: Any) -> AgentRow:
    number = row.version + 1
    return replace(row, version=number, static_hash=str(number) * 64, updated_at=LATER, **changes)


async def every_version_of_an_agent_is_kept(make: Make) -> None:
    """Completely, with its author; changing a read row does not change the stored one."""
    async with opened(make) as store:
        second = _next(
            _AGENT, capabilities=(), model=None, static_context=None, allowance=None, author=None, tags=("z",)
        )
        third = _next(second, name="writer", status="archived", instructions=(), author="user:bo")
        await store.agents.create(_AGENT)
        for row in (second, third):
            expect(await store.agents.replace(row), True, f"the version {row.version}")
        expect(await store.agents.get("acme", "id-0"), third, "the agent")
        for row in (_AGENT, second, third):
            expect(await store.agents.version("acme", "id-0", row.version), row, f"the version {row.version}")
        read = await store.agents.version("acme", "id-0", 1)
        if read is not None and isinstance(read.static_context, dict):
            read.static_context["tier"] = "free"
        expect(await store.agents.version("acme", "id-0", 1), _AGENT, "the first after what was read was changed")
        for org, one, number in ((None, "id-0", 1), ("other", "id-0", 1), ("acme", "id-1", 1), ("acme", "id-0", 4)):
            expect(await store.agents.version(org, one, number), None, f"the version {number} of {one} for {org}")


async def versions_are_listed_newest_first(make: Make) -> None:
    """Page by page, for one agent of the org."""
    async with opened(make) as store:
        rows = [_AGENT]
        await store.agents.create(_AGENT)
        for _ in range(4):
            rows.append(_next(rows[-1]))
            await store.agents.replace(rows[-1])
        await store.agents.create(replace(_AGENT, id="id-1"))
        page = await store.agents.versions(VersionQuery("acme", "id-0", limit=2))
        expect(page, VersionPage((rows[4], rows[3]), 4), "the first page")
        page = await store.agents.versions(VersionQuery("acme", "id-0", limit=2, before=page.next))
        expect(page, VersionPage((rows[2], rows[1]), 2), "the second page")
        page = await store.agents.versions(VersionQuery("acme", "id-0", limit=2, before=page.next))
        expect(page, VersionPage((rows[0],), None), "the last page")
        whole = await store.agents.versions(VersionQuery("acme", "id-0", limit=5))
        expect(whole, VersionPage(tuple(rows[::-1]), None), "a page that is just full")
        for org, one in ((None, "id-0"), ("other", "id-0"), ("acme", "id-2")):
            found = await store.agents.versions(VersionQuery(org, one))
            expect(found, VersionPage((), None), f"the versions of {one} for {org}")


async def a_version_is_written_once(make: Make) -> None:
    """Check that a late writer is refused, and leaves no version."""
    async with opened(make) as store:
        await store.agents.create(_AGENT)
        second = _next(_AGENT, description="the quicker one's")
        expect(await store.agents.replace(second), True, "the next version")
        for late in (_next(_AGENT, description="late"), replace(second, version=4), replace(second, org="other")):
            expect(await store.agents.replace(late), False, "a version that is not the next")
        page = await store.agents.versions(VersionQuery("acme", "id-0"))
        expect(page.items, (second, _AGENT), "the versions")


async def an_agent_is_found_by_the_hash_of_any_version(make: Make) -> None:
    """By the newest version of the newest agent with that hash, in one org only."""
    async with opened(make) as store:
        await store.agents.create(_AGENT)
        second = _next(_AGENT)
        back = replace(_next(second), static_hash=_AGENT.static_hash)
        for row in (second, back):
            await store.agents.replace(row)
        await store.agents.create(replace(_AGENT, id="id-9", org=None))
        expect(await store.agents.by_hash("acme", "1" * 64), back, "the newest version with a hash")
        expect(await store.agents.by_hash("acme", "2" * 64), second, "a version that was replaced")
        newer = replace(_AGENT, id="id-1", static_hash="2" * 64)
        await store.agents.create(newer)
        expect(await store.agents.by_hash("acme", "2" * 64), newer, "the newest agent with a hash")
        for org, digest in (("other", "1" * 64), (None, "2" * 64), ("acme", "9" * 64)):
            expect(await store.agents.by_hash(org, digest), None, f"{digest[:4]}… for {org}")


CHECKS: Final[tuple[Check, ...]] = (
    every_version_of_an_agent_is_kept,
    versions_are_listed_newest_first,
    a_version_is_written_once,
    an_agent_is_found_by_the_hash_of_any_version,
)
