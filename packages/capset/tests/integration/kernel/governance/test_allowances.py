"""Limits and budgets over openings, kernels and restarts; of server, principal and agent the lowest holds (G13–G15)."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from capset import Agent, Kernel, Principal, Session, Tool, tool
from capset.definitions.governance.allowances import Allowance
from capset.definitions.governance.limits import Budget, Limit
from capset.errors import BudgetExceeded, DefinitionError, InvalidArguments, LimitExceeded, StoreError
from capset.ext import Governance
from capset.kernel.blocks.generation import Turn
from capset.kernel.call.worker_threads import MAX_THREADS
from capset.kernel.streams.emission import error_data
from capset_testing import FakeClock
from tests.databases import require_scheme
from tests.helpers.kernel.support import desk, too_late, turns
from tests.waiting import until

ADA = Principal("ada", org="acme")


async def succeeds(session: Session, called: Tool[[], int]) -> bool:
    return (await session.try_call(called)).success


def ping_of(**options: Any) -> Tool[[], int]:
    async def ping() -> int:
        """Answer."""
        return 1

    settings: dict[str, Any] = {"effect": "read", **options}
    return tool(**settings)(ping)


@pytest.fixture(params=["sqlite", "postgres"])
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the URL of a fresh store that outlives its kernel."""
    if request.param == "postgres":
        require_scheme()
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path}/capset.db"


async def opened(kernel: Kernel, agent: Any, principal: Principal = ADA, **options: Any) -> Session:
    async with kernel.open(agent, principal=principal, **options) as session:
        return session


async def passed(session: Session, called_tool: Tool[[], int], times: int) -> int:
    results = await asyncio.gather(*(session.try_call(called_tool) for _ in range(times)))
    return sum(result.success for result in results)


@pytest.mark.spec("G14", "G15")
@pytest.mark.parametrize("effect", ["read", "write"])
async def test_kernels_on_one_store_share_windows_to_the_last_call(durable: str, effect: str) -> None:
    ping = ping_of(limits="7/1h", effect=effect)
    agent = Agent("one", tools=[ping])
    async with AsyncExitStack() as stack:
        kernels = [await stack.enter_async_context(Kernel(store=durable)) for _ in range(3)]
        sessions = [await opened(kernel, agent) for kernel in kernels]
        counts = await asyncio.gather(*(passed(session, ping, 20) for session in sessions))
        assert sum(counts) == 7
        assert (await kernels[0].audit.verify()).ok
    async with Kernel(store=durable) as kernel:
        with pytest.raises(LimitExceeded) as limited:
            await (await opened(kernel, agent)).call(ping)
        assert 3_500 < (limited.value.retry_after or 0) <= 3_600


@pytest.mark.spec("G13")
async def test_a_limit_of_the_process_is_one_of_each_kernel(durable: str) -> None:
    ping = ping_of(limits=Limit(2, "1h", scope="process"))
    agent = Agent("one", tools=[ping])
    async with Kernel(store=durable) as first, Kernel(store=durable) as other:
        for kernel in (first, other):
            assert await passed(await opened(kernel, agent), ping, 5) == 2
        with pytest.raises(LimitExceeded, match="is limited to 2/1h in each process"):
            await (await opened(first, agent)).call(ping)


@pytest.mark.spec("G15")
async def test_a_sessions_budget_is_one_over_three_openings_and_a_restart(durable: str) -> None:
    ping = ping_of()
    agent = Agent("one", tools=[ping])
    async with Kernel(store=durable) as kernel:
        first = await opened(kernel, agent, budget=Budget(calls=1))
        reopened = await opened(kernel, agent, session_id=first.id)
        counts = await asyncio.gather(passed(first, ping, 10), passed(reopened, ping, 10))
        assert sum(counts) == 1
    async with Kernel(store=durable) as kernel:
        last = await opened(kernel, agent, session_id=first.id, budget=Budget(calls=9))
        with pytest.raises(BudgetExceeded, match="the session may make 1 call, and has already made that many"):
            await last.call(ping)
        other = await opened(kernel, agent, budget=Budget(calls=1))
        assert await passed(other, ping, 3) == 1, "another session has its own"


@pytest.mark.spec("G15")
async def test_an_opening_may_lower_a_budget_and_not_raise_it() -> None:
    ping = ping_of(cost=2.0)
    agent = Agent("one", tools=[ping])
    async with Kernel(store="memory://") as kernel:
        first = await opened(kernel, agent, budget=Budget(cost=7))
        low = await opened(kernel, agent, session_id=first.id, budget=Budget(calls=1, cost=100))
        assert await passed(low, ping, 3) == 1
        assert await passed(first, ping, 9) == 2
        with pytest.raises(BudgetExceeded, match="this costs 2, and the session has 1 left"):
            await first.call(ping)


