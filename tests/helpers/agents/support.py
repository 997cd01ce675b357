"""A kernel with an agent whose model follows a script, and the turns of its sessions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai.models import Model

from capset import Agent, Capability, Kernel, Principal, ToolError, tool
from capset.clock import Clock
from capset.definitions.governance.approvals import Answer
from capset.definitions.governance.hooks import Hooks
from capset.definitions.governance.settings import Governance
from capset.kernel.call.session import Session
from capset.stores.base import ApprovalQuery, EventRow, SessionRow, Store
from capset_agents.hosts import NewTurn
from capset_agents.playback.script_model import ScriptedModel
from capset_agents.playback.scripts import Call, ScriptStep
from capset_agents.runner import AgentRunner
from capset_agents.turns import TurnService

ADA = Principal("ada")
EVE = Principal("eve")
READER = Principal("ada", permissions={"session_files:read"})

Moves = list[Call | str | list[Call] | ScriptStep]


@dataclass
class Shelf:
    """What the tools of the tests do, in order."""

    done: list[str] = field(default_factory=list[str])

    def agent(self, name: str = "scribe", **options: Any) -> Agent:
        """Return an agent that reads, writes, asks and fails."""
        shelf = self.done

        @tool(effect="read")
        def look(text: str = "") -> str:
            """Look at something.

            Args:
                text: At what.
            """
            shelf.append(f"look {text}")
            return f"seen {text}"

        @tool(effect="write")
        async def put(text: str) -> str:
            """Put something on the shelf.

            Args:
                text: What.
            """
            shelf.append(f"put {text}")
            return f"kept {text}"

        @tool(effect="write", approval="ask")
        async def burn(text: str) -> str:
            """Burn something.

            Args:
                text: What.
            """
            shelf.append(f"burn {text}")
            return f"burnt {text}"

        @tool(effect="read")
        def fail() -> str:
            """Fail."""
            raise ToolError("the shelf is broken")

        @tool(effect="write")
        async def hang() -> str:
            """Hang."""
            shelf.append("hang")
            await asyncio.sleep(3_600)
            return "never"

        tools = [look, put, burn, fail, hang]
        return Agent(name, system_prompt="You keep a shelf.", uses=[Capability("shelf", tools=tools)], **options)


@dataclass
class Site:
    """One process: a kernel, and its turns."""

    kernel: Kernel
    agent: Agent
    turns: TurnService
    principal: Principal = ADA

    async def session(self) -> SessionRow:
        """Store a new session."""
        row = self.kernel.new_session(self.agent, self.principal)
        await self.kernel.store.sessions.create(row)
        return row

    async def reopen(self, row: SessionRow, caller: Mapping[str, Any], hooks: Hooks) -> Session:
        """Open a session for a turn that is continued."""
        return await self.kernel.enter(row, self.agent, principal=self.principal, hooks=hooks)

    async def say(self, row: SessionRow, content: Any) -> str:
        """Begin a turn and wait until it has ended, or waits for an approval; return its id."""
        turn = await self.begin(row, content)
        await self.turns.wait(turn)
        return turn

    async def begin(self, row: SessionRow, content: Any) -> str:
        """Begin a turn."""

        async def open_session(hooks: Hooks) -> Session:
            return await self.reopen(row, {}, hooks)

        begun = await self.turns.begin(row, NewTurn(content, "corr-1", {"who": "ada"}, open_session))
        return begun.turn

    async def go_on(self) -> None:
        """Continue what is due, and wait for it."""
        await self.turns.continue_due()
        for turn_id in list(self.turns.running):
            await self.turns.wait(turn_id)

    async def resume(self, row: SessionRow, turn: str) -> None:
        """Have a turn's caller continue it, and wait for it."""
        await self.turns.resume(row, turn, {"who": "ada"}, lambda hooks: self.reopen(row, {}, hooks))
        await self.turns.wait(turn)

    async def approve(self, *, approved: bool = True, note: str | None = None) -> None:
        """Have Eve decide the newest request."""
        (row, *_) = (await self.kernel.store.approvals.list(ApprovalQuery(None, status="pending"))).items
        await self.kernel.approvals.decide(row.id, Answer(approved=approved, note=note), by=EVE)

    async def events(self, row: SessionRow) -> list[EventRow]:
        """Return all events of a session."""
        return list((await self.kernel.store.events.read(row.id, after=0, limit=10_000)).items)

    async def told(self, row: SessionRow) -> list[tuple[str, dict[str, Any]]]:
        """Return the types of all events, and their data."""
        return [(event.type, json.loads(event.data)) for event in await self.events(row)]

    async def last(self, row: SessionRow) -> tuple[str, dict[str, Any]]:
        """Return the last event."""
        return (await self.told(row))[-1]

    async def said(self, row: SessionRow) -> list[Any]:
        """Return the messages of the conversation."""
        return [json.loads(message.data) for message in (await self.kernel.store.events.messages(row.id)).items]


@asynccontextmanager
async def site(
    store: str | Store,
    shelf: Shelf,
    moves: Moves,
    *,
    clock: Clock | None = None,
    seconds: float = 60.0,
    max_turns: int = 16,
    agent: Agent | None = None,
    model: Model | None = None,
    principal: Principal = ADA,
    governance: Governance | None = None,
    **options: Any,
) -> AsyncGenerator[Site]:
    """Open a process on a store, whose model follows a script."""
    runner = AgentRunner(model or ScriptedModel(*moves), **options)
    async with Kernel(store, generator=runner, clock=clock, governance=governance) as kernel:
        host = Site(kernel, agent or shelf.agent(), None, principal)  # pyright: ignore[reportArgumentType]  # set next
        host.turns = TurnService(kernel, host, seconds=seconds, max_turns=max_turns)
        yield host
