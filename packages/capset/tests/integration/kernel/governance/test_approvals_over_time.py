"""Approvals while time passes: approvers, deadlines, expiry, restarts, other kernels (spec 4, G17, G18)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from capset import Kernel, Principal, Request, allow, deny, policy, tool
from capset.errors import (
    ApprovalExpired,
    ApprovalRejected,
    ApprovalVoid,
    Conflict,
    DeadlineExceeded,
    NotFound,
    PermissionDenied,
    TransientError,
)
from capset.ext import Answer, ApprovalRow, Governance, Retry
from capset.kernel.governance import approvals
from capset.kernel.results import Result
from tests.helpers.kernel.governance.approving import NO, YES, Till, person, till
from tests.helpers.kernel.support import read, turns
from tests.waiting import until


class Host:
    """An approver of the host's own."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer = answer

    async def decide(self, request: ApprovalRow) -> Answer | None:
        answer = self.answer()
        return await answer if asyncio.iscoroutine(answer) else answer


@asynccontextmanager
async def hosted(answer: Callable[[], Any], **options: Any) -> AsyncGenerator[Till]:
    async with till(kernel={"governance": Governance(approver=Host(answer))}, **options) as harness:
        yield harness


async def waiting(harness: Till) -> tuple[asyncio.Future[Result[Any]], ApprovalRow]:
    """Let a payment wait for its approval; return what will come of it, and the request."""
    session = await harness.session()
    payment = asyncio.ensure_future(session.try_call(harness.pay, to="bob", amount=5))
    return payment, await harness.waiting()


IS_OPEN = [True]


@policy
def while_open(request: Request) -> Any:
    return allow() if IS_OPEN[0] or request.arguments is None else deny("the till is closed")


@pytest.fixture(autouse=True)
def reopened() -> None:
    IS_OPEN[0] = True


@pytest.mark.spec("G17")
async def test_the_hosts_approver_answers_at_once() -> None:
    async with hosted(lambda: YES) as harness:
        assert await (await harness.session()).call(harness.pay, to="bob", amount=5) == "bob has 5"
        (row,) = await harness.requests()
        assert (row.status, row.decided_by) == ("used", "host:approver")


@pytest.mark.spec("G17")
@pytest.mark.parametrize(("answer", "why"), [(lambda: NO, "too much"), (lambda: 1 / 0, "the approver failed")])
async def test_the_hosts_approver_rejects_and_so_does_one_that_fails(answer: Callable[[], Any], why: str) -> None:
    async with hosted(answer) as harness:
        with pytest.raises(ApprovalRejected, match=f"the request was rejected by host:approver: {why}$"):
            await (await harness.session()).call(harness.pay, to="bob", amount=5)
        assert harness.paid == []


