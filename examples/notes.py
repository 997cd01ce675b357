"""A capability with data, helpers, tools and context: notes that live as long as their session."""

import asyncio
from collections.abc import Mapping

from pydantic import BaseModel

from capset import Agent, Capability, Context, Kernel, Preset, Principal, Resource, tool

notes = Resource("notes", list[str], scope="session", default=list)


class Desk(BaseModel):
    """What the session remembers beside the notes themselves."""

    written: int = 0


class Notes:
    """What other capabilities' code, and the tools below, do with notes."""

    def __init__(self, ctx: Context) -> None:
        self._notes = ctx.resource(notes)
        self._desk = ctx.state(Desk)

    async def add(self, text: str) -> int:
        await self._desk.increment("written")
        return len(await self._notes.push(text))

    async def all(self) -> list[str]:
        return await self._notes.get()


@tool(effect="write", permissions={"notes:write"})
async def save_note(ctx: Context, text: str) -> int:
    """Save one note and return how many there are."""
    return await ctx.use(note_taking).add(text)


async def recent(ctx: Context) -> Mapping[str, str]:
    return {"notes": "\n".join((await ctx.use(note_taking).all())[-5:]), "written": str(ctx.session.state.written)}


note_taking: Capability[Notes] = Capability(
    "note_taking",
    instructions="Keep notes short.",
    resources=[notes],
    state={"session": Desk},
    helpers=Notes,
    presets={"edit": Preset(tools=[save_note]), "show": Preset(context=[recent])},
)
scribe = Agent("scribe", system_prompt="You keep tidy notes.", uses=[note_taking])
reader = Agent("reader", system_prompt="You read notes.", uses=[note_taking.with_presets(edit=False)])


async def main() -> None:
    ada = Principal("ada", permissions={"notes:write"})
    async with Kernel(store="sqlite:///notes.db") as kernel:
        async with kernel.open(scribe, principal=ada) as session:
            await session.call(save_note, "Buy milk")
            print(await session.call(save_note, "Fix the <date> parser"), "notes")
            print(await session.system_text())
        async with kernel.open(reader, principal=ada) as session:
            print("reader's tools:", list(session.snapshot.tools))
        for line in kernel.compose(scribe).explain():
            print(line)


asyncio.run(main())
