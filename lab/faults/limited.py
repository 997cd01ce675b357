"""Calls with a limit, a budget and approvals, in a process that is killed while they run: `limited.py URL SESSION`.

It prints a line for each handler that starts.
"""

from __future__ import annotations

import asyncio
import sys

from capset import Agent, Capability, Kernel, Principal, tool
from capset.definitions.governance.limits import Budget
from capset.ext import Governance

LIMIT = 40
BUDGET = 90
PRINCIPAL = Principal("user-1")


@tool(effect="write", limits=f"{LIMIT}/1d")
async def send(number: int) -> int:
    """Send something."""
    print("send", number, flush=True)
    await asyncio.sleep(0.01)
    return number


@tool(effect="write", approval="ask")
async def pay(number: int) -> int:
    """Pay something."""
    print("pay", number, flush=True)
    await asyncio.sleep(0.01)
    return number


AGENT = Agent("clerk", uses=[Capability("till", tools=[send, pay])])


async def main(url: str, session_id: str | None) -> None:
    governance = Governance(pending_approvals=1_000)
    async with (
        Kernel(store=url, governance=governance) as kernel,
        kernel.open(AGENT, principal=PRINCIPAL, session_id=session_id, budget=Budget(calls=BUDGET)) as session,
    ):
        print("session", session.id, flush=True)
        if session_id is None:
            return
        deferring = session.options(approvals="defer")
        for _ in range(16):
            await asyncio.gather(
                *(session.try_call(send, number) for number in range(3)),
                *(deferring.try_call(pay, number) for number in range(10)),
            )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
