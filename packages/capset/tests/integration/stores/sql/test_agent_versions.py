"""Versions of agents beside processes that keep none (spec 5, P5, P30)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capset.stores.base import AgentRow, VersionQuery
from tests.helpers.stores.sql.support import opened_at, run_at

FIRST = AgentRow(
    "a",
    "acme",
    "scribe",
    "",
    "",
    (),
    (),
    (),
    "active",
    1,
    "1" * 64,
    "2026-01-01T00:00:00Z",
    "2026-01-01T00:00:00Z",
    author="user:ada",
)


@pytest.mark.spec("P5", "P30")
async def test_what_an_older_process_replaced_is_kept_with_the_next_version(url: str) -> None:
    async with opened_at(url) as store:
        await store.agents.create(FIRST)
        run_at(url, "UPDATE agents SET version = 2, description = 'theirs', static_hash = 'h2' WHERE id = 'a'")
        theirs = await store.agents.get("acme", "a")
        assert theirs is not None
        assert theirs.description == "theirs"
        assert await store.agents.version("acme", "a", 2) == theirs, "the current one is there whoever wrote it"
        page = await store.agents.versions(VersionQuery("acme", "a"))
        assert page.items == (theirs, FIRST)
        assert await store.agents.version("acme", "a", 2**70) is None
        assert await store.agents.by_hash("acme", "h2") is None
        third = replace(theirs, version=3)
        assert await store.agents.replace(third)
        page = await store.agents.versions(VersionQuery("acme", "a"))
        nobodys = replace(theirs, author=None)  # an older process does not say who
        assert page.items == (third, nobodys, FIRST)
        assert await store.agents.version("acme", "a", 2) == nobodys
        assert await store.agents.by_hash("acme", "h2") == third


@pytest.mark.spec("P5")
async def test_what_an_older_process_made_has_its_first_version(url: str) -> None:
    async with opened_at(url) as store:
        await store.agents.create(FIRST)
        run_at(url, "DELETE FROM agent_versions")
        assert await store.agents.version("acme", "a", 1) == FIRST
        assert (await store.agents.versions(VersionQuery("acme", "a"))).items == (FIRST,)
        assert (await store.agents.versions(VersionQuery("acme", "a", before=1))).items == ()
