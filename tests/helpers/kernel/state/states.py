"""State in several classes, and an agent that has it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel, Field, field_validator

from capset import Agent, Capability, Context, tool


class Counts(BaseModel):
    hits: int = Field(default=0, le=100)
    names: list[str] = []


class Mood(BaseModel):
    mood: str = "calm"

    @field_validator("mood")
    @classmethod
    def known(cls, mood: str) -> str:
        if mood == "furious":
            raise ValueError("not that")
        return mood.strip()


class Later(BaseModel):
    hits: int = Field(default=7, le=100)


def agent_of(do: Callable[[Context], Awaitable[Any]], name: str = "tester", **parts: Any) -> tuple[Agent, Any]:
    results: list[Any] = []

    @tool
    async def act(ctx: Context) -> bool:
        """Do what the test wants."""
        results.append(await do(ctx))
        return True

    async def run(session: Any) -> Any:
        await session.call(act)
        return results[-1]

    uses = parts.pop("uses", [])
    return Agent(name, uses=[*uses, Capability("kit", tools=[act], **parts)]), run
