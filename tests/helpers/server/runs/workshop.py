"""Two services on one database, as workers have them, in one process, with tools that wait until they are told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from capset import Agent, Capability, Context, Kernel, Principal, ToolError, tool
from capset.clock import SystemClock
from capset.definitions.governance.approvals import Answer
from capset.errors import StoreError
from capset.stores.base import RunRow
from capset_server.runs.calls import do_call
from capset_server.service import Service
from tests.helpers.kernel.support import TappedStore
from tests.helpers.server.runs.working import ADA, look_at
from tests.helpers.server.support import registry_of

DAY: Final = 24 * 3_600 * 1_000_000_000


class Clock(SystemClock):
    """The clock of the system, set ahead."""

    ahead = 0

    def time_ns(self) -> int:
        """Return the time, in nanoseconds of Unix time."""
        return super().time_ns() + self.ahead


@dataclass
class Bench:
    """The two services. ``deeds`` is what their tools did; one that waits sets ``began``, and goes on by ``gate``."""

    one: Service
    two: Service
    clock: Clock
    deeds: list[str]
    began: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    failing: int = 0
    """How many of the next intents of the first service its store does not take."""

    async def do(self, run: RunRow, *, at: Service | None = None) -> bool:
        """Do a run as it stands now, as far as it goes."""
        return await do_call(at or self.one, await look_at(self.one, run))

    async def decide(self, run: RunRow, *, is_approved: bool) -> None:
        """Decide the request that a run waits for."""
        waiting = await look_at(self.one, run)
        assert waiting.approval is not None
        answer = Answer(approved=is_approved)
        await self.one.kernel.approvals.decide(waiting.approval, answer, by=Principal("eve", org="acme"))


@asynccontextmanager
async def workshop(store: str) -> AsyncGenerator[Bench]:
    """Open two services on a database."""
    clock = Clock()

    def tap(phase: str) -> None:
        if phase == "intent" and bench.failing:
            bench.failing -= 1
            raise StoreError("the store is away")

    async with Kernel(TappedStore(tap, store), clock=clock) as first, Kernel(store, clock=clock) as two:
        deeds: list[str] = []

        async def work(deed: str) -> None:
            deeds.append(deed)
            bench.began.set()
            await bench.gate.wait()

        @tool(effect="read")
        async def look(text: str) -> str:
            """Look."""
            deeds.append(f"look {text}")
            return text

        @tool(effect="write")
        async def pay(ctx: Context, text: str) -> str:
            """Look, then pay, which fails."""
            await ctx.call(look, text)
            await work(f"pay {text}")
            raise ToolError("too expensive")

        @tool(effect="write")
        async def send(text: str) -> str:
            """Send something."""
            await work(f"send {text}")
            return text

        @tool(effect="write", approval="ask")
        async def burn(text: str) -> str:
            """Burn something."""
            await work(f"burn {text}")
            return text

        agent = Agent("scribe", system_prompt="Work.", uses=[Capability("work", tools=[look, pay, send, burn])])
        services = [Service(kernel, registry_of(agents=[agent]), anyone=ADA) for kernel in (first, two)]
        bench = Bench(services[0], services[1], clock, deeds)
        yield bench
