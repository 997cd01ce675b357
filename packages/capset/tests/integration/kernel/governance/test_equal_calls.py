"""Equal calls meet one approval request, and use what was approved, whoever repeats them (spec 4, G16–G18)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, PlainSerializer

from capset import Agent, Capability, Context, Principal, tool
from capset.definitions.governance.limits import Budget, Limit
from capset.definitions.references import CapabilityRef
from capset.errors import (
    ApprovalRejected,
    ApprovalRequired,
    ApprovalVoid,
    BudgetExceeded,
    LimitExceeded,
    Unauthenticated,
)
from capset.ext import Answer, Governance
from capset.kernel.results import Result
from tests.helpers.kernel.governance.approving import FOR_SESSION, NO, till
from tests.helpers.kernel.support import Badge, opened, read, turns
from tests.waiting import until


@pytest.mark.spec("G18")
async def test_five_repetitions_leave_one_request_and_the_sixth_uses_its_approval(store: str) -> None:
    async with till(store=store) as harness:
        session = await harness.session()
        errors = [(await harness.made(session)).error for _ in range(5)]
        (row,) = await harness.requests()
        for error in errors:
            assert isinstance(error, ApprovalRequired)
            assert error.approval == row.id
            assert f"The request is {row.id}; once it is approved, make the same call again." in error.message
        await harness.decided(row.id)
        assert (await harness.made(session)).data == "bob has 5"
        assert isinstance((await harness.made(session)).error, ApprovalRequired), "it was for one call"
        (later, _) = await harness.requests()
        assert [record.approval for record in await harness.records()] == [row.id] * 6 + [later.id]
        assert harness.paid == [("bob", 5)]


class Order(BaseModel):
    amount: int
    to: str = Field(exclude=True)
    note: Annotated[str, PlainSerializer(lambda note: note[:1], return_type=str)] = ""


@tool(approval="ask")
async def send(order: Order, tags: set[int]) -> str:
    """Send something."""
    return order.to


@pytest.mark.spec("G16", "G17", "G18")
async def test_calls_are_equal_in_what_their_json_leaves_out_too_and_in_any_order_of_a_set() -> None:
    async with till(send) as harness:
        ready = (await harness.session()).options(approvals="defer")

        async def sent(to: str = "bob", note: str = "now", tags: tuple[int, int] = (0, 8)) -> Result[Any]:
            order = {"amount": 5, "to": to, "note": note}
            return await ready.try_message(ready.message("send", {"order": order, "tags": set(tags)}))

        for equal in (await sent(), await sent(tags=(8, 0))):
            assert isinstance(equal.error, ApprovalRequired)
        await harness.decided((await harness.waiting()).id)
        for other in (await sent(to="eve"), await sent(note="never"), await sent(tags=(0, 9))):
            assert isinstance(other.error, ApprovalRequired)
        assert (await sent(tags=(8, 0))).data == "bob"


@pytest.mark.spec("G3", "G18")
async def test_one_approval_lets_one_of_fifty_through(store: str) -> None:
    async with till(store=store) as harness:
        session = await harness.session()
        await harness.decided(await harness.asked(session))
        results = await asyncio.gather(*(harness.made(session) for _ in range(50)))
        assert sum(result.success for result in results) == 1
        request_ids = {result.error.approval for result in results if isinstance(result.error, ApprovalRequired)}
        assert len(request_ids) == 1, "the others share the next request"
        assert harness.paid == [("bob", 5)]
        assert [request.status for request in await harness.requests()] == ["pending", "used"]


@pytest.mark.spec("G18")
async def test_those_who_wait_share_a_request_and_one_of_them_goes_on() -> None:
    async with till() as harness:
        session = await harness.session()
        waiting = [asyncio.ensure_future(session.call(harness.pay, to="bob", amount=5)) for _ in range(5)]
        for done in range(5):
            await harness.decided((await harness.waiting()).id)
            await until(lambda done=done: sum(task.done() for task in waiting) > done)
            assert len(harness.paid) == done + 1
        assert [await task for task in waiting] == ["bob has 5"] * 5


@pytest.mark.spec("G17")
async def test_an_equal_call_gets_the_rejection_until_it_expires(store: str) -> None:
    async with till(store=store) as harness:
        session = await harness.session()
        await harness.decided(await harness.asked(session), NO)
        for _ in range(2):
            assert isinstance((await harness.made(session)).error, ApprovalRejected)
            harness.clock.advance(1_700)
        harness.clock.advance(200)
        assert isinstance((await harness.made(session)).error, ApprovalRequired)
        assert len(await harness.requests()) == 2


@pytest.mark.spec("G3", "G14", "G15", "G18")
@pytest.mark.parametrize(
    ("limits", "budget", "error"),
    [
        (Limit(1, "1h"), None, LimitExceeded),
        (Limit(1, "1h", scope="process"), None, LimitExceeded),
        ((), Budget(calls=1), BudgetExceeded),
    ],
    ids=["limit", "limit of the process", "budget"],
)
async def test_a_call_over_its_limit_or_budget_opens_no_request(
    store: str, limits: Any, budget: Budget | None, error: type[Exception]
) -> None:
    async with till(store=store, limits=limits) as harness:
        session = await harness.session(budget=budget)
        await harness.decided(await harness.asked(session))
        assert (await harness.made(session)).success
        for amount in (5, 6):
            assert isinstance((await harness.made(session, amount=amount)).error, error)
        assert len(await harness.requests()) == 1
        assert (await harness.record()).outcome == "limited"


@pytest.mark.spec("G18")
async def test_the_open_requests_of_a_principal_are_bounded(store: str) -> None:
    async with till(store=store, kernel={"governance": Governance(pending_approvals=3)}) as harness:
        session = await harness.session()
        for amount in range(3):
            await harness.asked(session, amount=amount)
        error = (await harness.made(session, amount=3)).error
        assert isinstance(error, LimitExceeded)
        assert "3 requests of this principal already wait for approval" in error.message
        assert isinstance((await harness.made(session, amount=0)).error, ApprovalRequired), "one that is open is met"
        assert isinstance((await harness.made(await harness.session("carol"), amount=3)).error, ApprovalRequired)
        await harness.decided((await harness.requests(session=session.id))[0].id)
        assert isinstance((await harness.made(session, amount=3)).error, ApprovalRequired)


@pytest.mark.spec("G17")
async def test_an_approval_for_the_session_is_met_by_those_who_wait_too() -> None:
    async with till() as harness:
        session = await harness.session()
        waiting = [asyncio.ensure_future(session.call(harness.pay, to="bob", amount=5)) for _ in range(3)]
        await harness.decided((await harness.waiting()).id, FOR_SESSION)
        assert await asyncio.gather(*waiting) == ["bob has 5"] * 3
        assert len(await harness.requests()) == 1


@pytest.mark.spec("G18")
async def test_a_caller_that_is_known_no_more_does_not_run_after_its_wait() -> None:
    badge = Badge(is_seen_late=True)
    async with till() as harness:
        session = (await harness.session()).options(credential=badge)
        waiting = [asyncio.ensure_future(session.try_call(harness.pay, to="bob", amount=amount)) for amount in (5, 6)]

        async def both_ask() -> bool:
            return len(await harness.requests()) == 2

        await until(both_ask)
        for is_known in (True, False):
            badge.is_valid = is_known
            (*_, row) = await harness.requests(status="pending")
            await harness.decided(row.id)
            async with asyncio.timeout(60):
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        first, second = [await task for task in waiting]
        assert (first.data, harness.paid) == ("bob has 5", [("bob", 5)])
        assert isinstance(second.error, Unauthenticated)
        record = await harness.record()
        assert (record.outcome, record.decision) == ("unauthenticated", "deny")
        assert [row.status for row in await harness.requests()] == ["approved", "used"]


@pytest.mark.spec("G18")
async def test_what_a_call_makes_is_held_to_its_callers_credential() -> None:
    @tool(effect="read")
    async def relay(ctx: Context) -> str:
        """Pay by another tool."""
        return await ctx.call(harness.pay, to="bob", amount=5)

    async with till(relay) as harness:
        badge = Badge(is_valid=False, is_seen_late=True)
        session = (await harness.session()).options(credential=badge)
        waits = asyncio.ensure_future(session.try_message(session.message("relay", {})))
        await harness.decided((await harness.waiting()).id)
        assert "The badge was withdrawn" in str((await waits).error)
        assert [record.outcome for record in await harness.records()] == ["unauthenticated", "failed"]
        assert harness.paid == []


@pytest.mark.spec("G3")
async def test_a_call_that_is_cancelled_as_it_is_admitted_counts_nowhere(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    async with till(store=url, limits="1/1h") as harness:
        session = await harness.session()
        await harness.decided(await harness.asked(session))
        for hops in range(1, 40):
            before = asyncio.all_tasks()
            waits = asyncio.ensure_future(harness.made(session))
            await turns(hops)
            if waits.done() or harness.paid:
                break
            waits.cancel()
            await asyncio.wait([waits])
            # A cancelled call waits for nothing: what it took is given back after it. The state of the request cannot
            # tell when, since it is "approved" before the call was admitted, too.
            await until(lambda before=before: asyncio.all_tasks() <= before)
            assert (await harness.requests())[0].status == "approved"
        assert (await harness.made(session)).success or harness.paid
        assert len(harness.paid) == 1


@pytest.mark.spec("G18")
async def test_whoever_reads_messages_is_told_of_a_request_that_others_opened() -> None:
    async with till() as harness:
        session = await harness.session()
        request_id = await harness.asked(session)
        reading = asyncio.ensure_future(read(session.invoke(session.message("pay", {"to": "bob", "amount": 5}))))
        await turns()
        await harness.decided(request_id)
        event, reply = await reading
        assert (event.type, event.data["id"], reply.data) == ("approval.requested", request_id, "bob has 5")


@pytest.mark.spec("G17")
async def test_an_approval_is_for_one_tool_where_two_capabilities_have_equal_ones(store: str) -> None:
    """Their hashes are the same: what was approved for the one is nothing for the other."""
    deleted: list[str] = []

    def deleting(where: str) -> CapabilityRef:
        @tool(effect="destructive", approval="ask")
        async def delete(path: str) -> None:
            """Delete a path."""
            deleted.append(where)

        return Capability(where, tools=[delete]).with_names(prefix=f"{where}_")

    async with opened(Agent("ops", uses=[deleting("staging"), deleting("production")]), store=store) as desk:

        async def error_of(name: str, approval: str | None = None) -> Any:
            ready = desk.session.options(approvals="defer", approval=approval)
            return (await ready.try_message(ready.message(name, {"path": "/db"}))).error

        request_id = (await error_of("staging_delete")).approval
        await desk.kernel.approvals.decide(request_id, Answer(approved=True), by=Principal("boss"))
        other = await error_of("production_delete")
        assert isinstance(other, ApprovalRequired)
        assert other.approval != request_id
        assert isinstance(await error_of("production_delete", request_id), ApprovalVoid)
        assert await error_of("staging_delete") is None
    assert deleted == ["staging"]


class Slow:
    """An approver of the host's own that says yes once ``go`` is set."""

    def __init__(self) -> None:
        self.go, self.asked = asyncio.Event(), 0

    async def decide(self, request: object) -> Answer:
        self.asked += 1
        await self.go.wait()
        return Answer(approved=True)


