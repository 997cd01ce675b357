"""Two kernels on one database: what the agents of a principal and of an organisation use of models is counted once."""

import asyncio

from capset import Agent, Kernel, Principal
from capset.errors import BudgetExceeded
from capset.ext import Allowance, Governance, UsageLimit
from capset_agents.runner import AgentRunner
from capset_testing import ScriptedModel

STORE = "sqlite:///usage.db"
LIMITS = Allowance(usage=[UsageLimit("1h", steps=2), UsageLimit("1d", steps=3, tokens=100_000, per="org")])
CLERK = Agent("clerk", system_prompt="You greet people.")


async def greeted(kernel: Kernel, name: str) -> bool:
    """Have the agent take a turn for a principal, print what came of it, and say whether it was done."""
    async with kernel.open(CLERK, principal=Principal(name, org="acme")) as session:
        try:
            print(f"{name}: {await session.run('Hello')}")
        except BudgetExceeded as error:
            print(f"{name}: {error.message}")
            return False
        return True


async def main() -> None:
    runner = AgentRunner(ScriptedModel("Good morning."))
    governance = Governance(allowance=LIMITS)
    async with (
        Kernel(STORE, generator=runner, governance=governance) as first,
        Kernel(STORE, generator=runner, governance=governance) as second,
    ):
        assert [await greeted(kernel, "ada") for kernel in (first, second, first)] == [True, True, False], (
            "two steps an hour"
        )
        assert [await greeted(kernel, "eve") for kernel in (first, second)] == [True, False], "three for all, a day"


asyncio.run(main())
