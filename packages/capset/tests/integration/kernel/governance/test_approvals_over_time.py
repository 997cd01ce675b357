"""Approvals while time passes: approvers, deadlines, expiry, restarts, other kernels (spec 4, G17, G18)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
from tests.helpers.kernel.governance.approving import NO, YES, person, till
from tests.helpers.kernel.support import read, turns
from tests.waiting import until


class Host:
    """An approver of the host's own, and what it was asked."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer = answer
        self.asked: list[ApprovalRow] = []

    async def decide(self, request: ApprovalRow) -> Answer | None:
        self.asked.append(request)
        answer = self.answer()
        return await answer if asyncio.iscoroutine(answer) else answer


def fails() -> Any:
    raise RuntimeError("the terminal is gone")


@pytest.mark.spec("G17")
async def test_the_hosts_approver_answers_at_once() -> None:
    host = Host(lambda: YES)
    async with till(kernel={"governance": Governance(approver=host)}) as harness:
        assert await (await harness.session()).call(harness.pay, to="bob", amount=5) == "bob has 5"
        (row,) = await harness.requests()
        assert (row.status, row.decided_by) == ("used", "host:approver")
        assert [request.id for request in host.asked] == [row.id]


@pytest.mark.spec("G17")
@pytest.mark.parametrize(("answer", "why"), [(lambda: NO, "too much"), (fails, "the approver failed")])
async def test_the_hosts_approver_rejects_and_so_does_one_that_fails(answer: Callable[[], Any], why: str) -> None:
    async with till(kernel={"governance": Governance(approver=Host(answer))}) as harness:
        error = (await (await harness.session()).try_call(harness.pay, to="bob", amount=5)).error
        assert isinstance(error, ApprovalRejected)
        assert error.message == f"Permission denied: the request was rejected by host:approver: {why}"
        assert harness.paid == []


@pytest.mark.spec("G17")
@pytest.mark.parametrize("arguments", [{"nope": 1}, {"to": {1, 2}, "amount": 5}])
async def test_arguments_of_the_hosts_approver_that_do_not_fit_leave_the_request_to_others(
    arguments: Any, caplog: pytest.LogCaptureFixture
) -> None:
    answer = Answer(approved=True, arguments=arguments)
    async with till(kernel={"governance": Governance(approver=Host(lambda: answer))}) as harness:
        waits = asyncio.ensure_future((await harness.session()).call(harness.pay, to="bob", amount=5))
        await until(lambda: "the approver's answer does not count" in caplog.text)
        await harness.decided((await harness.waiting()).id)
        assert await waits == "bob has 5"


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


async def test_a_host_that_does_not_answer_leaves_it_to_others() -> None:
    async with till(kernel={"governance": Governance(approver=Host(lambda: None))}) as harness:
        waits = asyncio.ensure_future((await harness.session()).call(harness.pay, to="bob", amount=5))
        await harness.decided((await harness.waiting()).id)
        assert await waits == "bob has 5"


async def test_requests_that_the_hosts_approver_was_asked_about_are_forgotten_after_so_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(approvals, "_REMEMBERED", 2)
    async with till(kernel={"governance": Governance(approver=Host(lambda: YES))}) as harness:
        session = await harness.session()
        for amount in range(4):
            await session.call(harness.pay, to="bob", amount=amount)
        assert len(session._context.runtime.approvals._consulted) == 2


@pytest.mark.spec("G17", "K16")
@pytest.mark.parametrize("host", [None, Host(lambda: asyncio.sleep(60))])
async def test_a_deadline_ends_the_waiting_and_not_the_request(host: Host | None) -> None:
    async with till(kernel={"governance": Governance(approver=host)}) as harness:
        session = (await harness.session()).options(timeout=0.05)
        error = (await session.try_call(harness.pay, to="bob", amount=5)).error
        assert isinstance(error, DeadlineExceeded)
        assert "there was no approval in time" in error.message
        assert (await harness.record()).outcome == "timed_out"
        await turns()
        (row,) = await harness.requests()
        await harness.decided(row.id)
        assert (await harness.made(await harness.session(id=row.session))).data == "bob has 5"


@pytest.mark.spec("G18")
async def test_a_request_outlives_whoever_leaves() -> None:
    async with till() as harness:
        session = await harness.session()
        waits = asyncio.ensure_future(session.call(harness.pay, to="bob", amount=5))
        row = await harness.waiting()
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        await turns()
        assert (await harness.kernel.approvals.get(row.id, org="acme")).status == "pending"
        assert (await harness.record()).outcome == "cancelled"
        await harness.decided(row.id)
        assert harness.paid == [], "nothing runs by itself"
        assert await session.call(harness.pay, to="bob", amount=5) == "bob has 5"


