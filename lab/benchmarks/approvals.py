"""A call that is asked about, approved and made, beside a call with an effect alone: one after the other, on SQLite."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from capset import Agent, Kernel, Principal, Session, tool
from capset.errors import ApprovalRequired
from capset.ext import Answer, Governance
from lab.benchmarks.row import Row
from lab.benchmarks.turns import Job, in_turns

TARGET = 10
"""An effect is two transactions; a request, its decision and the call are five, and six reads: it must not grow."""
BOSS = Principal("boss")
UNGUARDED = Governance(refusals=None)
"""Each call is refused once, which would be taken for a flood."""


@tool(effect="write")
async def pay(amount: int) -> int:
    """Pay."""
    return amount


@tool(effect="write", approval="ask")
async def pay_much(amount: int) -> int:
    """Pay much, which somebody has to approve."""
    return amount


def measure(*, quick: bool) -> list[Row]:
    """Return how much longer an approved call takes, with its request and its decision, than one without approval."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder), rounds=1 if quick else 7))


async def _measure(folder: Path, *, rounds: int) -> list[Row]:
    async with (
        Kernel(store=f"sqlite:///{folder / 'bench.db'}", governance=UNGUARDED) as kernel,
        kernel.open(Agent("bench", tools=[pay, pay_much]), principal=Principal("bench")) as session,
    ):
        deferring = session.options(approvals="defer")
        jobs: dict[str, Job] = {
            "alone": lambda: session.call(pay, amount=1),
            "approved": lambda: _approved(kernel, deferring),
        }
        times = await in_turns(jobs, rounds=rounds)
    peers = {name: f"{microseconds / 1000:.2f} ms" for name, microseconds in times.items()}
    value = round(times["approved"] / times["alone"], 2)
    return [Row("a call, its request and its approval", value, "times a call with an effect", TARGET, "at most", peers)]


async def _approved(kernel: Kernel, session: Session) -> int:
    """Make a call that is refused until it is approved, approve it, and make it again."""
    try:
        return await session.call(pay_much, amount=1)
    except ApprovalRequired as refusal:
        await kernel.approvals.decide(refusal.approval or "", Answer(approved=True), by=BOSS)
    return await session.call(pay_much, amount=1)
