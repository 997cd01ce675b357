"""What a call does not do: no step that it does not need, no turn of the event loop, and nothing for each other tool.

How long it takes, ``make lab-bench`` says; no test does.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event

from capset import Agent, Capability, Kernel, Policy, Principal, Request, Session, allow, compose, policy, tool
from capset.definitions.governance.limits import Limit
from capset.kernel.call.compilation import compile_tools
from capset.kernel.call.stages.phases import STAGES
from tests.helpers.evaluation.things import later, says
from tests.helpers.kernel.call.hot_path import asking, functions_of
from tests.helpers.kernel.support import desk

ALWAYS = {"authentication", "permission", "validation", "admission", "invoke", "output"}
"""The steps of every tool; there may be budgets, so all are admitted."""

WHO = Principal("user-1")


@policy
async def coroutine(request: Request) -> bool:
    return True


at_once = says("at-once", allow())
suspending = Policy("suspending", lambda request: later())


@tool(effect="read")
async def plain(number: int) -> int:
    """Return the number."""
    return number


whole = replace(plain, name="whole", policies=(at_once, coroutine, at_once, suspending))
gated = replace(plain, name="gated", policies=(at_once, coroutine), limits=(Limit(1_000_000, "1s"),))
write = replace(plain, name="write", effect="write")
asked = replace(plain, name="asked", approval="ask")
every_stage = [stage for stages in STAGES.values() for stage in stages]


def steps(tested_tool: Any) -> set[str]:
    composition = compose(Agent("someone", tools=[tested_tool]))
    (installed,) = composition.tools.values()
    (compiled,) = compile_tools(composition).by_tool.values()
    names = [stage.__name__ for stage in every_stage if stage(installed) is not None]
    assert len(compiled.steps) == len(names)
    return set(names)


@pytest.mark.spec("G33")
def test_a_tool_has_no_steps_but_those_that_it_needs() -> None:
    changed = sorted(steps(plain) ^ ALWAYS)
    assert not changed, f"{changed}: a stage that gives every tool a step stands in ALWAYS of {__name__}, and no other"
    assert steps(gated) == ALWAYS | {"policy", "approval"}
    assert steps(write) == ALWAYS
    assert steps(asked) == ALWAYS | {"approval"}
    assert steps(asking) == ALWAYS | {"load_state", "serialize"}
    assert len(every_stage) > len(ALWAYS)


@pytest.mark.spec("G33")
async def test_steps_are_compiled_once_and_serve_every_session(kernel: Kernel) -> None:
    agent = Agent("someone", tools=[plain])
    async with kernel.open(agent, principal=WHO) as first, kernel.open(agent, principal=WHO) as other:
        assert first._compiled[plain] is other._compiled[plain]


@pytest.mark.spec("F17", "G33")
async def test_a_call_takes_as_many_turns_of_the_event_loop_as_its_policies_do(kernel: Kernel) -> None:
    async with kernel.open(Agent("someone", tools=[plain, gated, whole]), principal=WHO) as session:
        assert turns_of(session, plain) == turns_of(session, gated) == 0
        assert turns_of(session, whole) == 1


@pytest.mark.spec("G35")
async def test_a_call_among_a_thousand_tools_does_what_one_among_ten_does(kernel: Kernel) -> None:
    tools = [replace(gated, name=f"t{number}") for number in range(1_000)]
    few, many = (Agent("clerk", uses=[Capability("kit", tools=some)]) for some in (tools[:10], tools))
    async with kernel.open(few, principal=WHO) as small, kernel.open(many, principal=WHO) as large:
        for call in (by_tool, by_name):
            for session in (small, large):
                functions_of(call, session)  # after which the windows of the limits are known
            assert functions_of(call, small) == functions_of(call, large)


@pytest.mark.spec("G34")
async def test_durable_calls_at_once_share_their_transactions(tmp_path: Path) -> None:
    commits: list[object] = []

    def committed(connection: Connection) -> None:
        commits.append(connection)

    async with desk(write, store=f"sqlite:///{tmp_path}/a.db") as harness:
        event.listen(Engine, "commit", committed)
        try:
            await asyncio.gather(*(harness.session.call(write, number) for number in range(64)))
        finally:
            event.remove(Engine, "commit", committed)
    assert 2 <= len(commits) <= 32, "128 rows"


@pytest.fixture
async def kernel() -> Any:
    async with Kernel(store="memory://") as kernel:
        yield kernel


def turns_of(session: Session, tested_tool: Any) -> int:
    """Return how often a call gives way to the event loop, whatever else that has to do."""
    call, turns = session.call(tested_tool, 1), 0
    while True:
        try:
            call.send(None)
        except StopIteration:
            return turns
        turns += 1


def by_tool(session: Session) -> Any:
    return session.call(session.snapshot.tools["t7"].tool, 1)


def by_name(session: Session) -> Any:
    return session.try_message(session.message("t7", {"number": 1}))
