"""A governed call from 10 to 10,000 registered tools, by tool and by name (spec 4, G35)."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import cycle
from pathlib import Path

from capset import Agent, Capability, Kernel, Principal
from lab.benchmarks.governed_call import gated
from lab.benchmarks.row import Row
from lab.benchmarks.turns import Job, in_turns

FLAT = 1.25
"""How many times the time among 10 tools a call among the most may take: what is left is the processor's caches."""
CALLED = 10
"""Tools that are called in turn, spread evenly over those that are registered."""


def measure(*, quick: bool) -> list[Row]:
    """Return how the time of a call with a limit and three policies grows with the number of tools."""
    caller_times = microseconds((10, 100) if quick else (10, 100, 1_000, 10_000), rounds=1 if quick else 15)
    return [_row(how, times) for how, times in caller_times.items()]


def microseconds(sizes: Sequence[int], *, rounds: int) -> dict[str, dict[int, float]]:
    """Return the time of a call by tool and by name, at each number of tools."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder), sizes, rounds=rounds))


async def _measure(folder: Path, sizes: Sequence[int], *, rounds: int) -> dict[str, dict[int, float]]:
    async with AsyncExitStack() as stack:
        kernel = await stack.enter_async_context(Kernel(store=f"sqlite:///{folder / 'bench.db'}"))
        by_tool: dict[int, Job] = {}
        by_name: dict[int, Job] = {}
        for size in sizes:
            by_tool[size], by_name[size] = await _jobs(kernel, stack, size)
        jobs = {f"{size} by tool": job for size, job in by_tool.items()}
        jobs |= {f"{size} by name": job for size, job in by_name.items()}
        times = await in_turns(jobs, rounds=rounds, before=kernel.audit.flush)
    return {how: {size: times[f"{size} by {how}"] for size in sizes} for how in ("tool", "name")}


async def _jobs(kernel: Kernel, stack: AsyncExitStack, size: int) -> tuple[Job, Job]:
    tools = [replace(gated, name=f"add_{number}") for number in range(size)]
    agent = Agent(f"bench_{size}", uses=[Capability("math", tools=tools)])
    principal = Principal("bench", permissions={"math:use"})
    session = await stack.enter_async_context(kernel.open(agent, principal=principal))
    called = tools[:: size // CALLED]
    some = cycle(called).__next__
    names = cycle([session.message(tool.name, {"a": 2, "b": 3}) for tool in called]).__next__
    return lambda: session.call(some(), a=2, b=3), lambda: session.try_message(names())


def _row(how: str, times: dict[int, float]) -> Row:
    minimum, maximum = min(times), max(times)
    return Row(
        f"governed call by {how}, among {maximum} tools",
        round(times[maximum] / times[minimum], 2),
        f"times a call among {minimum}",
        FLAT,
        "at most",
        {f"{size} tools": f"{microseconds:.2f} µs" for size, microseconds in times.items()},
    )
