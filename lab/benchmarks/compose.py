"""Composing from 10 to 10,000 tools, and what it costs to be given a composition again."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

from capset import Agent, Capability, Kernel, Preset, compose, tool
from lab.benchmarks.row import Row

LINEAR = 2
"""How many times as long a tool may take among 10,000 as among 100."""
CACHED = 20
"""How many dict lookups a composition from the kernel's cache may cost."""
_names = count()


@tool(effect="read", permissions={"notes:read"})
async def template(text: str, limit: int = 10) -> list[str]:
    """Find notes that hold a text, the newest first.

    Args:
        text: What to look for.
        limit: How many to return.
    """
    return [text] * limit


def agent_of(tools: int) -> Agent:
    """Return a new agent with so many new tools, in up to 100 capabilities with a preset each."""
    each = max(1, tools // 100)
    capabilities = [
        Capability(
            f"c{next(_names)}",
            instructions="How to use it.",
            tools=[replace(template, name=f"t{next(_names)}") for _ in range((each + 1) // 2)],
            presets={"more": Preset(tools=[replace(template, name=f"t{next(_names)}") for _ in range(each // 2)])},
        )
        for _ in range(min(tools, 100))
    ]
    return Agent("bench", uses=capabilities)


def measure(*, quick: bool) -> list[Row]:
    """Return how the time of a tool grows with their number, and the price of the kernel's cache in dict lookups."""
    sizes = (10, 100, 1_000) if quick else (10, 100, 1_000, 10_000)
    rounds = 1 if quick else 5
    per_tool = {size: min(seconds(size) for _ in range(rounds)) / size for size in sizes}
    curve = {f"{size} tools": f"{each * size * 1000:.2f} ms" for size, each in per_tool.items()}
    growth = per_tool[sizes[-1]] / per_tool[100]
    kernel, agent = Kernel(store="memory://"), agent_of(100)
    compositions = {agent: kernel.compose(agent)}
    empty, lookup, cached = _costs((lambda: None, lambda: compositions[agent], lambda: kernel.compose(agent)))
    prices = {"dict lookup": f"{(lookup - empty) * 1e9:.0f} ns", "kernel.compose": f"{(cached - empty) * 1e9:.0f} ns"}
    return [
        Row(
            "compose, first time, hashes too",
            round(growth, 2),
            f"times a tool's time among 100, among {sizes[-1]}",
            LINEAR,
            "at most",
            curve,
        ),
        Row(
            "compose, from the kernel's cache",
            round((cached - empty) / (lookup - empty), 1),
            "dict lookups",
            CACHED,
            "at most",
            prices,
        ),
    ]


def seconds(tools: int) -> float:
    """Return how long so many new tools take to be composed, with their hashes."""
    agent = agent_of(tools)
    gc.collect()
    began = time.perf_counter()
    compose(agent)
    return time.perf_counter() - began


def _costs(jobs: Sequence[Callable[[], object]], calls: int = 20_000, rounds: int = 50) -> list[float]:
    """Return the seconds of a call of each job in its best round; they take turns, so all meet the same noise."""
    best = [float("inf")] * len(jobs)
    for _ in range(rounds):
        for number, job in enumerate(jobs):
            began = time.perf_counter()
            for _ in range(calls):
                job()
            best[number] = min(best[number], (time.perf_counter() - began) / calls)
    return best
