"""A capability that answers calls in every way that one can be answered, and an agent in code that has it.

This folder on ``PYTHONPATH`` is enough: the entry points stand in the ``dist-info`` folder beside this module.
"""

from __future__ import annotations

from capset import Agent, Capability, tool


@tool(effect="read")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="write")
async def note(text: str) -> str:
    """Take a note, which the store has to know of first."""
    return text


@tool(effect="read", permissions={"vault:open"})
async def unlock() -> str:
    """Open the vault."""
    return "open"


@tool(effect="write", approval="ask")
async def pay(to: str) -> str:
    """Pay somebody, once somebody else has approved it."""
    return f"{to} has it"


@tool(effect="read", limits="1/1h")
async def ring() -> str:
    """Ring once an hour."""
    return "rung"


shop: Capability = Capability("shop", description="It sells.", tools=[add, note, unlock, pay, ring])
clerk: Agent = Agent("clerk", system_prompt="Be polite.", uses=[shop])
