"""Agents of two processes on one database, which use a model at once: no limit is overrun (spec 6, R24)."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capset import Principal
from capset.definitions.governance.allowances import Allowance
from capset.definitions.governance.usage import AgentUsage
from capset.kernel.governance.quotas import session_limits
from capset.stores.base import UsageWindow
from capset.stores.sql import store
from lab.faults.spending import CALLS, TOKENS
from tests.helpers.stores.sql.support import line_of, opened_at
from tests.waiting import until

pytestmark = pytest.mark.realtime

PROGRAM = Path(__file__).with_name("spending.py")
AGENTS = 50
"""How many work in each of the two processes."""
DOLLARS = 10e-6
"""The price of a token of an answer."""


@contextmanager
def spender(url: str) -> Generator[subprocess.Popen[str]]:
    """Give a process that reads plans, which is killed at the end."""
    command = [sys.executable, str(PROGRAM), url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert line_of(child) == "ready"
            yield child
        finally:
            child.kill()


def send(child: subprocess.Popen[str], plan: Mapping[str, Any]) -> None:
    """Give a process a plan."""
    assert child.stdin is not None
    child.stdin.write(f"{json.dumps(plan)}\n")
    child.stdin.flush()


@pytest.mark.gate
@pytest.mark.property
@pytest.mark.spec("R24", "T8")
def test_no_limit_is_exceeded_by_more_than_one_step_of_one_agent(url: str) -> None:
    """Every kind of limit, with 100 agents at once; and they stop only when a limit is used up."""
    numbers = count()

    with ExitStack() as stack:
        children = [stack.enter_context(spender(url)) for _ in range(2)]

        @settings(max_examples=4, deadline=None)
        @given(
            st.fixed_dictionaries(
                {},
                optional={
                    "steps": st.integers(1, 40),
                    "calls": st.integers(3, 60),
                    "tokens": st.integers(1, 40_000),
                    "cost": st.integers(1, 40).map(lambda cents: cents / 100),
                },
            ).filter(bool),
            st.integers(0, 2**16),
        )
        def holds(amounts: dict[str, float], seed: int) -> None:
            limit = f"{','.join(f'{name}={maximum}' for name, maximum in amounts.items())}/1h"
            for number, child in enumerate(children):
                plan = {"principal": f"ada-{next(numbers) // 2}", "limit": limit, "seed": seed + number}
                send(child, {**plan, "agents": AGENTS})
            reports: list[dict[str, Any]] = [json.loads(line_of(child)) for child in children]
            tokens = [step_tokens for process in reports for step_tokens in process["tokens"]]
            calls = sum(process["calls"] for process in reports)
            limits = {"steps": 0.0, "calls": float("inf"), "tokens": float("inf"), "cost": float("inf")} | amounts
            assert not amounts.get("steps") or len(tokens) <= limits["steps"]
            assert calls <= limits["calls"]
            assert sum(tokens) <= limits["tokens"] + TOKENS
            assert sum(tokens) * DOLLARS <= limits["cost"] + TOKENS * DOLLARS
            assert (
                len(tokens) == amounts.get("steps")
                or calls > limits["calls"] - CALLS
                or sum(tokens) >= limits["tokens"]
                or sum(tokens) * DOLLARS >= limits["cost"] - 1e-9
            ), "something is used up"

        holds()


@pytest.mark.gate
@pytest.mark.spec("R24")
async def test_what_a_killed_process_has_reserved_is_free_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays reserved for as long as the process lives, however long its steps take."""
    monkeypatch.setattr(store, "MAINTENANCE_SECONDS", 0.2)
    ada, allowance = Principal("ada"), Allowance(usage="steps=3/1h")
    terms = session_limits("", ada, agent="", agent_id=None, allowances=[("principal", allowance)], budgets=())
    assert terms is not None
    window: UsageWindow = terms.usage[0].window
    async with opened_at(url) as survivor:

        async def reserved() -> int:
            (usage,) = await survivor.usage.read([window], 0)
            assert usage.used == AgentUsage()
            return usage.reserved.steps

        with spender(url) as child:
            send(child, {"principal": "ada", "limit": "steps=3/1h", "seed": 0, "agents": 5, "hangs": True})

            async def is_full() -> bool:
                return await reserved() == 3

            await until(is_full, "three of the five steps have begun")
            await asyncio.sleep(1)
            assert await reserved() == 3, "they are under way"
            child.kill()

        async def is_free() -> bool:
            return await reserved() == 0

        await until(is_free, "what they had reserved is free")
