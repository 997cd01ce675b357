"""Windows in one process: kept by sessions, and removed when nothing counts in them (spec 4, G13)."""

from __future__ import annotations

import pytest

from capset import Agent, Kernel, Principal
from capset.definitions.governance.limits import Limit
from capset.errors import LimitExceeded
from capset.kernel.governance import quotas
from capset_testing import FakeClock
from tests.helpers.evaluation.things import make

pytestmark = pytest.mark.spec("G13")


look = make("look", limits=Limit(2, "1s", scope="process"))
other = make("other", limits=Limit(1, "1s", scope="process", per="session"))
AGENT = Agent("clerk", tools=[look, other])
WHO = Principal("ada")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """Give the clock of a kernel that sweeps often."""
    monkeypatch.setattr(quotas, "_SWEEP_EVERY", 3)
    return FakeClock()


async def pass_by(kernel: Kernel) -> None:
    async with kernel.open(AGENT, principal=WHO) as session:
        await session.call(other)


async def test_sessions_count_together_after_the_window_that_they_kept_was_removed(clock: FakeClock) -> None:
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
        for _ in range(5):
            await pass_by(kernel)
        assert first._context.runtime.quotas.sweeps > 0
        for session in (first, second):
            await session.call(look)
        for session in (first, second):
            with pytest.raises(LimitExceeded, match="try again in 1 s"):
                await session.call(look)


async def test_what_counts_is_kept_while_empty_windows_are_removed(clock: FakeClock) -> None:
    async with Kernel(store="memory://", clock=clock) as kernel, kernel.open(AGENT, principal=WHO) as session:
        await session.call(look)
        for _ in range(20):
            await pass_by(kernel)
            clock.advance(0.01)
        assert session._context.runtime.quotas.sweeps > 0
        await session.call(look)
        with pytest.raises(LimitExceeded):
            await session.call(look)
        clock.advance(2)
        for _ in range(5):
            await pass_by(kernel)
        assert len(session._context.runtime.quotas) <= 8
