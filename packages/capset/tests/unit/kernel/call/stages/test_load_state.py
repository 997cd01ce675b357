"""The state that a handler finds read when it starts (spec 1, C33; spec 4, G33)."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from capset import Agent, Capability, Context, Kernel, Principal, compose, tool
from capset.kernel.call.stages.run import load_state


class Counts(BaseModel):
    hits: int = 0


@tool
async def count(ctx: Context) -> None:
    """Count one."""
    await ctx.state(Counts).increment("hits")


@tool
def shown(ctx: Context) -> int:
    """Show the count, in a function that cannot wait."""
    return ctx.session.state.hits


@tool
def unaware() -> None:
    """Ask for nothing."""


AGENT = Agent("tester", uses=[Capability("kit", tools=[count, shown, unaware], state={"session": Counts})])


@pytest.mark.spec("C33")
async def test_load_state_has_read_what_other_calls_wrote_before_a_handler_starts() -> None:
    async with Kernel(store="memory://") as kernel, kernel.open(AGENT, principal=Principal("ada")) as session:
        for hits in range(3):
            assert await session.call(shown) == hits
            await session.call(count)


@pytest.mark.spec("G33")
def test_load_state_is_no_step_of_a_tool_that_takes_no_context() -> None:
    steps = {name: load_state(installed) for name, installed in compose(AGENT).tools.items()}
    assert [name for name, step in steps.items() if step is None] == ["unaware"]
