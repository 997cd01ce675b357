"""An agent whose turn waits for an approval in the store, and goes on in another process: a second kernel."""

import asyncio
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from capset import Agent, Capability, Hooks, Kernel, Principal, Session, tool
from capset.ext import Answer
from capset.stores.base import ApprovalQuery, SessionRow
from capset_agents.hosts import NewTurn
from capset_agents.runner import AgentRunner
from capset_agents.turns import TurnService
from capset_testing import Call, ScriptedModel

ADA, BOSS = Principal("ada"), Principal("boss")


@tool(effect="external", approval="ask")
async def pay(to: str, amount: int) -> str:
    """Pay somebody.

    Args:
        to: Whom.
        amount: How much.
    """
    return f"{to} has {amount}"


cashier = Agent("cashier", system_prompt="You pay bills.", uses=[Capability("till", tools=[pay])])


class Process:
    """One process of a host: a kernel, and the turns that it runs."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.turns = TurnService(kernel, self)

    async def reopen(self, row: SessionRow, caller: Mapping[str, Any], hooks: Hooks) -> Session:
        """Open the session of a turn that goes on: a real host looks its caller up again."""
        return await self.kernel.enter(row, cashier, principal=Principal(str(caller["id"])), hooks=hooks)

    async def say(self, row: SessionRow, text: str) -> None:
        """Begin a turn for Ada, and wait until it ends or waits."""
        caller = {"id": ADA.id}
        new = NewTurn(text, "bill-7", caller, lambda hooks: self.reopen(row, caller, hooks))
        await self.turns.wait((await self.turns.begin(row, new)).turn)

    async def tell(self, row: SessionRow) -> None:
        """Print the last event of a session."""
        last = (await self.kernel.store.events.read(row.id, after=0, limit=100)).items[-1]
        data = json.loads(last.data)
        print(last.type, data.get("output", f"{len(data.get('approvals', []))} request"))


async def main() -> None:
    """Begin a turn, have it approved, and go on elsewhere."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{Path(folder) / 'capset.db'}"
        model = ScriptedModel(Call(pay, to="bob", amount=7), "Bob has his money.")
        async with Kernel(store, generator=AgentRunner(model)) as kernel:
            first = Process(kernel)
            row = kernel.new_session(cashier, ADA)
            await kernel.store.sessions.create(row)
            await first.say(row, "pay bob's bill")
            await first.tell(row)

        async with Kernel(store) as kernel:
            (request,) = (await kernel.approvals.list(ApprovalQuery(None, "pending"))).items
            await kernel.approvals.decide(request.id, Answer(approved=True), by=BOSS)
            print("approved:", request.tool, request.arguments)

        async with Kernel(store, generator=AgentRunner(model)) as kernel:
            second = Process(kernel)
            await second.turns.continue_due()
            for turn in list(second.turns.running):
                await second.turns.wait(turn)
            await second.tell(row)


asyncio.run(main())
# turn.suspended 1 request
# approved: pay {"amount":7,"to":"bob"}
# turn.ended Bob has his money.
