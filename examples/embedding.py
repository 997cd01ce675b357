"""One tool that calls another: both are governed, both are on record, tied by one correlation."""

import asyncio

from capset import Agent, Capability, Context, Kernel, Principal, ToolError, tool
from capset.stores.base import AuditQuery


@tool(effect="read", permissions={"rates:read"})
async def exchange_rate(currency: str) -> float:
    """Look up how many units of a currency one euro buys."""
    rates = {"USD": 1.25, "CHF": 0.9375}
    if currency not in rates:
        raise ToolError(f"there is no rate for {currency}; available: {', '.join(rates)}")
    return rates[currency]


@tool(effect="read")
async def convert(ctx: Context, euros: float, currency: str) -> float:
    """Convert euros into another currency."""
    return euros * await ctx.call(exchange_rate, currency)


teller = Agent("teller", uses=[Capability("money", tools=[exchange_rate, convert])])


async def main() -> None:
    async with Kernel(store="memory://") as kernel:
        async with kernel.open(teller, principal=Principal("ada", permissions={"rates:read"})) as session:
            print(await session.call(convert, 100.0, "USD"))
            unknown = await session.try_call(convert, 100.0, "XAU")
            print(unknown.error)
        async with kernel.open(teller, principal=Principal("eve")) as session:
            print((await session.try_call(convert, 100.0, "USD")).error)

        await kernel.audit.flush()
        for record in reversed((await kernel.audit.query(AuditQuery())).items):
            print(f"{record.principal:<4} {record.tool:<14} {record.outcome:<10} {record.correlation}")


asyncio.run(main())