@pytest.mark.spec("G15")
async def test_a_run_goes_on_with_what_it_has_used(durable: str) -> None:
    ping = ping_of()
    agent = Agent("one", tools=[ping])
    async with Kernel(store=durable) as kernel:
        session = await opened(kernel, agent)
        assert await passed(session.options(budget=Budget(calls=3), run="run-1"), ping, 2) == 2
    async with Kernel(store=durable) as kernel:
        reopened = await opened(kernel, agent, session_id=session.id)
        assert await passed(reopened.options(budget=Budget(calls=3), run="run-1"), ping, 5) == 1
        assert await passed(reopened.options(budget=Budget(calls=3)), ping, 5) == 3, "another run"
        assert await passed(reopened, ping, 5) == 5, "no run"


@pytest.mark.spec("G15")
async def test_the_lowest_of_server_principal_and_agent_holds(store: str) -> None:
    ping = ping_of()
    allowances = [
        Allowance(limits="5/1h", session=Budget(calls=4)),
        Allowance(limits="3/1h", session=Budget(calls=9), run=Budget(calls=2)),
        Allowance(session=Budget(calls=8), run=Budget(calls=6)),
    ]
    for shift in range(3):
        server, principal, agents = (allowances[(context + shift) % 3] for context in range(3))
        agent = Agent("one", tools=[ping], allowance=agents)
        async with Kernel(store=store, governance=Governance(allowance=server)) as kernel:
            caller = Principal(f"ada-{shift}", org="acme", allowance=principal)
            session = await opened(kernel, agent, caller)
            run = session.options(run="r")
            assert await passed(run, ping, 2) == 2
            with pytest.raises(BudgetExceeded, match="the run may make 2 calls"):
                await run.call(ping)
            assert await passed(session, ping, 9) == 1, "three an hour"
            subject = ("this principal", "this server", "the agent 'one'")[shift]
            with pytest.raises(LimitExceeded, match=rf"{subject} is limited to 3/1h( for each principal)?; "):
                await session.call(ping)


@pytest.mark.spec("G15")
async def test_who_writes_an_agent_raises_nothing() -> None:
    ping = ping_of(limits="2/1h")
    grants = Allowance(limits="1000/1s", session=Budget(calls=1000), run=Budget(calls=1000))
    async with Kernel(store="memory://", governance=Governance(allowance=Allowance(session=Budget(calls=3)))) as kernel:
        agent = Agent("one", tools=[ping, other := ping_of(name="other")], allowance=grants)
        session = await opened(kernel, agent, budget=Budget(calls=500))
        assert await passed(session, ping, 5) == 2
        assert await passed(session, other, 5) == 1


class Persistent:
    """A generator's runner that calls ``ping`` as often as its input says, and returns how often that worked."""

    async def run(self, turn: Turn) -> int:
        step = await turn.step()
        return sum([(await step.call("ping", {})).success for _ in range(turn.input)])


@pytest.mark.spec("G15")
async def test_every_run_of_an_agent_has_the_run_budget() -> None:
    governance = Governance(allowance=Allowance(run=Budget(calls=2)))
    async with Kernel(store="memory://", governance=governance, generator=Persistent()) as kernel:
        agent = Agent("one", tools=[ping_of()], allowance=Allowance(run=Budget(calls=50)))
        session = await opened(kernel, agent)
        assert [await session.run(times) for times in (1, 5, 2)] == [1, 2, 2]
        going_on = session.options(run="run-1")
        assert [await going_on.run(times) for times in (1, 5)] == [1, 1], "one run, taken up again"
        assert await session.options(budget=Budget(calls=1)).run(5) == 1


@pytest.mark.spec("G13")
async def test_the_limits_of_agents_of_one_name_and_of_principals_are_told_apart_by_their_ids() -> None:
    allowance, ping = Allowance(limits=Limit(2, "1h", per="all")), ping_of(name="agent")
    limited, free = Agent("one", tools=[ping], allowance=allowance), Agent("one", tools=[ping])
    async with Kernel(store="memory://") as kernel:
        for agent_id in ("id-1", "id-2", None):
            for principal, fitting in ((ADA, 2), (Principal("eve"), 0)):
                row = replace(kernel.new_session(limited, principal), agent_id=agent_id)
                assert await passed(await kernel.enter(row, limited, principal=principal), ping, 3) == fitting
        for name in ("ada", "eve"):
            principal = Principal(name, org="acme", allowance=allowance)
            assert await passed(await opened(kernel, free, principal), ping, 3) == 2


@pytest.mark.spec("G14")
async def test_a_handler_without_time_to_start_counts_nowhere(durable: str) -> None:
    ping = ping_of(limits="1/1h", effect="write")
    async with desk(ping, store=durable) as clerk:
        for _ in range(3):
            assert not (await too_late(clerk.session, ping)).success
        assert await succeeds(clerk.session, ping)
        assert [record.outcome for record in await clerk.records()] == ["timed_out"] * 3 + ["succeeded"]


