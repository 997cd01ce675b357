"""Payments that somebody has to approve: one waits, one is made again as it was, and nobody gets around it."""

import asyncio

from capset import Agent, Capability, Decision, Kernel, Principal, Request, Session, ask, deny, policy, tool
from capset.errors import CapsetError
from capset.ext import Answer
from capset.stores.base import ApprovalQuery, AuditQuery

ADA, BOSS = Principal("ada", org="acme"), Principal("boss", org="acme")


@policy(phase="call")
async def known_people(request: Request) -> Decision | bool:
    """Ask about everybody but bob, and never pay eve."""
    to = str(request.arguments["to"] if request.arguments else "")
    if to == "eve":
        return deny("eve is not paid")
    return to == "bob" or ask(f"may {request.principal.id} pay {to}?")


@tool(effect="external", policies=[known_people])
async def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"{to} has {amount}"


async def decide(kernel: Kernel, answer: Answer, by: Principal = BOSS) -> str:
    """Answer the one open request, as whoever sits at the desk would, and return its id."""
    while not (requests := (await kernel.approvals.list(ApprovalQuery("acme", "pending"))).items):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    print(f"  {by.id} reads: {requests[0].reason} {requests[0].arguments}")
    return (await kernel.approvals.decide(requests[0].id, answer, by=by)).id


async def told(session: Session, to: str, amount: int) -> None:
    """Pay somebody, and print what came of it."""
    result = await session.try_call(pay, to, amount)
    print(result.data if result.error is None else f"{result.error.status} {result.error.message}")


async def main() -> None:
    clerk = Agent("clerk", uses=[Capability("till", tools=[pay])])
    async with Kernel("memory://") as kernel, kernel.open(clerk, principal=ADA) as session:
        await told(session, "bob", 5)
        await told(session, "eve", 5)

        waiting = asyncio.create_task(told(session, "carol", 500))
        await decide(kernel, Answer(approved=True, arguments={"to": "carol", "amount": 50}))
        await waiting

        deferring = session.options(approvals="defer")
        for _ in range(3):
            await told(deferring, "dave", 7)
        try:
            await decide(kernel, Answer(approved=True), by=ADA)
        except CapsetError as error:
            print(f"  {error.message}")
        await decide(kernel, Answer(approved=True))
        await told(deferring, "dave", 7000)
        await told(deferring, "dave", 7)
        await told(deferring, "dave", 7)

        await kernel.audit.flush()
        for record in reversed((await kernel.audit.query(AuditQuery())).items):
            print(record.outcome, record.arguments, record.reason)


asyncio.run(main())
