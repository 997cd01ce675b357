"""The capabilities of the besieged site: a slow tool, instant ones, one that has to be approved, and an agent."""

from __future__ import annotations

import time

from capset import Agent, Capability, tool
from capset.flows import as_tool

METADATA = "Metadata-Version: 2.1\nName: capset-siege\nVersion: 1\n"
ENTRY_POINTS = """[capset.capabilities]
siege_tools = lab.siege.tools:siege_tools
siege_staff = lab.siege.tools:siege_staff
"""
"""The files of a ``dist-info`` folder, by which a server finds these capabilities."""


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
_helper = Agent("helper", description="Helps.", system_prompt="Help.", uses=[siege_tools])
siege_staff: Capability = Capability("siege_staff", tools=[as_tool(_helper, effect="write")])
SCRIPT = {
    "agents": {
        "head": [
            {"calls": [{"tool": "helper", "arguments": {"input": str(number)}} for number in range(60)]},
            {"text": "They are done."},
        ],
        "helper": [{"calls": [{"tool": "instant", "arguments": {"number": 1}}]}, {"text": "Done."}],
    },
    "steps": [{"text": "Hello."}],
}
"""The answers of the site's model: an agent named ``head`` has 60 helpers work at once, each for two steps."""
