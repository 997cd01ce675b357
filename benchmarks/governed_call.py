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

CALLS = 2_000
TARGET = 6
"""Spec 4, G33: the gate; 5 is the aim."""
CPU_TARGET = 18
"""Spec 4, G33."""
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
        return asyncio.run(_measure(Path(folder), rounds=5 if quick else 15))


async def _measure(folder: Path, *, rounds: int) -> list[Row]:
    agent = Agent("bench", uses=[Capability("math", tools=[governed, gated])])
    principal = Principal("bench", permissions={"math:use"})
    async with Kernel(store=f"sqlite:///{folder / 'bench.db'}") as kernel, kernel.open(agent, principal=principal) as s:
        jobs = _jobs(s)
        times = await _interleaved(jobs, kernel, rounds=rounds)
        cpu = {name: await _cpu(jobs[name], kernel) for name in ("bare", "governed call")}
    unit = "times a bare validated await"
    peers = {name: f"{microseconds:.2f} µs" for name, microseconds in times.items()}
    rows = [
        Row(name, round(times[name] / times["bare"], 2), unit, TARGET, "at most", peers)
        for name in ("governed call", "governed call, three policies, one suspends")
    ]
    with_writer = {name: f"{microseconds:.2f} µs" for name, microseconds in cpu.items()}
    ratio = round(cpu["governed call"] / cpu["bare"], 1)
    return [*rows, Row("CPU of a governed call and its record", ratio, unit, CPU_TARGET, "at most", with_writer)]


def _jobs(session: Session) -> dict[str, Job]:
    return {
        "bare": lambda: bare({"a": 2, "b": 3}),
        "pydantic validate_call": lambda: decorated(a=2, b=3),
        "governed call": lambda: session.call(governed, a=2, b=3),
        "governed call, three policies, one suspends": lambda: session.call(gated, a=2, b=3),
    }


async def _interleaved(jobs: dict[str, Job], kernel: Kernel, *, rounds: int) -> dict[str, float]:
    """Return each job's best round, in microseconds a call on the event loop.

    A round ends before the writer, which gathers for 20 ms, wakes up; what it costs is measured by ``_cpu``.
    """
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(rounds):
        for name, job in jobs.items():
            await kernel.audit.flush()
            gc.collect()
            started = time.perf_counter()
            for _ in range(CALLS):
                await job()
            best[name] = min(best[name], (time.perf_counter() - started) / CALLS * 1e6)
    return best


async def _cpu(job: Job, kernel: Kernel) -> float:
    """Return the CPU of a call in microseconds, all threads together, until its record is durable."""
    await kernel.audit.flush()
    started = time.process_time()
    for _ in range(5):
        for _ in range(CALLS):
            await job()
        await kernel.audit.flush()
    return (time.process_time() - started) / (5 * CALLS) * 1e6
