"""A capability of the demo's own: a tool that reports its progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Final

from pydantic import BaseModel

from capset import Capability, Context, Progress, Reply, tool

STEPS: Final = 4
"""How often the tool reports its progress."""


class Survey(BaseModel):
    """What was counted: files, their words, and the most frequent of those with more than four letters."""

    files: int
    words: int
    frequent: list[str]


@tool(effect="read", permissions={"session_files:read"})
async def count_words(ctx: Context, path: str = "/") -> AsyncIterator[Progress | Reply[Survey]]:
    """Count the words of every text file below a directory."""
    files = [one for one in await ctx.files.list(path, recursive=True) if not one.is_directory]
    counted: Counter[str] = Counter()
    for position, one in enumerate(files):
        if position % (len(files) // STEPS + 1) == 0:
            yield Progress(position / len(files), f"{position} of {len(files)} files")
        _, content = await ctx.files.read(one.path)
        counted.update(content.decode(errors="replace").lower().split())
    frequent = [word for word, _ in counted.most_common() if word.isalpha() and len(word) > 4][:5]
    yield Reply(Survey(files=len(files), words=counted.total(), frequent=frequent))


survey: Final = Capability("survey", description="Counts words.", tools=[count_words])
