"""A call with a limit that processes share against one with a limit of its process, in one run (spec 4, G14)."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

from capset import Agent, Kernel, Principal, Session, tool
from capset.definitions.governance.limits import Limit, LimitScope
from capset.definitions.tools.options import Effect
from lab.benchmarks.row import Row
from lab.benchmarks.turns import together

READS_TARGET, WRITES_TARGET = 30, 2
"""Times that a call with a shared limit takes: one that only reads has a durable write of its own."""
AT_ONCE = 64


def _add(effect: Effect, scope: LimitScope) -> Any:  # a tool, called by keywords
    @tool(effect=effect, limits=Limit(1_000_000, "1d", scope=scope), name=f"add_{effect}_{scope}")
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return add


def measure(*, quick: bool) -> list[Row]:
    """Return how many times as long calls take, at 64 at once on SQLite."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder), rounds=3 if quick else 7, calls=5 if quick else 30))


async def _measure(folder: Path, *, rounds: int, calls: int) -> list[Row]:
    scopes: tuple[LimitScope, ...] = ("shared", "process")
    effects: tuple[Effect, ...] = ("read", "write")
    tools = {(effect, scope): _add(effect, scope) for effect in effects for scope in scopes}
    async with (
        Kernel(store=f"sqlite:///{folder / 'limits.db'}") as kernel,
        kernel.open(Agent("bench", tools=list(tools.values())), principal=Principal("bench")) as session,
    ):
        best = dict.fromkeys(tools, float("inf"))
        for _ in range(rounds):
            for key, limited_tool in tools.items():
                best[key] = min(best[key], await _seconds(session, limited_tool, calls))
    rows: list[Row] = []
    for effect, target in (("read", READS_TARGET), ("write", WRITES_TARGET)):
        peers = {scope: f"{best[effect, scope] * 1e6:.1f} µs" for scope in scopes}
        name = f"{effect} call with a shared limit, {AT_ONCE} at once"
        ratio = best[effect, "shared"] / best[effect, "process"]
        rows.append(Row(name, round(ratio, 2), "times one with a limit of its process", target, "at most", peers))
    return rows


async def _seconds(session: Session, limited_tool: Any, calls: int) -> float:
    began = time.perf_counter()
    await together(lambda: session.call(limited_tool, a=2, b=3), AT_ONCE, calls)
    return (time.perf_counter() - began) / (AT_ONCE * calls)
