"""A process that runs turns of an agent and is to be killed: what it does is in a file that outlives it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from capset import Agent, Capability, Kernel, Principal, tool
from capset.definitions.governance.hooks import Hooks
from capset.flows import as_tool
from capset.kernel.call.session import Session
from capset.stores.base import SessionRow
from capset_agents import journal, turns
from capset_agents.hosts import NewTurn
from capset_agents.models import ModelChoice
from capset_agents.playback.scripts import Call, Script, script_from_moves
from capset_agents.runner import AgentRunner
from capset_agents.turns import TurnService
from lab.faults.load import EFFECTS, note

ADA = Principal("ada")
_SECONDS = 0.02


@tool
async def act(number: int, folder: str) -> int:
    """Have an effect."""
    note(Path(folder), EFFECTS, str(number), durable=True)
    await asyncio.sleep(random.uniform(0, _SECONDS))  # between the effect and its outcome, too
    return number


@tool(approval="ask")
async def sign(number: int, folder: str) -> int:
    """Have an effect that has to be approved."""
    note(Path(folder), EFFECTS, str(number), durable=True)
    await asyncio.sleep(random.uniform(0, _SECONDS))
    return number


@tool(effect="read")
async def look(number: int, folder: str) -> int:
    """Have none."""
    return number


HELPER = Agent("helper", description="Helps.", uses=[Capability("kit", tools=[act, sign])])
DESK = Capability("desk", tools=[act, sign, look, as_tool(HELPER, effect="write")])
AGENT = Agent("clerk", uses=[DESK])


def run(url: str, folder: Path, session: str, number: int, seed: int) -> None:
    """Run the turn of a session, begin it if nobody has, and continue it until somebody kills this process."""
    random.seed(seed)
    # A hold of half a minute would be what is waited for.
    journal.HOLD_SECONDS, journal.RENEW_SECONDS = 1, 0.3
    turns.MAX_TAKEOVERS, turns.POLL_SECONDS = 1_000, 0.05
    asyncio.run(_turn(url, folder, session, number))


def model(folder: Path, number: int) -> ModelChoice:
    """Return a model that acts, asks, has another agent do so, and acts again, with numbers of this turn's own."""

    def call(tool: str, which: int) -> Call:
        return Call(tool, number=10 * number + which, folder=str(folder))

    moves = [call("look", 0), [call("act", 1), call("sign", 2), call("look", 3)], [call("act", 4), call("act", 5)]]
    clerk = script_from_moves([*moves, Call("helper", input="go"), call("sign", 6), call("act", 7), "Done."])
    helper = script_from_moves([call("act", 8), call("sign", 9), "Helped."])
    return ModelChoice(Script({"clerk": clerk.steps_for("clerk"), "helper": helper.steps_for("helper")}))


class Host:
    """The one agent, for whoever has begun a turn."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    async def reopen(self, row: SessionRow, caller: Mapping[str, Any], hooks: Hooks) -> Session:
        """Open a session."""
        return await self.kernel.enter(row, AGENT, principal=ADA, hooks=hooks)


async def _turn(url: str, folder: Path, session: str, number: int) -> None:
    async with Kernel(store=url, generator=AgentRunner(model(folder, number))) as kernel:
        host = Host(kernel)
        service = TurnService(kernel, host)
        row = await kernel.find_session(session)
        assert row is not None
        page = await kernel.store.events.read(session, after=0, limit=1)
        if page.last == 0:

            async def opening(hooks: Hooks) -> Session:
                return await host.reopen(row, {}, hooks)

            await service.begin(row, NewTurn("go", "corr", {}, opening))
        await service.watch()
