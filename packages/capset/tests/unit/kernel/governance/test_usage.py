"""Steps whose usage cannot be counted for the hour: their limits hold nevertheless (spec 6, R24, R28)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

import pytest

from capset.clock import SystemClock
from capset.definitions.governance.usage import AgentUsage, UsageLimit
from capset.errors import BudgetExceeded, StoreError
from capset.kernel.governance.quotas import CountedUsage
from capset.kernel.governance.usage import UsageMeter
from capset.stores.base import ModelUser, UsageWindow, WindowUsage
from capset.stores.memory import MemoryStore

pytestmark = pytest.mark.spec("R24", "R28")

WINDOW: Final = UsageWindow("window", 3_600 * 10**9)
LIMIT: Final = CountedUsage("this principal", UsageLimit("1h", tokens=1_000), WINDOW)
CARL: Final = ModelUser("acme", "office", "carl", "user")
MAXIMUM: Final = AgentUsage(steps=1, tokens=500)
USED: Final = AgentUsage(steps=1, calls=2, tokens=400)


@pytest.fixture
async def store() -> AsyncGenerator[MemoryStore]:
    """Yield an open store."""
    store = MemoryStore()
    await store.open()
    yield store
    await store.close()


async def settled(store: MemoryStore) -> WindowUsage:
    (usage,) = await store.usage.read([WINDOW], SystemClock().time_ns())
    return usage


@pytest.mark.parametrize("problem", [StoreError("the disk is full"), asyncio.CancelledError()])
async def test_a_step_is_settled_although_it_is_not_counted(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, problem: BaseException
) -> None:
    async def count(user: ModelUser, used: AgentUsage, now: int) -> None:
        raise problem

    monkeypatch.setattr(store.usage, "count", count)
    meter = UsageMeter([LIMIT], store, SystemClock(), CARL)
    await meter.reserve("step", MAXIMUM)
    if isinstance(problem, StoreError):
        await meter.settle("step", USED)
        assert "the disk is full" in caplog.text
    else:
        with pytest.raises(asyncio.CancelledError):
            await meter.settle("step", USED)
    assert await settled(store) == WindowUsage(USED, AgentUsage())


async def test_a_step_beyond_a_limit_is_counted_without_its_calls(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[AgentUsage] = []

    async def count(user: ModelUser, used: AgentUsage, now: int) -> None:
        counted.append(used)

    monkeypatch.setattr(store.usage, "count", count)
    meter = UsageMeter([LIMIT], store, SystemClock(), CARL)
    await meter.reserve("step", MAXIMUM)
    with pytest.raises(BudgetExceeded):
        await meter.settle("step", AgentUsage(steps=1, calls=2, tokens=1_001))
    assert counted == [AgentUsage(steps=1, tokens=1_001)]
