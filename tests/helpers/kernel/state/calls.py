"""A call that is done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from capset import Agent, Capability, Context, tool
from tests.helpers.kernel.support import opened


async def done(
    do: Callable[[Context], Awaitable[None]], *resources: Any, store: str = "memory://", **parts: Any
) -> None:
    @tool
    async def act(ctx: Context) -> bool:
        """Do what the test wants."""
        await do(ctx)
        return True

    kit = Capability("kit", tools=[act], resources=resources, **parts)
    async with opened(Agent("tester", uses=[kit]), store=store) as desk:
        await desk.session.call(act)
