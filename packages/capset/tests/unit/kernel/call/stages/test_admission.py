"""Limits: moving windows, checked and reserved at once."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any
from unittest.mock import AsyncMock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capset import Agent, Capability, Context, Kernel, Principal, Tool, ToolError, deny, policy, tool
from capset.definitions.governance.limits import Budget, Limit
from capset.errors import BudgetExceeded, InvalidArguments, LimitExceeded, PermissionDenied, StoreError
from capset_testing import session_for


def ping_of(limits: Any, **options: Any) -> Tool[[], int]:
    async def ping() -> int:
        """Answer."""
        await asyncio.sleep(0)
        return 1

    return tool(effect="read", limits=limits, **options)(ping)


@pytest.mark.spec("G14", "T8")
@settings(max_examples=25, deadline=None)
@given(
    limit=st.integers(1, 40),
    bursts=st.lists(st.tuples(st.integers(1, 64), st.floats(0, 45)), min_size=1, max_size=6),
    seed=st.integers(0, 2**32),
)
async def test_bursts_of_calls_use_a_limit_up_exactly(limit: int, bursts: list[tuple[int, float]], seed: int) -> None:
    order = Random(seed)
    ping = ping_of(f"{limit}/30s")
    async with session_for(Capability("kit", tools=[ping])) as desk:

        async def call_after(hops: int) -> bool:
            for _ in range(hops):
                await asyncio.sleep(0)
            return (await desk.session.try_call(ping)).success

        passed: list[int] = []
        for count, pause in bursts:
            now = desk.clock.monotonic_ns()
            free = limit - sum(1 for at in passed if at > now - 30_000_000_000)
            outcomes = await asyncio.gather(*(call_after(order.randint(0, 5)) for _ in range(count)))
            assert sum(outcomes) == min(count, free)
            passed += [now] * sum(outcomes)
            desk.clock.advance(pause)


@pytest.mark.spec("G14", "G4")
async def test_a_refusal_names_its_window_and_says_when_one_more_fits() -> None:
    ping = ping_of(["2/10s", "3/1m"])
    async with session_for(Capability("kit", tools=[ping])) as desk:
        for pause in (1.0004, 2):
            await desk.session.call(ping)
            desk.clock.advance(pause)
        with pytest.raises(
            LimitExceeded, match="Rate limit exceeded: 'ping' is limited to 2/10s for each principal; try again in 7 s"
        ) as refused:
            await desk.session.call(ping)
        assert (refused.value.status, refused.value.retryable, refused.value.retry_after) == (429, True, 7.0)
        desk.clock.advance(7)
        await desk.session.call(ping)
        with pytest.raises(LimitExceeded, match="is limited to 3/1m"):
            await desk.session.call(ping)
        outcomes = [(record.outcome, record.decision, record.code) for record in await desk.records()]
        succeeded, limited = ("succeeded", "allow", None), ("limited", "deny", "limit_exceeded")
        assert outcomes == [succeeded, succeeded, limited, succeeded, limited]


@pytest.mark.spec("G14")
@given(st.integers(1, 10**9), st.integers(0, 10**12))
@settings(max_examples=30, deadline=None)
async def test_the_time_to_wait_is_exact_at_any_moment(seconds_ns: int, start_ns: int) -> None:
    ping = ping_of("1/5s")
    async with session_for(Capability("kit", tools=[ping])) as desk:
        desk.clock.advance(start_ns / 1e9)
        await desk.session.call(ping)
        desk.clock.advance(seconds_ns / 1e9)
        refused = (await desk.session.try_call(ping)).error
        assert isinstance(refused, LimitExceeded)
        desk.clock.advance((refused.retry_after or 0) - 0.001)
        assert not (await desk.session.try_call(ping)).success
        desk.clock.advance(0.001)
        assert (await desk.session.try_call(ping)).success


@pytest.mark.spec("G14")
async def test_only_what_reaches_the_handler_counts_and_failures_do() -> None:
    @policy
    def odd(request: Any) -> Any:
        return True if request.arguments is None or request.arguments["number"] % 2 else deny("even")

    @tool(effect="read", limits="2/1m", policies=[odd])
    async def fail(number: int) -> int:
        """Fail."""
        raise ToolError("no")

    async with session_for(Capability("kit", tools=[fail])) as desk:

        async def error_of(number: Any) -> type[object]:
            return type((await desk.session.try_call(fail, number)).error)

        for _ in range(5):
            assert [await error_of(2), await error_of("1")] == [PermissionDenied, InvalidArguments]
        for _ in range(2):
            assert await error_of(1) is ToolError
        for _ in range(3):  # which extend nothing
            desk.clock.advance(10)
            assert await error_of(1) is LimitExceeded
        desk.clock.advance(30)
        assert await error_of(1) is ToolError


@pytest.mark.spec("G3", "G14")
async def test_a_call_whose_intent_cannot_be_kept_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []

    @tool(limits="1/1h")
    async def act() -> None:
        """Act."""
        ran.append(1)

    async with session_for(Capability("kit", tools=[act])) as desk:
        with monkeypatch.context() as patch:
            patch.setattr(desk.kernel.audit, "commit", AsyncMock(side_effect=StoreError("the disk is full")))
            assert isinstance((await desk.session.try_call(act)).error, StoreError)
        assert ran == []
        await desk.session.call(act)
        assert ran == [1]


@pytest.mark.spec("G13")
@pytest.mark.parametrize(
    ("per", "sharing"),
    [
        ("principal", {"other session"}),
        ("session", set()),
        ("org", {"other session", "other principal"}),
        ("all", {"other session", "other principal", "other org", "stranger"}),
    ],
)
async def test_whose_calls_count_together(per: Any, sharing: set[str]) -> None:
    ping = ping_of(Limit(1, "1h", per=per))
    ada = Principal("ada", org="acme")
    others = {
        "other session": ada,
        "other principal": Principal("bob", org="acme"),
        "other org": Principal("ada", org="other"),
        "stranger": Principal("ada"),
    }
    for relation, principal in others.items():
        async with session_for(Capability("kit", tools=[ping]), principal=ada) as desk:
            await desk.session.call(ping)
            async with desk.kernel.open(desk.agent, principal=principal) as other:
                assert (await other.try_call(ping)).success is (relation not in sharing), relation


@pytest.mark.spec("G13")
async def test_neither_another_name_nor_another_agent_is_a_second_allowance() -> None:
    ping = ping_of("1/1h")
    kit = Capability("kit", tools=[ping])
    second_agent = Agent("two", uses=[kit.with_names(prefix="x_")])
    async with session_for(kit) as desk:
        await desk.session.call(ping)
        async with desk.kernel.open(second_agent, principal=Principal("user-1")) as session:
            assert isinstance((await session.try_call(ping)).error, LimitExceeded)


@pytest.mark.spec("G15")
async def test_a_session_and_a_run_have_budgets_of_calls_and_of_cost() -> None:
    cheap, dear = ping_of((), cost=1.0), ping_of((), cost=4.0, name="dear")
    agent, ada = Agent("tester", uses=[Capability("kit", tools=[cheap, dear])]), Principal("ada")
    async with (
        Kernel(store="memory://") as kernel,
        kernel.open(agent, principal=ada, budget=Budget(calls=4, cost=10)) as session,
    ):
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
        await kernel.audit.flush()
        assert [record.outcome for record in await kernel.audit.read()].count("limited") == 3


@pytest.mark.spec("G15")
async def test_calls_that_a_call_makes_are_of_its_run() -> None:
    ping = ping_of(())

    @tool(effect="read")
    async def twice(ctx: Context) -> int:
        """Call twice."""
        return await ctx.call(ping) + await ctx.call(ping)

    async with session_for(Capability("kit", tools=[ping, twice])) as desk:
        assert await desk.session.options(budget=Budget(calls=3)).call(twice) == 2
        error = (await desk.session.options(budget=Budget(calls=2)).try_call(twice)).error
        assert error is not None
        assert (error.code, error.status) == ("budget_exceeded", 429)
