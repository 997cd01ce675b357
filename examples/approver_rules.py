"""Four eyes, by permission and department, and an escalation for when finance is away."""

import asyncio

from capset import Agent, Capability, Kernel, Principal, tool
from capset.errors import CapsetError
from capset.ext import Answer, ApproverRule, Governance
from capset.stores.base import ApprovalQuery
from capset_testing import FakeClock

RULES = [
    ApproverRule(
        tools=["till.*"],
        permission="payments:approve",
        attributes={"department": ["finance", "legal"]},
        escalate_after=1_800,
        escalate_to="payments:lead",
    ),
    ApproverRule(effects=["external"], approvals=2, forbid_own=True),
]
YES = Answer(approved=True)
ADA = Principal("ada", org="acme")
FAY, FRED, SAM = (
    Principal(name, org="acme", permissions=["payments:approve"], attributes={"department": department})
    for name, department in (("fay", "finance"), ("fred", "legal"), ("sam", "sales"))
)
LEAD = Principal("lead", org="acme", permissions=["payments:lead"])


@tool(effect="external", approval="ask")
async def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"{to} has {amount}"


async def decide(kernel: Kernel, by: Principal, answer: Answer = YES) -> None:
    """Decide the one open request, and print what becomes of it."""
    (row,) = (await kernel.approvals.list(ApprovalQuery("acme", "pending"))).items
    try:
        row = await kernel.approvals.decide(row.id, answer, by=by)
        print(f"  {by.id}: {row.status}")
    except CapsetError as error:
        print(f"  {by.id}: {error.message}")


async def main() -> None:
    clock = FakeClock()
    clerk = Agent("clerk", uses=[Capability("till", tools=[pay])])
    async with (
        Kernel("memory://", governance=Governance(approvers=RULES), clock=clock) as kernel,
        kernel.open(clerk, principal=ADA) as session,
    ):
        deferring = session.options(approvals="defer")

        print((await deferring.try_call(pay, "bob", 5)).error)
        for approver in (SAM, FAY, FAY, FRED):
            await decide(kernel, approver)
        print(await deferring.call(pay, "bob", 5))

        print("Fay changes the amount, so Fred approves what she has made of it, or the count begins again:")
        await deferring.try_call(pay, "bob", 500)
        await decide(kernel, FAY, Answer(approved=True, arguments={"to": "bob", "amount": 50}))
        await decide(kernel, FRED, Answer(approved=True, round=0))
        await decide(kernel, FRED, Answer(approved=True, round=1))
        print(await deferring.call(pay, "bob", 500))

        print("Half an hour later the lead may approve, too:")
        await deferring.try_call(pay, "carol", 7)
        await decide(kernel, LEAD)
        clock.advance(1_800)
        for approver in (LEAD, FAY):
            await decide(kernel, approver)
        print(await deferring.call(pay, "carol", 7))


asyncio.run(main())
