"""A flow: a router sends a ticket to a function or to a generator, which asks another block by a tool.

A script stands in for the model, so that no key is needed: see capset_testing.
"""

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from capset import Context, Kernel, Principal, Resource
from capset.flows import Flow, Generator, Router, Sequencer, as_tool, handler
from capset_testing import Call, Say, ScriptedRunner


class Ticket(BaseModel):
    subject: str
    amount: float = 0.0


refunds = Resource("refunds", float, scope="session", default=0.0)


@handler(resources=[refunds], description="Refund a ticket's amount, and return the sum of all refunds.")
async def refund(ctx: Context, ticket: Ticket) -> float:
    return await ctx.resource(refunds).increment(by=ticket.amount)


@handler()
def thank(ticket: Ticket) -> str:
    return f"Thank you for {ticket.subject!r}."


@handler()
async def sign(ctx: Context, text: str) -> str:
    return f"{text} Refunded so far: {await ctx.resource(refunds).get():.2f}. Yours, support for {ctx.principal.id}"


refund_ticket = as_tool(refund, name="refund_ticket", permissions=["refunds:write"])
complaint = Generator(
    "complaint",
    system_prompt="You settle complaints, with a refund where it is due.",
    tools=[refund_ticket],
    context=[lambda ticket, ctx: {"ticket": {"subject": ticket.subject, "amount": f"{ticket.amount:.2f}"}}],
    input=Ticket,
)


def kind_of(ticket: Ticket) -> str:
    return "complaint" if ticket.amount else "praise"


desk = Router("desk", kind_of, routes={"praise": thank, "complaint": complaint}, input=Ticket)
support = Flow("support", Sequencer("answer", resources=[refunds]).then(desk).then(sign))

SCRIPT = [
    Call("refund_ticket", subject="broken lamp", amount=19.5),
    Say("We are sorry, and have refunded the lamp."),
]


async def main() -> None:
    ada = Principal("ada", permissions={"refunds:write"})
    runner = ScriptedRunner({"complaint": SCRIPT})
    async with Kernel("memory://", generator=runner) as kernel, kernel.open(support, principal=ada) as session:
        print(await session.run(Ticket(subject="a lovely lamp")))
        print(await session.run(Ticket(subject="broken lamp", amount=19.5)))

        step = runner.steps[0]
        print("\nwhat the model was told:", step.system_text, "with the tools", step.tools, sep="\n")
        await kernel.audit.flush()
        verification = await kernel.audit.verify()
        print(f"\n{verification.checked} records, chain holds: {verification.ok}")
    runner.assert_done()


asyncio.run(main())
