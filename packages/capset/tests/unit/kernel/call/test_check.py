"""Checks of calls: as far as the handler, which is not started; refusals are on record, all else leaves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest

from capset import Agent, Capability, Context, Decision, Policy, Principal, Request, allow, ask, tool
from capset.definitions.governance.approvals import Answer
from capset.errors import ApprovalRejected, ApprovalRequired, InvalidArguments, NotFound, PermissionDenied
from tests.helpers.evaluation.things import make
from tests.helpers.kernel.support import Desk, desk, opened

pytestmark = pytest.mark.spec("G44")
made: list[int] = []


@pytest.fixture(autouse=True)
def none_made() -> None:
    made.clear()


def large_sums(request: Request) -> Decision:
    return ask("more than 100") if (request.arguments or {}).get("sum", 0) > 100 else allow()


@tool(effect="external", policies=[Policy("large-sums", large_sums)], limits="2/1h")
async def pay(sum: int) -> int:
    """Pay a sum."""
    made.append(sum)
    return sum


@tool(effect="external", approval="ask")
async def close() -> None:
    """Close the account."""
    made.append(0)


async def check(harness: Desk, name: str, arguments: Mapping[str, Any]) -> Any:
    session = harness.session.options(approvals="defer")
    return await session.check(session.message(name, arguments))


async def test_what_nothing_refuses_leaves_nothing() -> None:
    async with desk(pay) as harness:
        for _ in range(5):  # and counts in no limit
            assert await check(harness, "pay", {"sum": 7}) is None
        assert await harness.records() == []
        assert made == []
        assert await harness.session.call(pay, 7) == 7
        await harness.records()
        assert made == [7]


async def test_a_refusal_is_on_record_as_that_of_a_call() -> None:
    async with desk(pay, make("note", permissions={"notes:write"})) as harness:
        for name, arguments, error in (
            ("note", {}, PermissionDenied),
            ("pay", {"sum": "7"}, InvalidArguments),
            ("pya", {}, NotFound),
        ):
            refused = await check(harness, name, arguments)
            assert (type(refused.error), refused.refused, refused.success) == (error, True, False)
            record = (await harness.records())[-1]
            assert (record.id, record.code) == (refused.record, refused.error.code)
        assert made == []


@pytest.mark.parametrize(("name", "arguments"), [("pay", {"sum": 500}), ("close", {})])
async def test_an_approval_is_asked_for_and_used_by_the_call_alone(name: str, arguments: dict[str, Any]) -> None:
    async with desk(pay, close) as harness:
        refused = await check(harness, name, arguments)
        assert isinstance(refused.error, ApprovalRequired)
        assert refused.error.approval
        repeated = await check(harness, name, arguments)
        assert repeated.error.approval == refused.error.approval, "an equal call joins the open request"
        await harness.kernel.approvals.decide(refused.error.approval, Answer(approved=True), by=Principal("boss"))
        for _ in range(2):
            assert await check(harness, name, arguments) is None, "a check does not use the approval up"
        assert made == []
        session = harness.session.options(approvals="defer")
        assert (await session.try_message(session.message(name, arguments))).success
        assert len(made) == 1
        anew = await check(harness, name, arguments)
        assert isinstance(anew.error, ApprovalRequired), "the call used it up"
        await harness.kernel.approvals.decide(anew.error.approval or "", Answer(approved=False), by=Principal("boss"))
        assert isinstance((await check(harness, name, arguments)).error, ApprovalRejected)


async def test_dynamic_uses_are_asked_and_nothing_is_run() -> None:
    def more(ctx: Context) -> list[Capability]:
        return [Capability("kit", tools=[pay, close])]

    async with opened(Agent("tester", uses=[more])) as harness:
        assert await check(harness, "pay", {"sum": 1}) is None
        assert isinstance((await check(harness, "close", {})).error, ApprovalRequired)
        assert made == []


async def test_a_cancelled_check_leaves_nothing_running() -> None:
    started = asyncio.Event()

    async def hang(request: Request) -> bool:
        started.set()
        await asyncio.sleep(60)
        return True

    async with AsyncExitStack() as stack:
        harness = await stack.enter_async_context(desk(make("look", Policy("hang", hang, phase="call"))))
        task = asyncio.create_task(check(harness, "look", {}))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await harness.records() == []
        async with asyncio.timeout(3):  # less than closing waits for a call that seems to run
            await stack.aclose()
