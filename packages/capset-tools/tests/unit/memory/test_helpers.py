from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest
from pydantic import ValidationError
from typing_extensions import TypedDict

from capset import Agent, Context, Tool, tool
from capset.errors import StateError, ToolError
from capset_testing import session_for
from capset_tools.memory import Memory, MemoryConfig, MemoryItem, memory

R = TypeVar("R")


class Seen(TypedDict):
    recent: list[str]
    older: list[str]
    two: list[str]
    everything: int
    found: list[str]
    forgotten: list[bool]


def texts(memories: list[MemoryItem]) -> list[str]:
    return [entry["text"] for entry in memories]


@asynccontextmanager
async def using(work: Tool[[], R], config: MemoryConfig) -> AsyncGenerator[R]:
    ref = memory.with_presets(tools=False).with_config(config)
    async with session_for(Agent("worker", tools=[work], uses=[ref])) as desk:
        yield await desk.session.call(work)


@pytest.mark.spec("C30")
async def test_code_uses_the_memory_without_tools_and_without_permissions() -> None:
    @tool
    async def work(ctx: Context) -> Seen:
        """Use every helper."""
        helper: Memory = ctx.use(memory)
        assert ctx.cap.memory is helper
        for number in range(250):
            await helper.remember(f"note {number}")
        recent = await helper.recent()
        older = await helper.recent(2, before=recent[-1]["id"])
        newest = recent[0]["id"]
        return Seen(
            recent=texts(recent),
            older=texts(older),
            two=texts(await helper.recent(2)),
            everything=len({entry["id"] async for entry in helper.all()}),
            found=texts(await helper.recall("note 17", limit=1)),
            forgotten=[await helper.forget(newest), await helper.forget(newest)],
        )

    async with using(work, MemoryConfig(recent=3)) as outcome:
        assert outcome == Seen(
            recent=["note 249", "note 248", "note 247"],
            older=["note 246", "note 245"],
            two=["note 249", "note 248"],
            everything=250,
            found=["note 179"],
            forgotten=[True, False],
        )


async def test_a_helper_refuses_what_cannot_be_kept() -> None:
    @tool
    async def work(ctx: Context) -> str:
        """Try what cannot be done."""
        helper = ctx.use(memory)
        with pytest.raises(ToolError, match="the text is empty"):
            await helper.remember(" \n")
        with pytest.raises(ToolError, match="up to 5 characters"):
            await helper.remember("123456")
        for limit in (0, 1001, True):
            with pytest.raises(StateError, match="between 1 and 1000"):
                await helper.recall("x", limit)
            with pytest.raises(StateError, match="between 1 and 1000"):
                await helper.recent(limit)
        return "done"

    async with using(work, MemoryConfig(max_length=5)) as done:
        assert done == "done"


@pytest.mark.parametrize(
    "config",
    [{"recent": 0}, {"recent": 101}, {"full": 1001}, {"max_length": 16_001}, {"capacity": 0}, {"colour": "red"}],
)
def test_a_config_that_cannot_work_is_refused(config: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        MemoryConfig.model_validate(config)