@pytest.mark.spec("G17")
@pytest.mark.parametrize("arguments", [None, {"nope": 1}, {"to": {1, 2}, "amount": 5}])
async def test_a_host_that_gives_no_answer_or_arguments_that_do_not_fit_leaves_the_request_to_others(
    arguments: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with hosted(lambda: arguments and Answer(approved=True, arguments=arguments)) as harness:
        payment, row = await waiting(harness)
        await until(lambda: arguments is None or "the approver's answer is ignored" in caplog.text)
        await harness.decided(row.id)
        assert (await payment).data == "bob has 5"


@pytest.mark.spec("G25", "G17")
@pytest.mark.parametrize("is_heard", [False, True])
async def test_a_call_that_waited_for_its_approval_is_retried(is_heard: bool) -> None:
    tries: list[int] = []

    @tool(effect="read", idempotent=True, retry=Retry(3, base=0.001), approval="ask")
    async def fetch() -> int:
        """Fetch."""
        tries.append(1)
        if len(tries) < 3:
            raise TransientError("not yet")
        return len(tries)

    async with till(fetch) as harness:
        session = await harness.session()
        messages = session.stream(fetch)
        waits = asyncio.ensure_future(read(messages) if is_heard else session.try_call(fetch))
        await harness.decided((await harness.waiting()).id)
        outcome = await waits
        assert (outcome[-1] if isinstance(outcome, list) else outcome).data == 3


async def test_requests_that_the_hosts_approver_was_asked_about_are_forgotten_after_so_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(approvals, "_MAX_CONSULTED", 2)
    async with hosted(lambda: YES) as harness:
        session = await harness.session()
        for amount in range(4):
            await session.call(harness.pay, to="bob", amount=amount)
        assert len(session._context.runtime.approvals._consulted) == 2


@pytest.mark.spec("G17", "K16")
@pytest.mark.parametrize("answer", [lambda: None, lambda: asyncio.sleep(60)])
async def test_a_deadline_ends_the_waiting_and_not_the_request(answer: Callable[[], Any]) -> None:
    async with hosted(answer) as harness:
        session = (await harness.session()).options(timeout=0.05)
        with pytest.raises(DeadlineExceeded, match="there was no approval in time"):
            await session.call(harness.pay, to="bob", amount=5)
        assert (await harness.record()).outcome == "timed_out"
        await turns()
        (row,) = await harness.requests()
        await harness.decided(row.id)
        assert (await harness.made(await harness.session(id=row.session))).data == "bob has 5"


@pytest.mark.spec("G18")
async def test_a_request_outlives_whoever_leaves() -> None:
    async with till() as harness:
        payment, row = await waiting(harness)
        payment.cancel()
        with pytest.raises(asyncio.CancelledError):
            await payment
        await turns()
        assert (await harness.kernel.approvals.get(row.id, org="acme")).status == "pending"
        assert (await harness.record()).outcome == "cancelled"
        await harness.decided(row.id)
        assert harness.paid == [], "nothing runs by itself"
        assert (await harness.made(await harness.session(id=row.session))).data == "bob has 5"


@pytest.mark.spec("G17")
async def test_a_request_that_nobody_answers_in_time_expires(store: str) -> None:
    async with till(store=store) as harness:
        payment, row = await waiting(harness)
        harness.clock.advance(3_600)
        assert isinstance((await payment).error, ApprovalExpired)
        assert (await harness.record()).outcome == "rejected"
        with pytest.raises(Conflict, match="expired"):
            await harness.decided(row.id)


@pytest.mark.spec("G17")
async def test_however_many_requests_are_overdue_none_is_open() -> None:
    async with till(kernel={"governance": Governance(pending_approvals=200)}) as harness:
        session = await harness.session()
        for amount in range(120):
            await harness.asked(session, amount=amount)
        harness.clock.advance(3_600)
        assert await harness.requests(status="pending", limit=1000) == ()
        assert len(await harness.requests(status="expired", limit=1000)) == 120


@pytest.mark.spec("G17")
async def test_an_approval_is_void_once_the_tool_has_changed(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/capset.db"
    async with till(store=store) as harness:
        session = await harness.session()
        await harness.decided(request_id := await harness.asked(session))

    async with till(store=store, timeout=9.0, permissions={"till:pay"}) as harness:
        principal = Principal("ada", org="acme", permissions={"till:pay"})
        error = (await harness.made(await harness.session(principal, id=session.id), approval=request_id)).error
        assert isinstance(error, ApprovalVoid)
        assert "the tool has changed" in error.message
        assert harness.paid == []


@pytest.mark.spec("G18")
async def test_a_request_outlives_a_restart_and_policies_are_asked_again(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/capset.db"
    async with till(store=store, policies=[while_open]) as harness:
        session = await harness.session()
        request_id = await harness.asked(session)

    async with till(store=store, policies=[while_open]) as harness:
        reopened = await harness.session(id=session.id)
        assert await harness.asked(reopened) == request_id
        await harness.decided(request_id)
        IS_OPEN[0] = False
        error = (await harness.made(reopened, approval=request_id)).error
        assert type(error) is PermissionDenied
        assert "the till is closed" in error.message
        IS_OPEN[0] = True
        assert (await harness.made(reopened, approval=request_id)).success
        assert harness.paid == [("bob", 5)]


@pytest.mark.spec("G18")
async def test_policies_are_asked_again_when_the_waiting_is_over() -> None:
    async with till(policies=[while_open]) as harness:
        payment, row = await waiting(harness)
        IS_OPEN[0] = False
        await harness.decided(row.id)
        assert type((await payment).error) is PermissionDenied
        assert harness.paid == []


@pytest.mark.spec("G18")
async def test_policies_are_asked_again_when_the_hosts_approver_has_answered() -> None:
    def close_and_approve() -> Answer:
        IS_OPEN[0] = False
        return YES

    async with hosted(close_and_approve, policies=[while_open]) as harness:
        error = (await (await harness.session()).try_call(harness.pay, to="bob", amount=5)).error
        assert type(error) is PermissionDenied
        assert harness.paid == []


@pytest.mark.spec("G18")
async def test_another_kernel_on_the_same_file_decides(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/capset.db"
    async with till(store=store) as harness, Kernel(store=store, clock=harness.clock) as other:
        payment, row = await waiting(harness)
        await other.approvals.decide(row.id, YES, by=person("boss"))
        assert (await payment).data == "bob has 5"


@pytest.mark.spec("G17")
async def test_a_request_is_decided_once() -> None:
    async with till() as harness:
        request_id = await harness.asked(await harness.session())
        decisions = await asyncio.gather(
            *(harness.decided(request_id, answer, by) for answer, by in ((YES, "boss"), (NO, "carol"), (YES, "dave"))),
            return_exceptions=True,
        )
        assert sorted(type(decision).__name__ for decision in decisions) == ["ApprovalRow", "Conflict", "Conflict"]
        with pytest.raises(NotFound):
            await harness.decided("nowhere\0")


@pytest.mark.spec("G17")
async def test_own_requests_are_approved_where_the_host_allows_it_and_withdrawn_by_whoever_made_them() -> None:
    async with till(kernel={"governance": Governance(own_approvals=True)}) as harness:
        request_id = await harness.asked(await harness.session())
        assert (await harness.decided(request_id, by="ada")).status == "approved"
    async with till() as harness:
        request_id = await harness.asked(await harness.session())
        assert (await harness.decided(request_id, NO, by="ada")).status == "rejected"