WORLD = {"requests": 5, "window": "1h", "scope": "planet"}


@pytest.mark.parametrize(
    "wrong", [{"limits": "5/1fortnight"}, {"limits": WORLD}, {"session": 5}, {"run": {"calls": 5}}]
)
def test_an_allowance_of_something_else_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        Allowance(**wrong)


@pytest.mark.spec("G15")
async def test_naming_a_run_keeps_its_budget() -> None:
    ping = ping_of(cost=0.1)
    async with Kernel(store="memory://") as kernel:
        session = await opened(kernel, Agent("one", tools=[ping]))
        run = session.options(budget=Budget(cost=0.3))
        assert await passed(run.options(run="r"), ping, 5) == 3, "as often as it fits, whatever floats make of it"
        assert await passed(run.options(run="r").options(timeout=5), ping, 5) == 0
        for wrong in ("", "x" * 201, "a\nb"):
            with pytest.raises(InvalidArguments, match="a run's id must be printable text of 1–200"):
                run.options(run=wrong)


@pytest.mark.realtime
@pytest.mark.spec("G14")
async def test_a_window_goes_by_the_time_at_which_a_call_is_counted(tmp_path: Path) -> None:
    """Not by that at which it came: it may have waited for the database."""
    ping, clock, path = ping_of(limits="1/10s"), FakeClock(), tmp_path / "a.db"
    async with Kernel(store=f"sqlite:///{path}", clock=clock) as kernel:
        session = await opened(kernel, Agent("one", tools=[ping]))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting: list[asyncio.Task[bool]] = []
            for _ in range(4):
                waiting.append(asyncio.create_task(succeeds(session, ping)))
                await asyncio.sleep(0.02)
                clock.advance(11)
            other.execute("ROLLBACK")
            assert sum(await asyncio.gather(*waiting)) == 1


@pytest.mark.spec("G3", "G19")
async def test_a_call_that_is_cancelled_as_it_gives_back_is_on_record(tmp_path: Path) -> None:
    ping = ping_of(limits="1/1h", effect="write")
    async with desk(ping, store=f"sqlite:///{tmp_path}/a.db") as clerk:
        waits = asyncio.ensure_future(too_late(clerk.session, ping))
        async with asyncio.timeout(60):
            while not (await clerk.kernel.audit.read()):  # noqa: ASYNC110 - an intent has no event
                await asyncio.sleep(0)
        waits.cancel()
        await asyncio.wait([waits])
        assert (await clerk.record()).outcome in ("timed_out", "cancelled")
        await until(lambda: succeeds(clerk.session, ping))


@pytest.mark.spec("G3")
async def test_what_cannot_be_given_back_is_given_back_later(monkeypatch: pytest.MonkeyPatch) -> None:
    ping = ping_of(limits="1/1h", effect="write")
    async with desk(ping) as clerk:
        with monkeypatch.context() as broken:
            away = AsyncMock(side_effect=StoreError("the database is away"))
            broken.setattr(clerk.kernel.store.admissions, "release", away)
            assert not (await too_late(clerk.session, ping)).success
            assert not await succeeds(clerk.session, ping)
        await until(lambda: succeeds(clerk.session, ping))


@pytest.mark.spec("G14")
async def test_a_function_that_waits_for_a_thread_counts_once_it_has_one() -> None:
    go = threading.Event()

    @tool(effect="read")
    def occupy() -> None:
        """Keep a thread."""
        go.wait(20)

    @tool(effect="read", limits="1/1h")
    def look() -> int:
        """Look."""
        return 1

    async with desk(occupy, look) as clerk:
        keeping = [asyncio.ensure_future(clerk.session.call(occupy)) for _ in range(MAX_THREADS)]
        await turns()
        assert not await succeeds(clerk.session.options(timeout=0.05), look)
        go.set()
        await asyncio.gather(*keeping)
        assert await succeeds(clerk.session, look)


@pytest.mark.spec("G3", "G14")
async def test_what_the_store_refuses_takes_nothing_of_a_limit_of_the_process() -> None:
    ping = ping_of(limits=(Limit(2, "1m", scope="process"),))
    agent = Agent("one", tools=[ping])
    async with Kernel(store="memory://") as kernel:
        spent = await opened(kernel, agent, budget=Budget(calls=1))
        assert await passed(spent, ping, 2) == 1
        other = await opened(kernel, agent)
        assert await passed(other, ping, 2) == 1
        async with other.stream(ping) as messages:
            (last,) = [message async for message in messages]
        assert last.kind == "error"
        assert 0 < last.data["retry_after"] <= 60
        assert "retry_after" not in error_data(BudgetExceeded("The budget is spent."))
