"""Approvals inside the kernel: a call waits or is made again, and what it waits for is decided (spec 4, G16–G18)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Annotated, Any
from unittest.mock import AsyncMock

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from capset import Principal, Request, allow, ask, deny, policy, tool
from capset.definitions.calls.messages import Json
from capset.errors import (
    ApprovalRejected,
    ApprovalRequired,
    ApprovalVoid,
    DefinitionError,
    InvalidArguments,
    LimitExceeded,
    PermissionDenied,
    StoreError,
)
from capset.evaluation.code import code_of
from capset.ext import Answer, ApprovalRow
from capset.kernel.results import Result
from tests.helpers.kernel.governance.approving import FOR_SESSION, NO, Till, till
from tests.helpers.kernel.support import read


@pytest.fixture
async def harness() -> AsyncGenerator[Till]:
    async with till() as opened:
        yield opened


async def waiting(harness: Till) -> tuple[asyncio.Future[Result[Any]], ApprovalRow]:
    """Let a payment wait for its approval; return what will come of it, and the request."""
    session = await harness.session()
    payment = asyncio.ensure_future(session.try_call(harness.pay, to="bob", amount=5))
    return payment, await harness.waiting()


@pytest.mark.spec("G16", "G18")
async def test_a_call_waits_and_goes_on_when_somebody_else_approves(store: str) -> None:
    async with till(store=store) as harness:
        payment, row = await waiting(harness)
        assert harness.paid == []
        decided = await harness.decided(row.id)
        assert (decided.status, decided.decided_by) == ("approved", "user:boss")
        assert (await payment).data == "bob has 5"
        record = await harness.record()
        assert (record.outcome, record.decision, record.approval) == ("succeeded", "allow", row.id)
        assert record.reason == "approved by user:boss"
        assert (row.call, row.session, row.digest) == (record.id, record.session, record.arguments_digest)
        assert (row.tool, row.tool_hash, row.runtime_hash) == ("pay", record.tool_hash, record.runtime_hash)
        assert (row.principal, row.org) == ("user:ada", "acme")
        assert json.loads(row.arguments) == {"to": "bob", "amount": 5}
        assert "every call of 'pay' has to be approved" in row.reason
        assert [request.status for request in await harness.requests()] == ["used"]


@pytest.mark.spec("G18")
async def test_whoever_reads_the_messages_is_told_what_is_waited_for(harness: Till) -> None:
    session = await harness.session()
    reading = asyncio.ensure_future(read(session.invoke(session.message("pay", {"to": "bob", "amount": 5}))))
    row = await harness.waiting()
    await harness.decided(row.id)
    event, reply = await reading
    assert (event.kind, event.type, reply.data) == ("event", "approval.requested", "bob has 5")
    assert event.data == {
        "id": row.id,
        "tool": "pay",
        "arguments": {"to": "bob", "amount": 5},
        "reason": row.reason,
        "principal": "user:ada",
        "code_hash": code_of(harness.pay).hash,
        "code": {"kind": "module", "name": "approving.py", "version": None},
        "expires_at": row.expires_at,
        "needs": None,
        "connect": None,
        "masked": False,
        "files": [],
    }


@pytest.mark.spec("G17")
async def test_a_rejection_says_who_and_why(harness: Till) -> None:
    payment, row = await waiting(harness)
    await harness.decided(row.id, NO)
    error = (await payment).error
    assert isinstance(error, ApprovalRejected)
    assert error.message == "Permission denied: the request was rejected by user:boss: too much"
    record = await harness.record()
    assert (record.outcome, record.decision, record.reason) == ("rejected", "deny", "rejected by user:boss: too much")
    assert harness.paid == []


@pytest.mark.spec("G18")
async def test_a_call_that_defers_is_made_again_with_its_approval(store: str) -> None:
    async with till(store=store) as harness:
        session = await harness.session()
        request_id = await harness.asked(session)
        record = await harness.record()
        assert (record.outcome, record.code, record.approval) == ("pending", "approval_required", request_id)
        early = (await harness.made(session, approval=request_id)).error
        assert isinstance(early, ApprovalRequired)
        assert early.approval == request_id
        await harness.decided(request_id)
        assert (await harness.made(session, approval=request_id)).data == "bob has 5"
        assert isinstance((await harness.made(session, approval=request_id)).error, ApprovalVoid)
        assert harness.paid == [("bob", 5)]
        assert [entry.outcome for entry in await harness.records()] == ["pending", "pending", "succeeded", "rejected"]


@pytest.mark.spec("G17", "F1")
@pytest.mark.parametrize(
    ("amount", "recorded"), [(4, 4), (2**60, {"$int": str(2**60)}), (-(2**60), {"$int": str(-(2**60))})]
)
async def test_other_arguments_take_the_place_of_those_asked_for_as_they_were_given(
    harness: Till, amount: int, recorded: Any
) -> None:
    payment, row = await waiting(harness)
    await harness.decided(row.id, Answer(approved=True, arguments={"to": "bob", "amount": amount}))
    assert (await payment).data == f"bob has {amount}"
    record = await harness.record()
    assert json.loads(record.arguments) == {"to": "bob", "amount": recorded}
    assert record.arguments_digest != row.digest
    assert record.approval == row.id


@pytest.mark.spec("G17", "F1")
async def test_a_call_that_waits_has_the_arguments_that_it_was_made_with(harness: Till) -> None:
    session = await harness.session()
    suspended = await session.suspended(await harness.asked(session, amount=2**60))
    assert suspended.arguments is not None
    assert json.loads(suspended.arguments.text) == {"to": "bob", "amount": 2**60}


@pytest.mark.spec("G17")
async def test_other_arguments_that_do_not_fit_are_refused_at_once_and_the_request_stays_open(store: str) -> None:
    wrongs: list[Any] = [{"to": "bob"}, {"to": "bob", "amount": "4"}, {"to": "bob", "amount": 4, "tip": 1}]
    async with till(store=store) as harness:
        payment, row = await waiting(harness)
        for wrong in wrongs:
            with pytest.raises(InvalidArguments, match="Invalid arguments for 'pay'") as refused:
                await harness.decided(row.id, Answer(approved=True, arguments=wrong))
            assert refused.value.status == 422
            assert (await harness.waiting()).id == row.id
        await harness.decided(row.id, Answer(approved=True, arguments={"to": "bob", "amount": 4}))
        assert (await payment).data == "bob has 4"


class Item(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)
    article_name: str
    how_many: int = 1


@pytest.mark.spec("G17")
@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize(
    "changed", [{"article_name": "milk", "how_many": 2}, {"articleName": "milk", "howMany": 2}], ids=["shown", "sent"]
)
async def test_other_arguments_may_name_fields_as_those_that_are_shown(changed: Any, *, waits: bool) -> None:
    """An approver sees the names of fields, and the tool's schema has their aliases."""
    bought: list[tuple[str, int]] = []

    @tool(effect="write", approval="ask")
    async def buy(items: list[Item | None]) -> None:
        """Buy something."""
        bought.extend((article.article_name, article.how_many) for article in items if article)

    async with till(buy) as harness:
        session = (await harness.session()).options(approvals="wait" if waits else "defer")
        message = session.message("buy", Json(b'{"items": [{"articleName": "tea", "howMany": 5}]}'))
        asking = asyncio.ensure_future(session.try_message(message))
        row = await harness.waiting()
        assert json.loads(row.arguments) == {"items": [{"article_name": "tea", "how_many": 5}]}
        for wrong in ({"article_name": "milk", "tip": 1}, {"articleName": 1}, 4):
            with pytest.raises(InvalidArguments, match="Invalid arguments for 'buy'"):
                await harness.decided(row.id, Answer(approved=True, arguments={"items": [wrong]}))
        await harness.decided(row.id, Answer(approved=True, arguments={"items": [changed, changed]}))
        result = await asking if waits else await session.try_message(message)
        assert result.error is None, result.error
        assert bought == [("milk", 2)] * 2


