"""Checks of registrations: one for each hash of an agent, the last of them the latest (spec 2, F29)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from capset.errors import StoreError
from capset.stores.base import RegistrationRow
from capset.testing.store_suite.support import LATER, NOW, Check, Make, expect, expect_error, opened

_A: Final = RegistrationRow("id-1", "acme", "agent-1", "scribe", "a" * 64, "jcs-1", NOW)
_B: Final = replace(_A, id="id-2", static_hash="b" * 64, created_at=LATER)


async def a_registration_is_kept_once_for_its_hash(make: Make) -> None:
    """Its first id, profile and time stay, the newest name counts; the last one registered is the latest."""
    async with opened(make) as store:
        lineage = store.lineage
        expect(await lineage.latest_registration("acme", "agent-1"), None, "the latest of an agent that no one knows")
        expect(await lineage.register(_A), _A, "the first registration")
        expect(await lineage.register(_B), _B, "the registration of another hash")
        expect(await lineage.latest_registration("acme", "agent-1"), _B, "the latest then")
        again = replace(_A, id="id-3", agent_name="writer", profile="jcs-2", created_at=LATER)
        kept = replace(_A, agent_name="writer")
        for _ in range(2):
            expect(await lineage.register(again), kept, "the first hash, registered again")
            expect(await lineage.latest_registration("acme", "agent-1"), kept, "the latest after that")
        expect(await lineage.register(replace(_B, id="id-4")), _B, "the other hash, registered again")
        expect(await lineage.latest_registration("acme", "agent-1"), _B, "the latest in the end")


async def registrations_of_other_orgs_and_agents_are_apart(make: Make) -> None:
    """Even with the same id, agent and hash; a second one of an id within an org is refused and changes nothing."""
    async with opened(make) as store:
        others = [_A, replace(_A, org="other"), replace(_A, org=None), replace(_A, id="id-3", agent_id="agent-2")]
        for number, row in enumerate(others):
            named = replace(row, agent_name=f"name {number}")
            expect(await store.lineage.register(named), named, f"the registration of {row.org} and {row.agent_id}")
        for number, row in enumerate(others):
            found = await store.lineage.latest_registration(row.org, row.agent_id)
            expect(found, replace(row, agent_name=f"name {number}"), f"the latest of {row.org} and {row.agent_id}")
        await expect_error(StoreError, store.lineage.register(replace(_B, id="id-1")), "a second registration of an id")
        found = await store.lineage.latest_registration("acme", "agent-1")
        expect(found and found.static_hash, "a" * 64, "the latest after that")


async def concurrent_registrations_give_one_row(make: Make) -> None:
    """All that register one hash at once get the same row."""
    async with opened(make) as store:
        rows = [replace(_A, id=f"id-{number}") for number in range(50)]
        found = await asyncio.gather(*[store.lineage.register(row) for row in rows])
        expect(len(set(found)), 1, "the rows that were told")
        expect(await store.lineage.latest_registration("acme", "agent-1"), found[0], "the row that is kept")


CHECKS: Final[tuple[Check, ...]] = (
    a_registration_is_kept_once_for_its_hash,
    registrations_of_other_orgs_and_agents_are_apart,
    concurrent_registrations_give_one_row,
)
