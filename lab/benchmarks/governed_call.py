"""A governed call with every stage on, against a bare validated await and against peers' ungoverned calls (G33)."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from capset import Agent, Capability, Decision, Kernel, Principal, Request, Session, allow, policy, tool
from capset.definitions.governance.limits import Limit
from lab.benchmarks.peers import add, installed
from lab.benchmarks.row import Row
from lab.benchmarks.turns import Job, in_turns

TARGET = 6
"""Spec 4, G33: the gate, beside a bare await with the same suspension; 5 is the aim."""
NO_POLICIES_TARGET, AT_ONCE_TARGET, TURN_TARGET = 5, 6.5, 30
"""Beside the bare await alone (G33): without policies, with three that do not suspend, and with a turn of the loop."""
CPU_TARGET = 35
PEER_TARGETS = {
    "pydantic-ai ToolManager.handle_call": 4,
    "FastMCP call_tool": 30,
    "LangChain ainvoke": 35,
    "OpenAI Agents on_invoke_tool": 1.1,
    "agent-os-kernel execute, its policies": 1,
}
"""How many times the time of a governed call, with policies that do not suspend, theirs is to be (G33)."""
NEVER_REACHED = Limit(1_000_000, "1s", scope="process")
"""A limit that is checked and reserved at every call, and never refuses one; ``shared_limit`` has one of the store."""
BARE, SUSPENDED = "bare", "bare, after one suspension"
GATED = "governed call, three policies"
WHOLE = "governed call, three policies, one suspends"


class Numbers(TypedDict):
    a: int
    b: int


validator = TypeAdapter(Numbers).validator


async def bare(arguments: dict[str, int]) -> int:
    return await add(**validator.validate_python(arguments, strict=True))


async def suspended(arguments: dict[str, int]) -> int:
    await asyncio.sleep(0)
    return await add(**validator.validate_python(arguments, strict=True))


@policy
def first(request: Request) -> bool:
    return request.principal.id == "bench"


@policy
def second(request: Request) -> Decision:
    return allow()


@policy
def third(request: Request) -> Decision:
    return allow()


@policy
async def suspending(request: Request) -> Decision:
    await asyncio.sleep(0)
    return allow()


@tool(effect="read", permissions={"math:use"}, limits=NEVER_REACHED, name="add")
async def governed(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="read", permissions={"math:use"}, limits=NEVER_REACHED, policies=[first, second, third], name="add_gated")
async def gated(a: int, b: int) -> int:
    """Add two numbers, gated by three policies that do not suspend."""
    return a + b


@tool(
    effect="read",
    permissions={"math:use"},
    limits=NEVER_REACHED,
    policies=[first, second, suspending],
    name="add_suspended",
)
async def whole(a: int, b: int) -> int:
    """Add two numbers, gated by three policies, one of which suspends."""
    return a + b


def measure(*, quick: bool) -> list[Row]:
    """Return the ratios of governed calls to the bare one and to peers', with the records really written to SQLite."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder), quick=quick))


async def _measure(folder: Path, *, quick: bool) -> list[Row]:
    agent = Agent("bench", uses=[Capability("math", tools=[governed, gated, whole])])
    principal = Principal("bench", permissions={"math:use"})
    peers, missing = await installed()
    async with Kernel(store=f"sqlite:///{folder / 'bench.db'}") as kernel, kernel.open(agent, principal=principal) as s:
        capset_jobs = _jobs(s)
        times = await in_turns({**capset_jobs, **peers}, rounds=1 if quick else 15, before=kernel.audit.flush)
        rounds, calls = (1, 1_000) if quick else (5, 5_000)
        cpu = await _cpu({name: capset_jobs[name] for name in (BARE, WHOLE)}, kernel, rounds=rounds, calls=calls)
    capset_times = {name: f"{times[name]:.2f} µs" for name in capset_jobs}
    return [
        *_against_bare(times, capset_times, dict.fromkeys(missing, "not installed")),
        *_against_peers(times[GATED], {name: times[name] for name in peers}),
        Row(
            "CPU of a governed call and its record",
            round(cpu[WHOLE] / cpu[BARE], 1),
            "times a bare validated await",
            CPU_TARGET,
            "at most",
            {name: f"{microseconds:.2f} µs" for name, microseconds in cpu.items()},
        ),
    ]


def _jobs(session: Session) -> dict[str, Job]:
    return {
        BARE: lambda: bare({"a": 2, "b": 3}),
        SUSPENDED: lambda: suspended({"a": 2, "b": 3}),
        "governed call, no policies": lambda: session.call(governed, a=2, b=3),
        GATED: lambda: session.call(gated, a=2, b=3),
        WHOLE: lambda: session.call(whole, a=2, b=3),
    }


def _against_bare(times: Mapping[str, float], peers: dict[str, str], missing: dict[str, str]) -> list[Row]:
    """Return the gate's row, which tells too what could not be measured beside it, and those of what it is made of."""
    unit = "times a bare validated await"
    after = f"{unit} after the same suspension"  # which is a turn of the event loop
    compared = [
        ("governed call, no policies", "governed call, no policies", BARE, unit, NO_POLICIES_TARGET),
        (GATED, GATED, BARE, unit, AT_ONCE_TARGET),
        (WHOLE, WHOLE, BARE, unit, TURN_TARGET),
        (f"{WHOLE}, beside a suspension", WHOLE, SUSPENDED, after, TARGET),
    ]
    rows = [
        Row(name, round(times[job] / times[base], 2), unit, target, "at most", peers)
        for name, job, base, unit, target in compared
    ]
    return [replace(row, peers=peers | missing) if row.name == WHOLE else row for row in rows]


def _against_peers(governed_time: float, peers: Mapping[str, float]) -> list[Row]:
    unit = "times a governed call with every stage on, whose three policies do not suspend"
    return [
        Row(
            name,
            round(took / governed_time, 2),
            unit,
            PEER_TARGETS[name],
            "at least",
            {name: f"{took:.2f} µs", GATED: f"{governed_time:.2f} µs"},
        )
        for name, took in peers.items()
    ]


async def _cpu(jobs: Mapping[str, Job], kernel: Kernel, *, rounds: int, calls: int) -> dict[str, float]:
    """Return the CPU of a call of each job in its best round, in microseconds, until its record is durable."""
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(rounds):
        for name, job in jobs.items():
            await kernel.audit.flush()
            began = time.process_time()
            for _ in range(calls):
                await job()
            await kernel.audit.flush()
            best[name] = min(best[name], (time.process_time() - began) / calls * 1e6)
    return best