def _even(amount: int) -> int:
    if amount % 2:
        raise ValueError("must be even")
    return amount


@pytest.mark.spec("G17")
async def test_other_arguments_are_held_to_bounds_that_no_float_has_and_to_the_tools_own_at_the_call() -> None:
    def make(paid: list[tuple[str, int]], **_: Any) -> Any:
        @tool(effect="write", approval="ask")
        async def pay(to: str, amount: Annotated[int, Field(le=2**60), AfterValidator(_even)]) -> str:
            """Pay somebody."""
            paid.append((to, amount))
            return to

        return pay

    async with till(make=make) as harness:
        session = await harness.session()

        async def decided_by(amount: int) -> None:
            await harness.decided(request, Answer(approved=True, arguments={"to": "bob", "amount": amount}))

        request = await harness.asked(session, amount=4)
        with pytest.raises(InvalidArguments, match="Invalid arguments for 'pay'"):
            await decided_by(2**60 + 1)
        await decided_by(3)
        assert isinstance((await harness.made(session, amount=4)).error, InvalidArguments)
        assert ((await harness.record()).outcome, harness.paid) == ("invalid", [])
        request = await harness.asked(session, amount=6)
        await decided_by(2**60)
        assert (await harness.made(session, amount=6)).success


@pytest.mark.parametrize(
    "wrong",
    [
        {"approved": False, "arguments": {}},
        {"approved": False, "scope": "session"},
        {"approved": True, "scope": "session", "arguments": {}},
    ],
)
def test_an_answer_says_one_thing(wrong: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        Answer(**wrong)


@policy
async def below_ten(request: Request) -> Any:
    """Deny large payments, and ask for small ones."""
    if request.arguments is None:
        return allow()
    return ask("somebody looks at it") if request.arguments["amount"] < 10 else deny("that is too much")


@pytest.mark.spec("G16", "G17")
async def test_policies_are_asked_about_other_arguments_too() -> None:
    async with till(approval="auto", policies=[below_ten]) as harness:
        payment, row = await waiting(harness)
        assert (row.reason, json.loads(row.policies)) == ("somebody looks at it", ["below_ten"])
        await harness.decided(row.id, Answer(approved=True, arguments={"to": "bob", "amount": 50}))
        error = (await payment).error
        assert isinstance(error, PermissionDenied)
        assert "that is too much" in error.message
        record = await harness.record()
        assert (record.outcome, json.loads(record.policies), record.approval) == ("denied", ["below_ten"], row.id)
        assert harness.paid == []


@pytest.mark.spec("G16", "G17")
async def test_a_tools_own_rule_may_ask_and_deny_and_is_asked_about_other_arguments_too() -> None:
    def rule(request: Request) -> Any:
        amount = request.arguments["amount"] if request.arguments else 0
        return deny("never so much") if amount > 100 else amount > 10

    async with till(approval=rule) as harness:
        session = await harness.session()
        assert await session.call(harness.pay, to="bob", amount=5) == "bob has 5"
        assert type((await harness.made(session, amount=500)).error) is PermissionDenied
        request_id = await harness.asked(session, amount=50)
        await harness.decided(request_id, Answer(approved=True, arguments={"to": "bob", "amount": 500}))
        repeated = (await harness.made(session, amount=50, approval=request_id)).error
        assert type(repeated) is PermissionDenied
        assert "never so much" in repeated.message
        assert harness.paid == [("bob", 5)]


@pytest.mark.spec("G17")
async def test_an_approval_for_the_session_covers_the_same_arguments_of_the_same_session_alone(store: str) -> None:
    async with till(store=store) as harness:
        session = await harness.session()
        row = await harness.decided(await harness.asked(session), FOR_SESSION)
        for _ in range(3):
            assert (await harness.made(session)).success
        assert {record.approval for record in await harness.records(outcome="succeeded")} == {row.id}
        for other in (
            await harness.made(session, amount=6),
            await harness.made(await harness.session()),
            await harness.made(await harness.session("carol")),
        ):
            assert isinstance(other.error, ApprovalRequired)
        harness.clock.advance(3_600)
        assert isinstance((await harness.made(session)).error, ApprovalRequired)
        assert harness.paid == [("bob", 5)] * 3


@pytest.mark.spec("G3")
async def test_a_429_burns_no_approval(store: str) -> None:
    async with till(store=store, limits="1/1m") as harness:
        session = await harness.session()
        first, second = await harness.asked(session), await harness.asked(session, amount=6)
        await harness.decided(first)
        await harness.decided(second)
        assert (await harness.made(session, approval=first)).success
        assert isinstance((await harness.made(session, amount=6, approval=second)).error, LimitExceeded)
        assert (await harness.record()).outcome == "limited"
        harness.clock.advance(60)
        assert (await harness.made(session, amount=6, approval=second)).success
        assert harness.paid == [("bob", 5), ("bob", 6)]


@pytest.mark.spec("G3", "G17")
async def test_a_429_gives_back_nothing_that_another_call_has_used() -> None:
    async with till(limits="1/1h") as harness:
        session = await harness.session()
        await harness.decided(request_id := await harness.asked(session))
        both = await asyncio.gather(*(harness.made(session, approval=request_id) for _ in range(2)))
        assert sorted(result.success for result in both) == [False, True]
        assert [row.status for row in await harness.requests()] == ["used"]
        assert harness.paid == [("bob", 5)]


@pytest.mark.spec("G3", "G23")
async def test_an_intent_that_cannot_be_kept_gives_the_approval_back(
    harness: Till, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await harness.session()
    await harness.decided(request_id := await harness.asked(session))
    with monkeypatch.context() as broken:
        broken.setattr(harness.kernel.audit, "commit", AsyncMock(side_effect=StoreError("the disk is full")))
        assert isinstance((await harness.made(session, approval=request_id)).error, StoreError)
    assert [row.status for row in await harness.requests()] == ["approved"]
    assert harness.paid == []
    assert (await harness.made(session, approval=request_id)).success


@pytest.mark.spec("G17")
async def test_an_anonymous_principal_rejects_and_does_not_approve(harness: Till) -> None:
    payment, row = await waiting(harness)
    stranger = Principal("anonymous", kind="anonymous", org="acme")
    with pytest.raises(PermissionDenied, match="an approval names its approver"):
        await harness.decided(row.id, by=stranger)
    await harness.decided(row.id, NO, by=stranger)
    assert isinstance((await payment).error, ApprovalRejected)
    assert harness.paid == []