@pytest.mark.spec("G18")
async def test_those_who_share_a_request_go_on_when_who_asked_the_host_has_left() -> None:
    host = Slow()
    async with till(kernel={"governance": Governance(approver=host)}) as harness:
        session = await harness.session()
        first, second = [asyncio.ensure_future(session.call(harness.pay, to="bob", amount=5)) for _ in range(2)]
        await until(lambda: host.asked)
        await turns()
        first.cancel()
        await asyncio.wait([first])
        host.go.set()
        async with asyncio.timeout(60):
            assert await second == "bob has 5"
        assert host.asked == 2


@pytest.mark.spec("G17")
async def test_arguments_that_change_while_a_call_is_admitted_void_its_approval(tmp_path: Path) -> None:
    sent: list[list[str]] = []

    @tool(effect="write", approval="ask")
    async def send(to: list[str]) -> int:
        """Send something."""
        sent.append(to)
        return len(to)

    async with till(send, store=f"sqlite:///{tmp_path}/a.db") as harness:
        session = (await harness.session()).options(approvals="defer")
        recipients = ["bob"]
        assert not (await session.try_call(send, to=recipients)).success
        await harness.decided((await harness.waiting()).id)
        waits = asyncio.ensure_future(session.try_call(send, to=recipients))
        await asyncio.sleep(0)
        recipients.append("mallory")
        assert isinstance((await waits).error, ApprovalVoid) or sent == [["bob"]]
        assert all("mallory" not in addressees for addressees in sent)
