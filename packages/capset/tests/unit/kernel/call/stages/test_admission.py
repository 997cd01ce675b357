"""Limits: moving windows, checked and reserved at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capset import Agent, Capability, Context, Kernel, Principal, Session, Tool, ToolError, deny, policy, tool
from capset.definitions.governance.limits import Budget, Limit
from capset.errors import BudgetExceeded, InvalidArguments, LimitExceeded, PermissionDenied, StoreError
from capset_testing import FakeClock
from tests.helpers.kernel.support import records_of


def ping_of(limits: Any, **options: Any) -> Tool[[], int]:
    async def ping() -> int:
        """Answer."""
        await asyncio.sleep(0)
        return 1

    return tool(effect="read", limits=limits, **options)(ping)


@asynccontextmanager
async def opened(
    *tools: Tool[..., Any], who: Principal | None = None, budget: Budget | None = None
) -> AsyncGenerator[tuple[Kernel, Session, FakeClock, Agent]]:
    clock = FakeClock()
    agent = Agent("tester", uses=[Capability("kit", tools=tools)])
    acting = who or Principal("ada")
    async with (
        Kernel(store="memory://", clock=clock) as kernel,
        kernel.open(agent, principal=acting, budget=budget) as session,
    ):
        yield kernel, session, clock, agent


@pytest.mark.spec("G14", "T8")
@settings(max_examples=25, deadline=None)
@given(
    limit=st.integers(1, 40),
    bursts=st.lists(st.tuples(st.integers(1, 64), st.floats(0, 45)), min_size=1, max_size=6),
    seed=st.integers(0, 2**32),
)
async def test_of_any_interleaving_of_64_tasks_never_one_too_many_and_none_unused(
    limit: int, bursts: list[tuple[int, float]], seed: int
) -> None:
    """A brute-force window decides how many of each burst must pass."""
    order = Random(seed)
    ping = ping_of(f"{limit}/30s")
    async with opened(ping) as (_, session, clock, _agent):
        passed: list[int] = []
        for count, pause in bursts:
            now = clock.monotonic_ns()
            free = limit - sum(1 for at in passed if at > now - 30_000_000_000)

            async def call_after(hops: int) -> bool:
                for _ in range(hops):
                    await asyncio.sleep(0)
                return (await session.try_call(ping)).success

            outcomes = await asyncio.gather(*(call_after(order.randint(0, 5)) for _ in range(count)))
            assert sum(outcomes) == min(count, free)
            passed += [now] * sum(outcomes)
            clock.advance(pause)


@pytest.mark.spec("G14", "G4")
async def test_it_says_to_the_millisecond_when_one_more_fits() -> None:
    ping = ping_of(["2/10s", "3/1m"])
    async with opened(ping) as (kernel, session, clock, _):
        await session.call(ping)
        clock.advance(1.0004)
        await session.call(ping)
        clock.advance(2)
        with pytest.raises(LimitExceeded, match="Rate limit exceeded: 'ping' takes 2/10s; try again in 7 s") as refused:
            await session.call(ping)
        assert (refused.value.status, refused.value.retryable, refused.value.retry_after) == (429, True, 7.0)
        clock.advance((refused.value.retry_after or 0) - 0.001)
        with pytest.raises(LimitExceeded):
            await session.call(ping)
        clock.advance(0.001)
        await session.call(ping)
        with pytest.raises(LimitExceeded, match="takes 3/1m") as longest:
            await session.call(ping)
        clock.advance((longest.value.retry_after or 0) - 0.001)
        assert not (await session.try_call(ping)).success
        clock.advance(0.001)
        await session.call(ping)
        outcomes = [(record.outcome, record.decision, record.code) for record in await records_of(kernel.audit)]
        assert outcomes.count(("limited", "deny", "limit_exceeded")) == 4
        assert len(outcomes) == 8


@pytest.mark.spec("G14")
@given(st.integers(1, 10**9), st.integers(0, 10**12))
@settings(max_examples=30, deadline=None)
async def test_the_time_to_wait_is_exact_at_any_moment(seconds_ns: int, start_ns: int) -> None:
    ping = ping_of("1/5s")
    async with opened(ping) as (_, session, clock, _agent):
        clock.advance(start_ns / 1e9)
        await session.call(ping)
        clock.advance(seconds_ns / 1e9)
        refused = (await session.try_call(ping)).error
        assert isinstance(refused, LimitExceeded)
        clock.advance((refused.retry_after or 0) - 0.001)
        assert not (await session.try_call(ping)).success
        clock.advance(0.001)
        assert (await session.try_call(ping)).success


@pytest.mark.spec("G14")
async def test_only_what_reaches_the_handler_counts_and_failures_do() -> None:
    @policy
    def odd(request: Any) -> Any:
        return True if request.arguments is None or request.arguments["number"] % 2 else deny("even")

    @tool(effect="read", limits="2/1m", policies=[odd])
    async def fail(number: int) -> int:
        """Fail."""
        raise ToolError("no")

    async with opened(fail) as (_, session, clock, _agent):
        for _ in range(5):
            with pytest.raises(PermissionDenied):
                await session.call(fail, 2)
            assert isinstance((await session.try_call(fail, "1")).error, InvalidArguments)  # pyright: ignore[reportArgumentType]
        for _ in range(2):
            with pytest.raises(ToolError):
                await session.call(fail, 1)
        for _ in range(3):  # which extend nothing
            clock.advance(10)
            with pytest.raises(LimitExceeded):
                await session.call(fail, 1)
        clock.advance(30)
        assert isinstance((await session.try_call(fail, 1)).error, ToolError)


@pytest.mark.spec("G3", "G14")
async def test_a_call_whose_intent_cannot_be_kept_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []

    @tool(limits="1/1h")
    async def act() -> None:
        """Act."""
        ran.append(1)

    async with opened(act) as (kernel, session, _clock, _agent):
        commit = kernel.audit.commit

        async def broken(entry: Any) -> None:
            raise StoreError("the disk is full")

        monkeypatch.setattr(kernel.audit, "commit", broken)
        assert (await session.try_call(act)).error is not None
        assert ran == []
        monkeypatch.setattr(kernel.audit, "commit", commit)
        await session.call(act)
        assert ran == [1]


@pytest.mark.spec("G13")
@pytest.mark.parametrize(
    ("per", "shared"),
    [
        ("principal", {"other session": True, "other principal": False, "other org": False, "stranger": False}),
        ("session", {"other session": False, "other principal": False, "other org": False, "stranger": False}),
        ("org", {"other session": True, "other principal": True, "other org": False, "stranger": False}),
        ("all", {"other session": True, "other principal": True, "other org": True, "stranger": True}),
    ],
)
async def test_whose_calls_count_together(per: Any, shared: dict[str, bool]) -> None:
    ping = ping_of(Limit(1, "1h", per=per))
    ada = Principal("ada", org="acme")
    others = {
        "other session": ada,
        "other principal": Principal("bob", org="acme"),
        "other org": Principal("ada", org="other"),
        "stranger": Principal("ada"),
    }
    for relation, principal in others.items():
        async with opened(ping, who=ada) as (kernel, session, _clock, agent):
            await session.call(ping)
            async with kernel.open(agent, principal=principal) as other:
                assert (await other.try_call(ping)).success is not shared[relation], relation


@pytest.mark.spec("G13")
async def test_neither_another_name_nor_another_agent_is_a_second_allowance() -> None:
    ping = ping_of("1/1h")
    kit = Capability("kit", tools=[ping])
    async with Kernel(store="memory://") as kernel:
        async with kernel.open(Agent("one", uses=[kit]), principal=Principal("ada")) as session:
            await session.call(ping)
        second_agent = Agent("two", uses=[kit.with_names(prefix="x_")])
        async with kernel.open(second_agent, principal=Principal("ada")) as session:
            assert isinstance((await session.try_call(ping)).error, LimitExceeded)


@pytest.mark.spec("G15")
async def test_a_session_and_a_run_have_budgets_of_calls_and_of_cost() -> None:
    cheap, dear = ping_of((), cost=1.0), ping_of((), cost=4.0, name="dear")
    async with opened(cheap, dear, budget=Budget(calls=4, cost=10)) as (kernel, session, _clock, _agent):
        run = session.options(budget=Budget(calls=2))
        await run.call(dear)
        await run.options(timeout=9).call(cheap)
        with pytest.raises(BudgetExceeded, match="Budget exceeded: the run may make 2 calls") as spent:
            await run.call(cheap)
        assert (spent.value.status, spent.value.retryable) == (429, False)
        await session.call(dear)
        with pytest.raises(BudgetExceeded, match="this costs 4, and the session has 1 left"):
            await session.call(dear)
        await session.options(budget=Budget(calls=1)).call(cheap)
        with pytest.raises(BudgetExceeded, match="the session may make 4 calls"):
            await session.call(cheap)
        assert [record.outcome for record in await records_of(kernel.audit)].count("limited") == 3


@pytest.mark.spec("G15")
async def test_calls_that_a_call_makes_are_of_its_run() -> None:
    ping = ping_of(())

    @tool(effect="read")
    async def twice(ctx: Context) -> int:
        """Call twice."""
        return await ctx.call(ping) + await ctx.call(ping)

    async with opened(ping, twice) as (_, session, _clock, _agent):
        assert await session.options(budget=Budget(calls=3)).call(twice) == 2
        failed = await session.options(budget=Budget(calls=2)).try_call(twice)
        assert failed.error is not None
        assert (failed.error.code, failed.error.status) == ("budget_exceeded", 429)
