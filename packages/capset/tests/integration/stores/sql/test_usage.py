"""Steps of models whose settlement goes wrong: none stays reserved, and each counts once (spec 6, R24)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import pytest

from capset.definitions.governance.usage import AgentUsage, UsageLimit
from capset.errors import StoreError
from capset.stores.base import StepClaim, UsageWindow, WindowUsage
from capset.stores.sql.store import SqlStore
from tests.helpers.stores.sql.support import opened, raw
from tests.waiting import moment

pytestmark = pytest.mark.spec("R24")

WINDOW: Final = UsageWindow("window", 3_600 * 10**9)
MOST: Final = AgentUsage(steps=1, tokens=1_000)
CLAIM: Final = StepClaim("step-1", ((UsageLimit("1h", steps=9), WINDOW),), MOST)
USED: Final = AgentUsage(steps=1, tokens=10)
NONE: Final = AgentUsage()


async def test_a_settlement_that_nobody_waits_for_counts_once(store: SqlStore) -> None:
    await store.usage.reserve(CLAIM, 1)
    settling = asyncio.create_task(store.usage.settle(CLAIM, USED, 1))
    await moment(0)
    settling.cancel()
    for _ in range(2):
        await store.usage.retry_settlements()
        assert await store.usage.read([WINDOW], 1) == [WindowUsage(USED, NONE)]


async def test_a_settlement_that_fails_is_made_later(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with opened(path, busy_seconds=0.1) as store:
        await store.usage.reserve(CLAIM, 1)
        with raw(path) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError):
                await store.usage.settle(CLAIM, USED, 1)
        assert await store.usage.read([WINDOW], 1) == [WindowUsage(NONE, MOST)]
        await store.usage.retry_settlements()
        assert await store.usage.read([WINDOW], 1) == [WindowUsage(USED, NONE)]
