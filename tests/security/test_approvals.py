"""No call goes through that nobody approved, whoever says otherwise; and each attempt is on record (spec 4, G16–G18).

What is tried stands in ``approvals.yaml``, by classes.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from capset import Agent, Capability, Principal, Session, tool
from capset.errors import CapsetError
from capset.ext import Answer
from capset.kernel.results import Result
from tests.helpers.kernel.governance.approving import FOR_SESSION, NO, YES, Till, make_pay, till
from tests.security.attacks import attacks, classes_of

FILE = "approvals.yaml"
ONCE = (
    "changed_arguments",
    "changed_tool",
    "another_tool",
    "expired",
    "not_approved",
    "own_request",
    "other_org",
    "other_session",
    "other_principal",
    "guessed_ids",
)
ANSWERS = {"approve": YES, "reject": NO, "session": FOR_SESSION}
OUTCOMES = {
    "approval_void": "rejected",
    "approval_expired": "rejected",
    "approval_rejected": "rejected",
    "approval_required": "pending",
    "invalid_arguments": "invalid",
}


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/capset.db"


def principal(spec: Any) -> Principal:
    """Return the principal of a case."""
    if isinstance(spec, str):
        return Principal(spec, org="acme")
    options: dict[str, Any] = {
        "org": "acme",
        **{name: value for name, value in spec.items() if name not in ("id", "for")},
    }
    base = Principal(spec["id"], **options)
    return base.acting_for(principal(spec["for"])) if "for" in spec else base


async def answered(open_till: Till, request: str, case: dict[str, Any]) -> None:
    """Answer the request as the case says; where that must be refused, it is."""
    if (decides := case.get("decides", "boss")) is None:
        return
    answer = ANSWERS[case.get("answer", "approve")]
    await expected(open_till, request, answer, principal(decides), case.get("decided"))
    if "then" in case:
        await expected(open_till, request, YES, principal("dave"), case["then"])


async def expected(open_till: Till, request: str, answer: Answer, by: Principal, code: str | None) -> None:
    if code is None:
        await open_till.decided(request, answer, by)
        return
    with pytest.raises(CapsetError) as caught:
        await open_till.decided(request, answer, by)
    assert caught.value.code == code


async def again(open_till: Till, session: Session, request: str, case: dict[str, Any]) -> Result[Any]:
    """Make the call once more, as the case has changed it."""
    approval = case.get("id", "{id}")
    ready = session.options(approvals="defer", approval=None if approval is None else approval.replace("{id}", request))
    arguments = case.get("arguments", {"to": "bob", "amount": 5})
    return await ready.try_message(ready.message(case.get("calls", "pay"), arguments))


@tool(effect="write", approval="ask")
async def refund(to: str, amount: int) -> str:
    """Pay somebody back."""
    raise AssertionError("nobody approved this")


def changed(open_till: Till, options: dict[str, Any]) -> Agent:
    """Return the agent as it is once its tool has other options."""
    pay = make_pay(open_till.paid, **options)
    assert pay.name == "pay"
    return Agent("clerk", uses=[Capability("till", tools=[pay, refund])])


@pytest.mark.spec("G16", "G17", "G18", "G19", "T6", "T7")
@pytest.mark.parametrize("case", attacks(FILE, *ONCE))
async def test_no_call_goes_through_that_was_not_approved(case: dict[str, Any], store: str) -> None:
    async with till(refund, store=store) as open_till:
        asks = principal(case.get("asks", "ada"))
        first = await open_till.session(asks)
        request = await open_till.asked(first)
        open_till.clock.advance(case.get("before", 0))
        await answered(open_till, request, case)
        open_till.clock.advance(case.get("after", 0))
        agent = changed(open_till, case["tool"]) if "tool" in case else open_till.agent
        presenter = principal(case["presents"]) if "presents" in case else asks
        row = None if case.get("elsewhere") else first.id
        async with open_till.kernel.open(agent, principal=presenter, session_id=row) as session:
            result = await again(open_till, session, request, case)
        assert result.error is not None
        assert result.error.code == case["code"]
        assert open_till.paid == []
        record = await open_till.record(id=result.record)
        assert (record.outcome, record.code) == (OUTCOMES[case["code"]], case["code"])
        assert (record.session, record.principal, record.org) == (session.id, presenter.id, presenter.org)
        if case["code"] != "invalid_arguments":
            assert record.decision == "deny"


@pytest.mark.spec("G3", "G17")
@pytest.mark.parametrize("case", attacks(FILE, "second_use"))
async def test_an_approval_is_for_one_call(case: dict[str, Any], store: str) -> None:
    async with till(store=store) as open_till:
        session = await open_till.session("ada")
        request = await open_till.asked(session)
        await open_till.decided(request)
        if case.get("at_once"):
            results = await asyncio.gather(*(again(open_till, session, request, case) for _ in range(case["uses"])))
        else:
            results: list[Result[Any]] = []
            for _ in range(case["uses"]):
                results.append(await again(open_till, session, request, case))
                open_till.clock.advance(case.get("between", 0))
        refused = [result for result in results if result.error is not None]
        assert len(results) - len(refused) == len(open_till.paid) == 1
        assert {result.error.code for result in refused if result.error} == {case["code"]}
        records = {record.id: record for record in await open_till.records()}
        assert {records[result.record].outcome for result in refused} == {"rejected"}
        assert {records[result.record].approval for result in refused} == {request}


def test_every_class_is_tried() -> None:
    assert classes_of(FILE) == {*ONCE, "second_use"}
