"""Dynamic uses: what an agent can do follows a flag of its session, and every set has a hash of its own."""

import asyncio

from pydantic import BaseModel

from capset import Agent, Capability, Context, Kernel, Principal, tool
from capset.stores.base import AuditQuery


class Level(BaseModel):
    expert: bool = False


@tool
async def set_expert(ctx: Context, expert: bool) -> bool:
    """Switch expert mode on or off."""
    return (await ctx.state(Level).patch(expert=expert)).expert


@tool(effect="read")
async def explain(topic: str) -> str:
    """Explain a topic in plain words."""
    return f"{topic}, in plain words"


@tool(effect="read")
async def prove(topic: str) -> str:
    """Prove a theorem about a topic."""
    return f"{topic}: q.e.d."


level = Capability("level", state={"session": Level}, tools=[set_expert])
for_users = Capability("for_users", tools=[explain])
for_experts = Capability("for_experts", tools=[prove], instructions="Leave nothing unproven.")


def by_level(ctx: Context) -> list[Capability]:
    return [for_experts if ctx.session.state.expert else for_users]


tutor = Agent("tutor", system_prompt="You teach.", uses=[level, by_level])


async def main() -> None:
    async with Kernel(store="memory://") as kernel:
        async with kernel.open(tutor, principal=Principal("ada")) as session:
            print(sorted((await session.current()).tools), await session.call(explain, "numbers"))
            await session.call(set_expert, True)
            print(sorted((await session.current()).tools), await session.call(prove, "numbers"))
            print((await session.try_call(explain, "numbers")).error)
            print(await session.system_text())
        await kernel.audit.flush()
        for record in reversed((await kernel.audit.query(AuditQuery())).items):
            print(f"{record.tool:<11} {record.outcome:<10} {record.runtime_hash[:12]}")


asyncio.run(main())
