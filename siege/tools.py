"""The capability of the besieged site: a slow tool, instant ones, and one that has to be approved."""

from __future__ import annotations

import time

from capset import Capability, tool

METADATA = "Metadata-Version: 2.1\nName: capset-siege\nVersion: 1\n"
ENTRY_POINTS = "[capset.capabilities]\nsiege_tools = siege.tools:siege_tools\n"
"""The files of a ``dist-info`` folder, by which a server finds this capability."""


@tool(effect="read")
def sleep(seconds: float) -> float:
    """Sleep in a thread."""
    time.sleep(seconds)
    return seconds


@tool(effect="read")
def instant(number: int) -> int:
    """Give the number back, from a thread."""
    return number


@tool(effect="read")
async def repeat(text: str) -> str:
    """Give the text back."""
    return text


@tool(effect="write")
async def keep(text: str) -> str:
    """Give the text back, as if that changed something: an intent is durable before it, an outcome after it."""
    return text


@tool(effect="write", approval="ask")
async def pay(to: str) -> str:
    """Pay somebody, once somebody else has approved it."""
    return f"{to} has it"


siege_tools: Capability = Capability("siege_tools", tools=[sleep, instant, repeat, keep, pay])
