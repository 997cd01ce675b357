"""What principals may use, for themselves and for others (spec 4, G9, G36)."""

from __future__ import annotations

import pytest

from capset import Agent, Capability, Kernel, Principal, tool
from capset.ext import Allowance, Budget, Governance


@tool(effect="read")
async def look() -> int:
    """Look."""
    return 1


WORKER = Agent("worker", uses=[Capability("kit", tools=[look])])
ADA = Principal("ada")


@pytest.mark.spec("G36")
async def test_what_a_principal_may_use_is_held_beside_the_agents_and_the_servers() -> None:
    generous = Allowance(limits="100/1h", session=Budget(calls=100))
    agent = Agent("worker", uses=WORKER.uses, allowance=generous)
    principal = Principal("ada", allowance=Allowance(limits=["3/1h", "2/1m"], session=Budget(calls=4)))
    async with Kernel(store="memory://", governance=Governance(allowance=generous)) as kernel:
        async with kernel.open(agent, principal=principal) as session:
            results = [await session.try_call(look) for _ in range(3)]
        assert [result.success for result in results] == [True, True, False]
        assert "this principal takes 2/1m" in str(results[2].error)


@pytest.mark.spec("G9", "G36")
async def test_who_acts_for_somebody_may_use_what_both_may() -> None:
    bot = Principal("bot", kind="agent", allowance=Allowance(limits="9/1h", session=Budget(calls=9)))
    ada = Principal("ada", allowance=Allowance(session=Budget(calls=1), run=Budget(cost=2)))
    both = Allowance(limits="9/1h", session=Budget(calls=1), run=Budget(cost=2))
    assert bot.acting_for(ada).allowance == ada.acting_for(bot).allowance == both
    assert ADA.acting_for(Principal("bob")).allowance is None
    async with Kernel(store="memory://") as kernel, kernel.open(WORKER, principal=bot.acting_for(ada)) as session:
        assert [(await session.try_call(look)).success for _ in range(2)] == [True, False]
