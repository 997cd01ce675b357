"""Who may approve what, by the rules under which a request was opened (spec 4, G45–G47)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capset import Agent, Capability, Kernel, Principal, tool
from capset.definitions.governance.approvers import ApproverRule
from capset.errors import ApprovalRequired, ApprovalVoid, PermissionDenied
from capset.ext import Answer, ApprovalRow, Governance
from capset.flows import Generator, Sequencer
from capset_testing import Call, Say, ScriptedRunner
from tests.helpers.kernel.governance.approving import FOR_SESSION, NO, YES, Till, person, till
from tests.helpers.kernel.support import first_request, opened


@tool(effect="write", approval="ask")
async def pay(to: str) -> str:
    """Pay somebody."""
    return to


FINANCE = ApproverRule(tools=["pay"], permission="payments:approve")


def governed(*rules: ApproverRule, **more: Any) -> dict[str, Any]:
    return {"governance": Governance(approvers=rules, **more)}


def boss(*permissions: str, id: str = "boss", **attributes: Any) -> Principal:
    return Principal(id, org="acme", permissions=permissions, attributes=attributes)


async def refused(open_till: Till, request: str, by: Principal) -> str:
    """Return why a decision is refused; ``refusal`` says the same before."""
    approvals = open_till.kernel.approvals
    row = await approvals.get(request, org="acme")
    assert approvals.refusal(row, by)
    with pytest.raises(PermissionDenied) as error:
        await open_till.decided(request, by=by)
    assert error.value.message == f"Permission denied: {approvals.refusal(row, by)}."
    assert (await approvals.get(request, org="acme")) == row
    return error.value.message


async def new_request(open_till: Till, principal: str | Principal = "ada") -> str:
    return await open_till.asked(await open_till.session(principal))


@pytest.mark.spec("G45", "G46")
async def test_an_approver_holds_the_permission_of_the_rule() -> None:
    async with till(kernel=governed(FINANCE)) as open_till:
        session = await open_till.session()
        request = await open_till.asked(session)
        many = boss(*(f"a:b{number:02}" for number in range(12)))
        for by, ending in (
            (boss("bills:read"), "an approver with the permission payments:approve; you have bills:read."),
            (person("eve"), "you have no permissions."),
            (many, "a:b08, a:b09 and 2 more."),
        ):
            assert (await refused(open_till, request, by)).endswith(ending)
        assert open_till.paid == []
        row = await open_till.decided(request, by=boss("payments:approve"))
        assert (row.status, row.decided_by) == ("approved", "user:boss")
        assert (await open_till.made(session)).data == "bob has 5"


@pytest.mark.spec("G46")
async def test_everybody_may_reject_and_default_permissions_count() -> None:
    async with till(kernel=governed(FINANCE, default_permissions=["bills:read"])) as open_till:
        assert (await open_till.decided(await new_request(open_till), NO)).status == "rejected"
    rule = ApproverRule(permission="bills:read", attributes={"level": 3})
    async with till(kernel=governed(rule)) as open_till:
        request = await new_request(open_till)
        await refused(open_till, request, boss("bills:read", level=3.0))
        await open_till.decided(request, by=boss("bills:read", level=3))


@pytest.mark.spec("G46")
async def test_all_rules_that_are_for_a_request_hold_at_once() -> None:
    rules = (
        FINANCE,
        ApproverRule(effects=["write"], attributes={"department": ["finance", "legal"]}),
        ApproverRule(effects=["read"], permission="never:asked"),
        ApproverRule(agents=["other"], permission="never:asked"),
        ApproverRule(tools=["till.p*"], risks=["low"], permission="payments:till"),
        ApproverRule(risks=["high"], permission="never:asked"),
    )
    async with till(kernel=governed(*rules)) as open_till:
        request = await new_request(open_till)
        permissions = ("payments:approve", "payments:till")
        for wrong, problem in (
            (boss(*permissions), "you have no department"),
            (boss(*permissions, department="sales"), "finance or legal; you have the department sales"),
            (boss(permissions[0], department="legal"), "payments:till"),
            (boss(permissions[1], department="legal"), "payments:approve"),
        ):
            assert problem in await refused(open_till, request, wrong)
        assert (await open_till.decided(request, by=boss(*permissions, department="legal"))).status == "approved"


@pytest.mark.spec("G45")
async def test_a_rule_is_for_risks_of_every_capability_that_brings_the_tool() -> None:
    low, high = Capability("low", tools=[pay]), Capability("high", tools=[pay], risk="high")
    agent = Agent("clerk", tools=[replace(pay, name="pay_other")], uses=[low, high])
    rules = [ApproverRule(risks=["high"], permission="a:high"), ApproverRule(tools=["high.*"], permission="a:named")]
    async with opened(agent, principal=person("ada"), governance=Governance(approvers=rules)) as desk:
        session, needs = desk.session.options(approvals="defer"), list[str]()
        for name in ("low.pay", "pay_other"):
            error = (await session.try_message(session.message(name, {"to": "bob"}))).error
            assert isinstance(error, ApprovalRequired)
            needs.append(error.message.partition("It needs ")[2])
        assert needs[0].startswith("1 approver with the permission a:high; the permission a:named.")
        assert needs[1] == ""


@pytest.mark.spec("G46")
async def test_an_approver_is_like_the_requester_in_what_a_rule_names() -> None:
    rule = ApproverRule(same_attributes=["department"])
    ada = Principal("ada", org="acme", attributes={"department": "sales"})
    async with till(kernel=governed(rule)) as open_till:
        request = await new_request(open_till, ada)
        message = await refused(open_till, request, boss(department="finance"))
        assert "the department sales, as the requester's; you have the department finance" in message
        assert "you have no department" in await refused(open_till, request, boss())
        await open_till.decided(request, by=boss(department="sales"))
        unknown = await new_request(open_till, "eve")
        assert "the requester's department, which is not known" in await refused(
            open_till, unknown, boss(department="sales")
        )


@pytest.mark.spec("G9", "G46")
async def test_all_whom_a_delegate_acts_for_have_to_fit() -> None:
    rule = ApproverRule(permission="payments:approve", attributes={"department": "finance"})
    fred = boss("payments:approve", id="fred", department="finance")
    bot = Principal("bot", kind="agent", org="acme", permissions={"payments:approve"})
    clever = Principal("bot", kind="agent", org="acme", permissions=bot.permissions, attributes=fred.attributes)
    async with till(kernel=governed(rule)) as open_till:
        request = await new_request(open_till)
        for wrong in (bot.acting_for(fred), clever.acting_for(boss("payments:approve", id="sam", department="sales"))):
            assert "the department finance" in await refused(open_till, request, wrong)
        await refused(open_till, request, clever.acting_for(boss(id="sam", department="finance")))
        await open_till.decided(request, by=clever.acting_for(fred))
    same = ApproverRule(same_attributes=["department"])
    async with till(kernel=governed(same)) as open_till:
        two = clever.acting_for(boss(id="sam", department="sales"))
        message = await refused(open_till, await new_request(open_till, two), boss(department="sales"))
        assert "which is not known" in message, "no approver can be like two requesters that differ"


@pytest.mark.spec("G17", "G46")
async def test_a_rule_forbids_ones_own_where_the_governance_allows_it_and_never_the_other_way() -> None:
    ada = boss("payments:approve", id="ada")
    async with till(kernel=governed(FINANCE, own_approvals=True)) as open_till:
        await open_till.decided(await new_request(open_till, ada), by=ada)
    for rules, allowed in (((FINANCE, ApproverRule(forbid_own=True)), True), ((FINANCE,), False)):
        async with till(kernel=governed(*rules, own_approvals=allowed)) as open_till:
            message = await refused(open_till, await new_request(open_till, ada), ada)
            assert "approved by a principal other than the one who made it" in message


class Host:
    async def decide(self, request: ApprovalRow) -> Answer | None:
        return YES


@pytest.mark.spec("G46")
async def test_the_hosts_approver_has_no_rights_that_a_rule_could_see() -> None:
    async with till(kernel=governed(FINANCE, approver=Host())) as open_till:
        waits = asyncio.ensure_future((await open_till.session()).call(open_till.pay, to="bob", amount=5))
        row = await open_till.waiting()
        assert (row.status, row.approvals) == ("pending", None)
        await open_till.decided(row.id, by=boss("payments:approve"))
        assert await waits == "bob has 5"
    async with till(kernel=governed(ApproverRule(forbid_own=True), approver=Host())) as open_till:
        assert await (await open_till.session()).call(open_till.pay, to="bob", amount=5) == "bob has 5"


@pytest.mark.spec("G47")
async def test_a_request_is_decided_by_the_rules_under_which_it_was_opened(tmp_path: Path) -> None:
    """The kernel that decides has none, as the command line has none."""
    store = f"sqlite:///{tmp_path}/capset.db"
    async with till(store=store, kernel=governed(FINANCE)) as open_till:
        request = await new_request(open_till)
        async with Kernel(store, clock=open_till.clock) as other:
            with pytest.raises(PermissionDenied, match="needs an approver with the permission payments:approve"):
                await other.approvals.decide(request, YES, by=person("eve"))
            await other.approvals.decide(request, YES, by=boss("payments:approve"))


@pytest.mark.spec("G47")
async def test_what_was_approved_under_other_rules_does_not_count_for_a_call_under_these(tmp_path: Path) -> None:
    """A server with the rules of before, and one with new ones: a request of either is for calls by its own rules."""
    ada, url = person("ada"), f"sqlite:///{tmp_path}/capset.db"
    async with till(store=url) as before:
        session = await before.session(ada)
        old = await before.asked(session)
        await before.decided(old, FOR_SESSION)
    async with till(store=url, kernel=governed(FINANCE)) as after:
        session = await after.session(ada, id=session.id)
        new = await after.asked(session)
        assert new != old
        assert isinstance((await after.made(session, approval=old)).error, ApprovalVoid)
        await after.decided(new, FOR_SESSION, by=boss("payments:approve"))
        assert (await after.made(session)).data == "bob has 5"
    async with till(store=url) as before:
        session = await before.session(ada, id=session.id)
        assert (await before.made(session)).data == "bob has 5", "by the approval of its own rules"
        error = (await before.made(session, approval=new)).error
        assert isinstance(error, ApprovalVoid)
        assert "the rules for its approvers have changed" in error.message


@pytest.mark.spec("G45")
async def test_a_rule_for_an_agent_is_for_the_blocks_inside_it() -> None:
    clerk = Sequencer("clerk").then(Generator("inner", tools=[pay]))
    for agents, is_for in ((["clerk"], True), (["inner"], True), (["other"], False)):
        governance = Governance(approvers=[ApproverRule(agents=agents, permission="a:b")])
        runner = ScriptedRunner({"inner": [Call("pay", to="bob"), Say("paid")]})
        async with (
            Kernel("memory://", governance=governance, generator=runner) as kernel,
            kernel.open(clerk, principal=person("ada")) as session,
        ):
            running = asyncio.ensure_future(session.run("pay bob"))
            request = await first_request(kernel)
            assert (kernel.approvals.refusal(request, person("eve")) is None) is not is_for
            await kernel.approvals.decide(request.id, YES, by=boss("a:b"))
            assert await running == "paid"
