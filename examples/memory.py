"""An agent that searches a small library, remembers what it found, and is shown that before its next step."""

import asyncio
from collections.abc import Mapping

from capset import Agent, Capability, Context, Kernel, Preset, Principal, tool
from capset_tools.memory import MemoryConfig, memory, memory_user

LIBRARY: Mapping[str, str] = {
    "Green tea": "Green tea is brewed at about 80 °C; hotter water makes it bitter.",
    "Black tea": "Black tea wants boiling water and four minutes.",
    "Coffee": "Coffee is ground just before it is brewed.",
}


class Search:
    """The library, for tools and for the code of other capabilities: ``ctx.use(search)``."""

    def __init__(self, ctx: Context) -> None:
        self._memory = ctx.use(memory)  # typed: a Memory

    def search(self, words: str) -> list[str]:
        """Return every sentence that holds one of the words."""
        terms = words.casefold().split()
        return [text for text in LIBRARY.values() if any(word in text.casefold() for word in terms)]

    async def search_and_remember(self, words: str) -> list[str]:
        """Search, keep what was found, and return what is known of it by now."""
        for text in self.search(words):
            await self._memory.remember(text)
        return [entry["text"] for entry in await self._memory.recall(words)]


@tool(effect="write", permissions={"memory:write"})
async def look_up(ctx: Context, words: str) -> list[str]:
    """Search the library, and remember what is found. Use it for what you do not know.

    Args:
        words: What to look for.
    """
    return await ctx.use(search).search_and_remember(words)


search = Capability(
    "search",
    description="Searches a small library about hot drinks, and remembers what it found.",
    uses=[memory],  # what it needs comes with it, once, however many ask for it
    presets={"tools": Preset(tools=[look_up], instructions="Look things up with `look_up` before you guess.")},
    helpers=Search,
)

# The session's memory is written by the search only; the model may write the user's memory itself.
barista = Agent(
    "barista",
    system_prompt="You make hot drinks.",
    uses=[
        search,
        memory.with_presets(tools=False).with_config(MemoryConfig(recent=2)),
        memory_user,
    ],
)


async def main() -> None:
    ada = Principal("ada", permissions=["memory:read", "memory:write"])
    async with Kernel(store="memory://") as kernel:
        async with kernel.open(barista, principal=ada) as session:
            print("tools:", ", ".join(session.snapshot.tools))
            print("found:", await session.call(look_up, words="tea"))
            remember = session.snapshot.tools["remember"].tool
            await session.call(remember, text="Ada never drinks coffee after noon.")
            print(await session.system_text())

        # Another session of the same user: what is the user's is there, what was the session's is not.
        async with kernel.open(barista, principal=ada) as session:
            text = await session.system_text()
            print("after noon:", "Ada never drinks coffee" in text, "| green tea:", "80 °C" in text)


asyncio.run(main())
