"""A handler, a context function and a helper know which presets of a capability are on."""

from __future__ import annotations

import pytest

from capset import Agent, Capability, Context, Preset, tool
from capset.errors import ToolError
from capset_testing import session_for


def say_presets(ctx: Context) -> str:
    return f"on: {' '.join(sorted(ctx.presets(kit)))}"


@tool(effect="read")
async def ask(ctx: Context) -> list[str]:
    """Tell which presets are on."""
    return sorted(ctx.presets(kit.with_presets(one=False)))


@tool(effect="read")
async def ask_of_another(ctx: Context) -> int:
    """Ask for what is not used."""
    return len(ctx.presets(Capability("stranger")))


kit = Capability(
    "kit",
    tools=[ask, ask_of_another],
    context=[say_presets],
    presets={"one": Preset(instructions="One."), "two": Preset(instructions="Two."), "three": Preset()},
    default=["one"],
)


@pytest.mark.spec("C4")
async def test_the_presets_that_are_on_are_told() -> None:
    async with session_for(kit) as desk:
        assert await desk.session.call(ask) == ["one"]
    async with session_for(kit.with_presets(one=False, three=True, two=True)) as desk:
        assert await desk.session.call(ask) == ["three", "two"]
        assert "on: three two" in await desk.session.system_text()


@pytest.mark.spec("C27", "C29")
async def test_those_that_dynamic_uses_add_are_among_them() -> None:
    async with session_for(Agent("a", uses=[kit, lambda ctx: [kit.with_presets(two=True)]])) as desk:
        assert await desk.session.call(ask) == ["one", "two"]
        assert "on: one two" in await desk.session.system_text()


async def test_a_capability_that_is_not_used_has_none() -> None:
    async with session_for(kit) as desk:
        with pytest.raises(ToolError, match="'stranger' is not used by 'tester'"):
            await desk.session.call(ask_of_another)
