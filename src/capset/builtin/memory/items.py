"""Memory items, and the helper that stores, finds and deletes them (spec 1, C30)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from capset import ToolError
from capset.ext import Document, DocumentsHandle

MOST: Final = 1_000
"""Maximum number of memories in one scope: as many as are read at once."""
_PAGE: Final = 100


class MemoryConfig(BaseModel):
    """What can be configured of a memory, by ``memory.with_config(MemoryConfig(…))``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    recent: int = Field(default=5, ge=1, le=100, description="How many memories the preset recent_context shows.")
    full: int = Field(default=200, ge=1, le=MOST, description="The most memories that the preset full_context shows.")
    max_length: int = Field(default=2_000, ge=1, le=16_000, description="How many characters one memory may have.")
    capacity: int = Field(default=MOST, ge=1, le=MOST, description="How many memories can be kept.")


class MemoryItem(TypedDict):
    id: Annotated[str, Field(description="The memory's id, by which it can be forgotten.")]
    text: Annotated[str, Field(description="What was remembered, word for word.")]
    created_at: Annotated[str, Field(description="When it was remembered, ISO 8601 UTC.")]


class Remembered(MemoryItem):
    created: Annotated[bool, Field(description="Whether it is new; false if it was remembered before.")]


class Memory:
    """The memories of one scope: ``ctx.use(memory)``. It is for code, not for models: no permission is checked.

    Getting it raises ``StateError`` if the scope does not exist, as the user's does not for an agent.
    """

    def __init__(self, texts: DocumentsHandle, config: MemoryConfig) -> None:
        self._texts = texts
        self._config = config

    async def remember(self, text: str) -> Remembered:
        """Store a text, without surrounding white space; return it, or the equal one that exists already.

        Comparison ignores case and white space. Two concurrent calls may both store the same text. Raises ``ToolError``
        for a text that is empty (400) or too long (400), and if there is no more room (409).
        """
        kept = text.strip()
        if not kept:
            raise ToolError("there is nothing to remember: the text is empty", code="memory_empty")
        if len(kept) > self._config.max_length:
            raise ToolError(
                f"the text is too long: a memory has up to {self._config.max_length} characters, this one {len(kept)}; "
                "shorten it, or split it into several",
                code="memory_too_long",
            )
        there = await self.recent(MOST)
        for one in there:
            if _folded(one["text"]) == _folded(kept):
                return Remembered(**one, created=False)
        if len(there) >= self._config.capacity:
            raise ToolError(
                f"the memory is full: it keeps {self._config.capacity} texts; forget one first",
                code="memory_full",
                status=409,
            )
        return Remembered(**_item(await self._texts.add(kept)), created=True)

    async def recall(self, query: str, limit: int = 5) -> list[MemoryItem]:
        """Return the memories with a word that equals or begins with a word of the query: best first, then newer.

        ``limit`` is between 1 and 1,000; any other value raises ``StateError``.
        """
        return [_item(one) for one in await self._texts.search(query, limit)]

    async def recent(self, limit: int | None = None, *, before: str | None = None) -> list[MemoryItem]:
        """Return the newest memories first: ``limit`` of them (1–1,000), by default as configured.

        ``before`` is the id of a memory; only older ones are returned.
        """
        found = await self._texts.recent(self._config.recent if limit is None else limit, before=before)
        return [_item(one) for one in found]

    async def all(self) -> AsyncIterator[MemoryItem]:
        """Yield all memories, newest first, read page by page."""
        before: str | None = None
        while page := await self.recent(_PAGE, before=before):
            for one in page:
                yield one
            before = page[-1]["id"]

    async def forget(self, id: str) -> bool:
        """Delete a memory for good, and return whether there was one."""
        return await self._texts.delete(id)


def _item(document: Document) -> MemoryItem:
    return MemoryItem(id=document.id, text=document.text, created_at=document.created_at)


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()
