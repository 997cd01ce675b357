"""Equal calls meet one request for an approval, and use what was approved, whoever repeats them (spec 4, G16–G18)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, PlainSerializer

from capset import Agent, Capability, Context, Kernel, Principal, Request, policy, tool
from capset.definitions.governance.limits import Budget, Limit
from capset.errors import (
    ApprovalRejected,
    ApprovalRequired,
    ApprovalVoid,
    BudgetExceeded,
    LimitExceeded,
    PermissionDenied,
    Unauthenticated,
)
from capset.ext import Answer, Governance
from capset.kernel.results import Result
from tests.helpers.kernel.governance.approving import FOR_SESSION, NO, till
from tests.helpers.kernel.support import Badge, read, turns
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
        assert [record.approval for record in await harness.records()] == [row.id] * 6 + [
            (await harness.requests())[0].id
        ]
        assert harness.paid == [("bob", 5)]


@pytest.mark.spec("G17", "G18")
async def test_what_is_not_equal_meets_nothing() -> None:
    async with till() as harness:
        session = await harness.session()
        await harness.decided(await harness.asked(session))
        agent = Principal("bot", kind="agent", org="acme")
        for other in (
            await harness.made(session, amount=6),
            await harness.made(await harness.session()),
            await harness.made(await harness.session(agent.acting_for(Principal("ada", org="acme")))),
        ):
            assert isinstance(other.error, ApprovalRequired)
        assert len(await harness.requests()) == 4
        assert (await harness.made(session)).success


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

        first, second = await sent(), await sent(tags=(8, 0))
        assert isinstance(first.error, ApprovalRequired)
        assert isinstance(second.error, ApprovalRequired)
        assert second.error.approval == first.error.approval
        await harness.decided(str(first.error.approval))
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
            error = (await harness.made(session)).error
            assert isinstance(error, ApprovalRejected)
            assert error.message == "Permission denied: the request was rejected by user:boss: too much"
            harness.clock.advance(1_700)
        harness.clock.advance(200)
        assert isinstance((await harness.made(session)).error, ApprovalRequired)
        assert len(await harness.requests()) == 2


@pytest.mark.spec("G3", "G14", "G18")
@pytest.mark.parametrize("limit", [Limit(1, "1h"), Limit(1, "1h", scope="process")])
async def test_a_call_over_its_limit_opens_no_request(store: str, limit: Limit) -> None:
    async with till(store=store, limits=limit) as harness:
        session = await harness.session()
        await harness.decided(await harness.asked(session))
        assert (await harness.made(session)).success
        for amount in (5, 6):
            assert isinstance((await harness.made(session, amount=amount)).error, LimitExceeded)
        assert len(await harness.requests()) == 1
        assert (await harness.record()).outcome == "limited"


@pytest.mark.spec("G15", "G18")
async def test_a_call_beyond_a_budget_opens_no_request() -> None:
    async with till() as harness:
        session = await harness.session(budget=Budget(calls=0))
        assert isinstance((await harness.made(session)).error, BudgetExceeded)
        assert await harness.requests() == ()


@pytest.mark.spec("G18")
async def test_the_open_requests_of_a_principal_are_bounded(store: str) -> None:
    async with till(store=store, kernel={"governance": Governance(pending_approvals=3)}) as harness:
        session = await harness.session()
        for amount in range(3):
            await harness.asked(session, amount=amount)
        error = (await harness.made(session, amount=3)).error
        assert type(error) is LimitExceeded
        assert error.message == "Rate limit exceeded: 3 requests of this principal wait for approvals already."
        assert isinstance((await harness.made(session, amount=0)).error, ApprovalRequired), "one that is open is met"
        assert isinstance((await harness.made(await harness.session("carol"), amount=3)).error, ApprovalRequired)
        await harness.decided((await harness.requests(session=session.id))[0].id)
        assert isinstance((await harness.made(session, amount=3)).error, ApprovalRequired)


@pytest.mark.spec("G18")
async def test_a_request_outlives_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    async with till(store=url) as harness:
        session = await harness.session()
        request_id = await harness.asked(session)
    async with till(store=url) as harness:
        reopened = await harness.session(id=session.id)
        assert await harness.asked(reopened) == request_id
        await harness.decided(request_id)
    async with till(store=url) as harness:
        assert (await harness.made(await harness.session(id=session.id))).success
        assert harness.paid == [("bob", 5)]


@pytest.mark.spec("G18")
async def test_a_named_approval_is_still_single_use() -> None:
    async with till() as harness:
        session = await harness.session()
        await harness.decided(request_id := await harness.asked(session))
        assert (await harness.made(session)).success
        assert isinstance((await harness.made(session, approval=request_id)).error, ApprovalVoid)


@pytest.mark.spec("G17")
async def test_changed_arguments_are_used_by_the_next_equal_call() -> None:
    async with till() as harness:
        session = await harness.session()
        await harness.decided(await harness.asked(session), Answer(approved=True, arguments={"to": "bob", "amount": 4}))
        assert (await harness.made(session)).data == "bob has 4"
        assert json.loads((await harness.record()).arguments) == {"to": "bob", "amount": 4}


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

        for is_known in (True, False):
            await until(both_ask)
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
        (remaining, _) = await harness.requests()
        assert remaining.status == "approved", "nothing has used it"


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
        request_id = await harness.asked(session)
        await harness.decided(request_id)
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

    def deleting(where: str) -> Capability[None]:
        @tool(effect="destructive", approval="ask", name="delete")
        async def delete(path: str) -> str:
            """Delete a path."""
            deleted.append(where)
            return path

        return Capability(where, tools=[delete])

    async with Kernel(store=store) as kernel:
        both = [deleting(where).with_names(prefix=f"{where}_") for where in ("staging", "production")]
        async with kernel.open(Agent("ops", uses=both), principal=Principal("ada", org="acme")) as opened:
            session = opened.options(approvals="defer")

            async def tried(name: str, approval: str | None = None) -> Any:
                ready = session.options(approval=approval)
                return (await ready.try_message(session.message(name, {"path": "/db"}))).error

            request_id = (await tried("staging_delete")).approval
            await kernel.approvals.decide(request_id, Answer(approved=True), by=Principal("boss", org="acme"))
            other = await tried("production_delete")
            assert isinstance(other, ApprovalRequired)
            assert other.approval != request_id
            assert isinstance(await tried("production_delete", request_id), ApprovalVoid)
            assert await tried("staging_delete") is None
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
async def test_what_the_hosts_approver_took_its_time_for_is_checked_again() -> None:
    host, allowed = Slow(), True

    @policy
    def now(request: Request) -> bool:
        return allowed

    async with till(kernel={"governance": Governance(approver=host)}, policies=[now]) as harness:
        session = await harness.session()
        waits = asyncio.ensure_future(session.try_call(harness.pay, to="bob", amount=5))
        await until(lambda: host.asked)
        allowed = False
        host.go.set()
        assert type((await waits).error) is PermissionDenied
        assert harness.paid == []


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
        error = (await session.try_call(send, to=recipients)).error
        assert isinstance(error, ApprovalRequired)
        await harness.decided(error.approval or "")
        waits = asyncio.ensure_future(session.try_call(send, to=recipients))
        await asyncio.sleep(0)
        recipients.append("mallory")
        second_error = (await waits).error
        assert isinstance(second_error, ApprovalVoid) or sent == [["bob"]]
        assert all("mallory" not in addressees for addressees in sent)
