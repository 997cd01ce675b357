"""A capability that is made for a parameter: the same store for a session or for a user, side by side."""

import asyncio
from typing import Literal

from capset import Agent, Capability, Context, Kernel, Principal, Resource, parameterised, tool


class Storage:
    """Save and load by key, in one scope."""

    def __init__(self, ctx: Context, store: Resource[dict[str, str]]) -> None:
        self._store = ctx.resource(store)

    async def save(self, key: str, value: str) -> None:
        await self._store.patch({key: value})

    async def load(self, key: str) -> str | None:
        return (await self._store.get()).get(key)


@parameterised
def storage(scope: Literal["session", "user"]) -> Capability[Storage]:
    store = Resource("store", dict[str, str], scope=scope, default=dict)
    return Capability(f"storage:{scope}", resources=[store], helpers=lambda ctx: Storage(ctx, store))


@tool
async def remember(ctx: Context, colour: str) -> None:
    """Remember a colour for this session, and for this user."""
    await ctx.use(storage("session")).save("colour", colour)
    await ctx.cap["storage:user"].save("colour", colour)


@tool(effect="read")
async def recall(ctx: Context) -> dict[str, str | None]:
    """Recall the colour, as both scopes have it."""
    return {scope: await ctx.cap[f"storage:{scope}"].load("colour") for scope in ("session", "user")}


painter = Agent("painter", uses=[storage("session"), storage("user")], tools=[remember, recall])


async def main() -> None:
    async with Kernel(store="memory://") as kernel:
        async with kernel.open(painter, principal=Principal("ada")) as session:
            await session.call(remember, "green")
            print("this session: ", await session.call(recall))
        async with kernel.open(painter, principal=Principal("ada")) as session:
            print("another:      ", await session.call(recall))
        async with kernel.open(painter, principal=Principal("eve")) as session:
            print("another user: ", await session.call(recall))


asyncio.run(main())