@pytest.mark.spec("G17")
async def test_nobody_answers_in_time(store: str) -> None:
    async with till(store=store) as harness:
        waits = asyncio.ensure_future((await harness.session()).try_call(harness.pay, to="bob", amount=5))
        row = await harness.waiting()
        harness.clock.advance(3_600)
        error = (await waits).error
        assert isinstance(error, ApprovalExpired)
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


@pytest.mark.spec("G16")
async def test_secrets_are_masked_and_still_told_apart() -> None:
    @tool(effect="write", approval="ask")
    async def login(user: str, password: str) -> str:
        """Log in."""
        return user

    async with till(login) as harness:
        session = (await harness.session()).options(approvals="defer")
        for password in ("hunter2", "hunter3"):
            await session.try_call(login, user="ada", password=password)
        first, other = await harness.requests()
        assert first.arguments == other.arguments
        assert "hunter" not in first.arguments
        assert first.digest != other.digest


@pytest.mark.spec("G17")
async def test_what_a_caller_changes_while_it_waits_voids_the_approval() -> None:
    sent: list[list[str]] = []

    @tool(effect="write", approval="ask")
    async def send(letters: list[dict[str, Any]]) -> int:
        """Send letters."""
        sent.append([message["to"] for message in letters])
        return len(letters)

    async with till(send) as harness:
        letter: dict[str, Any] = {"to": "bob", "about": {"sum": 5}}
        waits = asyncio.ensure_future((await harness.session()).try_call(send, letters=[letter]))
        row = await harness.waiting()
        letter["about"]["sum"] = 500
        await harness.decided(row.id)
        assert isinstance((await waits).error, ApprovalVoid)
        assert sent == []


@pytest.mark.spec("G17")
async def test_an_approval_is_void_once_the_tool_has_changed(tmp_path: Any) -> None:
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
async def test_after_a_restart_policies_are_asked_again(tmp_path: Any) -> None:
    store, closed = f"sqlite:///{tmp_path}/capset.db", [False]

    @policy
    async def while_open(request: Request) -> Any:
        return deny("the till is closed") if closed[0] and request.arguments else allow()

    async with till(store=store, policies=[while_open]) as harness:
        session = await harness.session()
        await harness.decided(request_id := await harness.asked(session))

    closed[0] = True
    async with till(store=store, policies=[while_open]) as harness:
        reopened = await harness.session(id=session.id)
        error = (await harness.made(reopened, approval=request_id)).error
        assert type(error) is PermissionDenied
        assert "the till is closed" in error.message
        closed[0] = False
        assert (await harness.made(reopened, approval=request_id)).success
        assert harness.paid == [("bob", 5)]


@pytest.mark.spec("G18")
async def test_policies_are_asked_again_when_the_waiting_is_over() -> None:
    closed = [False]

    @policy
    async def while_open(request: Request) -> Any:
        return deny("the till is closed") if closed[0] and request.arguments else allow()

    async with till(policies=[while_open]) as harness:
        waits = asyncio.ensure_future((await harness.session()).try_call(harness.pay, to="bob", amount=5))
        row = await harness.waiting()
        closed[0] = True
        await harness.decided(row.id)
        assert type((await waits).error) is PermissionDenied
        assert harness.paid == []


@pytest.mark.spec("G18")
async def test_another_kernel_on_the_same_file_decides(tmp_path: Any) -> None:
    store = f"sqlite:///{tmp_path}/capset.db"
    async with till(store=store) as harness, Kernel(store=store, clock=harness.clock) as other:
        waits = asyncio.ensure_future((await harness.session()).call(harness.pay, to="bob", amount=5))
        row = await harness.waiting()
        await other.approvals.decide(row.id, YES, by=person("boss"))
        assert await waits == "bob has 5"


@pytest.mark.spec("G17")
async def test_a_request_is_decided_once() -> None:
    async with till() as harness:
        request_id = await harness.asked(await harness.session())
        decisions = await asyncio.gather(
            *(harness.decided(request_id, answer, by) for answer, by in ((YES, "boss"), (NO, "carol"), (YES, "dave"))),
            return_exceptions=True,
        )
        assert sum(isinstance(decision, ApprovalRow) for decision in decisions) == 1
        assert sum(isinstance(decision, Conflict) for decision in decisions) == 2
        with pytest.raises(NotFound):
            await harness.decided("nowhere\0")


@pytest.mark.spec("G17")
async def test_own_requests_where_the_host_allows_them_and_withdrawing_ones_own() -> None:
    async with till(kernel={"governance": Governance(own_approvals=True)}) as harness:
        session = await harness.session()
        await harness.decided(request_id := await harness.asked(session), by="ada")
        assert (await harness.made(session, approval=request_id)).success
    async with till() as harness:
        row = await harness.decided(await harness.asked(await harness.session()), NO, by="ada")
        assert row.status == "rejected"
