"""Revocation of what is in use: running calls end within a second, and no more begin (spec 4, G54)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import Agent, Capability, Context, Progress, Reply, Result, Session, tool
from capset.definitions.tools.definition import AnyTool
from capset.errors import Cancelled, PermissionDenied, StoreError, Unauthenticated
from capset.kernel.revocation import CHECK_SECONDS, MAX_AGE_SECONDS, RevocationWatch
from tests.helpers.evaluation.things import make
from tests.helpers.kernel.governance.approving import till
from tests.helpers.kernel.support import Badge, desk, opened, read
from tests.virtual_time import VirtualTimeLoop, anyio_backend
from tests.waiting import moment, until

__all__ = ["anyio_backend"]

pytestmark = pytest.mark.spec("G54")
PROMISED = 1.0
TIMES = st.floats(0.01, 3.0)


@tool(effect="read")
async def look() -> str:
    """Look for ever."""
    await asyncio.Event().wait()
    return "seen"


keep = replace(look, name="keep", effect="write")


@tool(effect="external")
async def tell() -> AsyncGenerator[Progress | Reply[str]]:
    """Tell something again and again."""
    while True:
        await asyncio.sleep(0.05)
        yield Progress(0.5, "still")


async def made(session: Session, tool: AnyTool, way: str) -> Result[Any]:
    if way == "call":
        return await session.try_call(tool)
    await read(messages := session.invoke(session.message(tool.name, {})))
    return messages.result


@pytest.mark.parametrize("way", ["call", "messages"])
@pytest.mark.parametrize("forever", [look, keep, tell], ids=lambda param: param.name)
async def test_a_call_under_way_is_cancelled_and_none_begins(forever: AnyTool, way: str) -> None:
    async with desk(forever) as harness:
        badge = Badge()
        session = harness.session.options(credential=badge)
        calling = asyncio.ensure_future(made(session, forever, way))
        await moment(2.0)
        assert not calling.done(), "it goes on as long as nothing is withdrawn"
        badge.is_valid = False
        async with asyncio.timeout(PROMISED):
            ended = await calling
        assert isinstance(ended.error, Cancelled)
        assert "The badge was withdrawn" in ended.error.message
        assert not ended.error.retryable
        assert (await harness.record()).outcome == "cancelled"
        refused = await made(session, forever, way)
        assert (type(refused.error), refused.refused) == (Unauthenticated, True)


async def test_a_call_that_waits_for_its_approval_ends_and_its_request_stays() -> None:
    async with till() as open_till:
        badge = Badge()
        session = (await open_till.session()).options(credential=badge)
        waiting = asyncio.ensure_future(session.try_call(open_till.pay, to="bob", amount=5))
        request = await open_till.waiting()
        badge.is_valid = False
        async with asyncio.timeout(PROMISED):
            assert isinstance((await waiting).error, Cancelled)
        await open_till.decided(request.id)
        assert isinstance((await session.try_call(open_till.pay, to="bob", amount=5)).error, Unauthenticated)
        assert open_till.paid == []


async def test_a_store_that_is_away_ends_no_call_and_lets_none_begin() -> None:
    class Unknown(Badge):
        async def check(self, *, bypass_cache: bool = False) -> None:
            if not self.is_valid:
                raise StoreError("the database is away")

    async with desk(look) as harness:
        badge = Unknown()
        session = harness.session.options(credential=badge)
        calling = asyncio.ensure_future(session.try_call(look))
        await moment(0.1)
        badge.is_valid = False
        await moment(3.0)
        assert not calling.done()
        assert isinstance((await session.try_call(look)).error, StoreError)
        calling.cancel()
        await asyncio.wait([calling])


async def test_a_check_that_fails_unexpectedly_is_made_again(caplog: pytest.LogCaptureFixture) -> None:
    checks = 0

    async def check() -> None:
        nonlocal checks
        checks += 1
        if checks == 1:
            raise ZeroDivisionError
        raise Unauthenticated("The badge was withdrawn")

    with pytest.raises(Unauthenticated), RevocationWatch(check):
        await asyncio.Event().wait()
    assert checks == 2
    assert "ZeroDivisionError" in caplog.text, "nor is it passed over in silence"


@pytest.mark.spec("M15")
async def test_a_credential_is_for_tools_by_the_names_of_their_capability() -> None:
    write_file = make("write_file")

    @tool(effect="read")
    async def add(ctx: Context) -> str:
        """Add, with another tool."""
        return await ctx.call(write_file)

    kit = Capability("kit", tools=[write_file, add])
    agent = Agent("tester", uses=[kit.with_names(rename={"write_file": "add", "add": "sum"})])
    async with opened(agent) as harness:
        session = harness.session.options(credential=Badge(tools=frozenset({"kit.add"})))
        for name in ("sum", "kit.sum"):  # what it calls is its own
            assert (await session.try_message(session.message(name, {}))).data == "write_file"
        errors = [(await session.try_message(session.message(name, {}))).error for name in ("add", "none")]
        assert [type(error) for error in errors] == [PermissionDenied] * 2
        assert "kit.write_file" in str(errors[0])


@given(st.lists(TIMES, min_size=1, max_size=3), TIMES, TIMES)
def test_work_ends_within_the_second_or_is_left_alone(steps: list[float], withdrawn: float, cancelled: float) -> None:
    """However withdrawal, cancellation and the end of the work fall: each ends it as what it is."""
    assert MAX_AGE_SECONDS + CHECK_SECONDS < PROMISED

    async def run() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()

        async def check() -> None:
            if loop.time() >= began + withdrawn:
                raise PermissionDenied("withdrawn")

        async def work() -> str:
            try:
                with RevocationWatch(check):
                    for seconds in steps:
                        await asyncio.sleep(seconds)
            except PermissionDenied:
                await asyncio.sleep(0)  # it can go on: no cancellation is left
                return "withdrawn"
            return "done"

        task = asyncio.create_task(work())
        loop.call_later(cancelled, task.cancel)
        await asyncio.wait([task])
        took = loop.time() - began
        outcome = "cancelled" if task.cancelled() else task.result()
        slack = 0.01
        if outcome == "done":
            assert sum(steps) <= min(withdrawn + CHECK_SECONDS, cancelled) + slack
        elif outcome == "withdrawn":
            assert withdrawn - slack <= took <= withdrawn + CHECK_SECONDS + slack
        else:
            assert cancelled - slack <= took <= min(sum(steps), withdrawn + CHECK_SECONDS) + slack

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(run())


async def test_an_unwatched_session_is_as_before() -> None:
    async with desk(look) as harness:
        with harness.session.until_withdrawn():
            calling = asyncio.ensure_future(harness.session.try_call(look))
            await until(lambda: not calling.done())
        calling.cancel()
        await asyncio.wait([calling])
