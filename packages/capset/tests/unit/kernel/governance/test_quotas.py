"""Windows in one process: kept by sessions, and removed when nothing counts in them (spec 4, G13)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capset import Agent, Kernel, Principal, tool
from capset.definitions.governance.limits import Limit
from capset.errors import LimitExceeded
from capset.kernel.governance import quotas
from capset_testing import FakeClock


@tool(effect="read", limits=(Limit(2, "1s", scope="process"),))
async def look() -> int:
    """Look."""
    return 1


other = replace(look, name="other", limits=(Limit(1, "1s", scope="process", per="session"),))
AGENT = Agent("clerk", tools=[look, other])
WHO = Principal("ada")


@pytest.mark.spec("G13")
async def test_sessions_count_together_after_the_window_that_they_kept_was_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quotas, "_SWEEP_EVERY", 3)
    clock = FakeClock()
    async with (
        Kernel(store="memory://", clock=clock) as kernel,
        kernel.open(AGENT, principal=WHO) as first,
        kernel.open(AGENT, principal=WHO) as second,
    ):
        for session in (first, second):
            await session.call(look)
        with pytest.raises(LimitExceeded):
            await first.call(look)
        clock.advance(2)
        windows = first._context.runtime.quotas
        for _ in range(5):
            async with kernel.open(AGENT, principal=WHO) as passing:
                await passing.call(other)
        assert windows.sweeps > 0
        for session in (first, second):
            await session.call(look)
        for session in (first, second):
            with pytest.raises(LimitExceeded, match="try again in 1 s"):
                await session.call(look)


@pytest.mark.spec("G13")
async def test_what_counts_is_kept_while_empty_windows_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "_SWEEP_EVERY", 3)
    clock = FakeClock()
    async with Kernel(store="memory://", clock=clock) as kernel, kernel.open(AGENT, principal=WHO) as session:
        await session.call(look)
        for _ in range(20):
            async with kernel.open(AGENT, principal=WHO) as passing:
                await passing.call(other)
                clock.advance(0.01)
        assert session._context.runtime.quotas.sweeps > 0
        await session.call(look)
        with pytest.raises(LimitExceeded):
            await session.call(look)
        clock.advance(2)
        async with kernel.open(AGENT, principal=WHO) as passing:
            for _ in range(4):
                async with kernel.open(AGENT, principal=WHO) as last:
                    await last.call(other)
            await passing.call(other)
        assert len(session._context.runtime.quotas) <= 8
