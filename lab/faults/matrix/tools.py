"""The capability of the servers that faults befall: calls whose effects are lines of a file outside."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

from capset import Capability, Context, tool
from lab.faults.load import EFFECTS, note

METADATA = "Metadata-Version: 2.1\nName: capset-faults\nVersion: 1\n"
ENTRY_POINTS = "[capset.capabilities]\nfault_tools = lab.faults.matrix.tools:fault_tools\n"
"""The files of a ``dist-info`` folder, by which a server finds this capability."""
_SECONDS = 0.02


@tool
async def act(name: str, folder: str) -> str:
    """Have an effect."""
    note(Path(folder), EFFECTS, name, durable=True)
    await asyncio.sleep(random.uniform(0, _SECONDS))  # between the effect and its outcome, too
    return name


@tool(effect="external")
def act_in_a_thread(name: str, folder: str) -> str:
    """Have an effect, in a thread."""
    time.sleep(random.uniform(0, _SECONDS))
    note(Path(folder), EFFECTS, name, durable=True)
    return name


@tool(approval="ask")
async def sign(name: str, folder: str) -> str:
    """Have an effect that has to be approved."""
    note(Path(folder), EFFECTS, name, durable=True)
    await asyncio.sleep(random.uniform(0, _SECONDS))
    return name


@tool
async def step(ctx: Context, number: int, folder: str) -> str:
    """Have an effect that is this session's own."""
    name = f"{ctx.session.id}/{number}"
    note(Path(folder), EFFECTS, name, durable=True)
    await asyncio.sleep(random.uniform(0, 5 * _SECONDS))
    return name


fault_tools: Capability = Capability("fault_tools", tools=[act, act_in_a_thread, sign, step])
