"""The three tools of a memory, created for each scope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field, StringConstraints
from typing_extensions import TypedDict

from capset import Context, Tool, tool
from capset.builtin.memory.items import Memory, MemoryItem, Remembered

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Recalled(TypedDict):
    memories: Annotated[list[MemoryItem], Field(description="What was found: the best first, then the newer.")]
    count: Annotated[int, Field(description="How many were found, up to the limit.")]


class Forgotten(TypedDict):
    id: Annotated[str, Field(description="The id that was given.")]
    forgotten: Annotated[bool, Field(description="Whether a memory went; false if there was none of this id.")]


def tools_of(memory: Callable[[Context], Memory]) -> list[Tool[..., Any]]:
    """Return the tools for the memory of a call."""

    @tool(effect="write", permissions={"memory:write"})
    async def remember(ctx: Context, text: Text) -> Remembered:
        """Keep something in memory. Use it for what will matter later: facts, preferences, decisions.

        What is there already is not kept twice.

        Args:
            text: One thing, as a sentence that can be understood by itself.
        """
        return await memory(ctx).remember(text)

    @tool(effect="read", permissions={"memory:read"})
    async def recall(ctx: Context, query: Text, limit: Annotated[int, Field(ge=1, le=50)] = 5) -> Recalled:
        """Search the memory by words. Use it before you ask for something that you may have been told.

        A memory is found by any of the words, whole or by their beginning, in whatever case.

        Args:
            query: A few words that the memory should hold.
            limit: How many memories to return at most, 1 to 50.
        """
        found = await memory(ctx).recall(query, limit)
        return Recalled(memories=found, count=len(found))

    # Like a deleted file, a forgotten memory cannot be restored (spec 4, G10).
    @tool(effect="destructive", permissions={"memory:write"})
    async def forget(ctx: Context, id: Text) -> Forgotten:
        """Delete a memory for good. Use it for what has turned out wrong, is out of date, or should not be kept.

        Args:
            id: The memory's id, as it was remembered or recalled. An unknown one is no error.
        """
        return Forgotten(id=id, forgotten=await memory(ctx).forget(id))

    return [remember, recall, forget]
