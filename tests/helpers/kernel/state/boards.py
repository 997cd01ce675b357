"""A board of notes as a resource."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from capset import Agent, Capability, Context, Resource, tool
from capset.definitions.resources import AnyResource, Documents
from tests.helpers.kernel.support import opened


class Board(BaseModel):
    title: str = "untitled"
    points: int = 0
    cards: list[str] = Field(default_factory=list[str], max_length=3)
    due: datetime | None = None


notes = Resource("notes", list[str], scope="session", default=list)
board = Resource("board", Board, scope="session", default=Board)
total = Resource("total", int, scope="session", default=0)
bare = Resource("bare", dict[str, int], scope="session")
KNOWN: list[AnyResource] = [notes, board, total, bare]


def agent_of(*resources: AnyResource | Documents, do: Callable[[Context], Any]) -> tuple[Agent, Any]:
    """Return an agent with one tool, which does as the test says, and what calls it."""
    results: list[Any] = []

    @tool
    async def act(ctx: Context) -> bool:
        """Do what the test wants."""
        results.append(await do(ctx))
        return True

    kit = Capability("kit", tools=[act], resources=resources)

    async def run(session: Any) -> Any:
        await session.call(act)
        return results[-1]

    return Agent("tester", uses=[kit]), run


async def done(
    do: Callable[[Context], Any], store: str = "memory://", *resources: AnyResource | Documents, **options: Any
) -> Any:
    agent, run = agent_of(*(resources or KNOWN), do=do)
    async with opened(agent, store=store, **options) as desk:
        return await run(desk.session)
