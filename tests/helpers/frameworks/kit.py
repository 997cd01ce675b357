"""Tools for the agents of frameworks to call, and a session that has them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import anyio
from pydantic import BaseModel

from capset import (
    Agent,
    Capability,
    Context,
    Decision,
    Kernel,
    Principal,
    Progress,
    Reply,
    Request,
    ToolError,
    allow,
    ask,
    policy,
    tool,
)
from capset.definitions.governance.approvals import Answer
from tests.helpers.kernel.support import Desk

paid: list[int] = []
"""The sums that were paid since the office opened."""
notes: list[str] = []
"""The notes that were kept, by somebody who may not."""
waiting: list[str] = []
"""The calls of ``wait`` that have begun."""


class Flags(BaseModel):
    hurry: bool = False


@policy
async def large_sums(request: Request) -> Decision:
    arguments = request.arguments or {}
    return ask("more than 100") if arguments.get("sum", 0) > 100 else allow()


@tool(effect="read")
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="external", policies=[large_sums])
async def pay(sum: int) -> dict[str, int]:
    """Pay a sum."""
    paid.append(sum)
    return {"paid": sum}


@tool(effect="write", permissions={"notes:write"})
async def note(text: str) -> str:
    """Keep a note."""
    notes.append(text)
    return text


@tool(effect="read", limits="2/1h")
async def look() -> str:
    """Look, at most twice an hour."""
    return "nothing"


@tool(effect="read")
async def fail() -> str:
    """Fail, in one's own words."""
    raise ToolError("the shelf is empty; order first", code="empty_shelf", status=409)


@tool(effect="read")
async def count(texts: list[str]) -> AsyncIterator[Progress | Reply[int]]:
    """Count words, and say how far it is."""
    for position, text in enumerate(texts, start=1):
        yield Progress(position / len(texts), text)
    yield Reply(len(" ".join(texts).split()))


@tool(effect="read")
async def wait() -> None:
    """Wait for a long time."""
    waiting.append("begun")
    await anyio.sleep(3_600)


@tool(effect="read")
async def recite() -> str:
    """Recite more than a model is given."""
    return "word " * 50_000


@tool(effect="write")
async def hurry(ctx: Context) -> str:
    """Bring the tool ``run`` into play."""
    await ctx.state(Flags).patch(hurry=True)
    return "hurrying"


@tool(effect="read")
async def run() -> str:
    """Run, once in a hurry."""
    return "running"


haste = Capability("haste", tools=[run])


def more(ctx: Context) -> list[Capability]:
    return [haste] if ctx.session.state.hurry else []


TOOLS = (add, pay, note, look, fail, count, wait, recite, hurry)
INSTRUCTIONS = "Pay only what was ordered."


MOOD = "The shop is open."


def mood() -> str:
    return MOOD


@asynccontextmanager
async def office(
    *, store: str = "memory://", dynamic: bool = False, session_id: str | None = None
) -> AsyncGenerator[Desk]:
    """Open a session of an agent with these tools; with ``dynamic``, ``hurry`` brings ``run`` into play.

    It is a new one, or that which another process has left, by its id.
    """
    for log in (paid, notes, waiting):
        log.clear()
    kit = Capability("kit", instructions=INSTRUCTIONS, tools=TOOLS, state={"session": Flags}, context=[mood])
    agent = Agent("clerk", uses=[kit, more] if dynamic else [kit])
    ada = Principal("ada")
    async with Kernel(store=store) as kernel, kernel.open(agent, principal=ada, session_id=session_id) as session:
        yield Desk(kernel, session)


async def decide(desk: Desk, request: str, *, approved: bool = True) -> None:
    """Approve a request, or reject it, as another person does."""
    await desk.kernel.approvals.decide(request, Answer(approved=approved, note="no"), by=Principal("boss"))
