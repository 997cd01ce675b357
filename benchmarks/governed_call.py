"""A governed call against a bare pydantic-validated await, interleaved in one run (spec 4, G33)."""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from pydantic import TypeAdapter, validate_call
from typing_extensions import TypedDict

from benchmarks.row import Row
from capset import Agent, Capability, Decision, Kernel, Principal, Request, Session, allow, policy, tool

TARGET = 6
"""Spec 4, G33: the gate; 5 is the aim."""
Job = Callable[[], Awaitable[object]]


class Numbers(TypedDict):
    a: int
    b: int


validator = TypeAdapter(Numbers).validator


async def plain_add(a: int, b: int) -> int:
    return a + b


async def bare(given: dict[str, int]) -> int:
    return await plain_add(**validator.validate_python(given, strict=True))


decorated = validate_call(plain_add)


@policy
def first(request: Request) -> bool:
    return request.principal.id == "bench"


@policy
def second(request: Request) -> Decision:
    return allow()


@policy
async def suspending(request: Request) -> Decision:
    await asyncio.sleep(0)
    return allow()


@tool(effect="read", permissions={"math:use"}, name="add")
async def governed(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="read", permissions={"math:use"}, policies=[first, second, suspending], name="add_with_policies")
async def gated(a: int, b: int) -> int:
    """Add two numbers, gated by three policies, one of which suspends."""
    return a + b


def measure(*, quick: bool) -> list[Row]:
    """Return the ratios of governed calls to the bare one, with the records really written to SQLite."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder), rounds=5 if quick else 15, calls=2_000 if quick else 10_000))


async def _measure(folder: Path, *, rounds: int, calls: int) -> list[Row]:
    agent = Agent("bench", uses=[Capability("math", tools=[governed, gated])])
    principal = Principal("bench", permissions={"math:use"})
    async with Kernel(store=f"sqlite:///{folder / 'bench.db'}") as kernel, kernel.open(agent, principal=principal) as s:
        times = await _interleaved(_jobs(s), kernel, rounds=rounds, calls=calls)
    unit = "times a bare validated await"
    peers = {name: f"{microseconds:.2f} µs" for name, microseconds in times.items()}
    return [
        Row(name, round(times[name] / times["bare"], 2), unit, TARGET, "at most", peers)
        for name in ("governed call", "governed call, three policies, one suspends")
    ]


def _jobs(session: Session) -> dict[str, Job]:
    return {
        "bare": lambda: bare({"a": 2, "b": 3}),
        "pydantic validate_call": lambda: decorated(a=2, b=3),
        "governed call": lambda: session.call(governed, a=2, b=3),
        "governed call, three policies, one suspends": lambda: session.call(gated, a=2, b=3),
    }


async def _interleaved(jobs: dict[str, Job], kernel: Kernel, *, rounds: int, calls: int) -> dict[str, float]:
    """Return each job's best round, in microseconds a call. The writer rests while a round is timed."""
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(rounds):
        for name, job in jobs.items():
            await kernel.audit.flush()
            gc.collect()
            started = time.perf_counter()
            for _ in range(calls):
                await job()
            best[name] = min(best[name], (time.perf_counter() - started) / calls * 1e6)
    return best
