"""A capability with everything that can be chosen, and an agent whose tools come and go."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import BaseModel, Field

from capset import Agent, Capability, Context, Preset, tool
from capset.definitions.references import AnyRef


class Limits(BaseModel):
    count: int = Field(default=5, ge=1)


@tool(effect="read")
async def look(ctx: Context) -> int:
    """Look how many there may be."""
    return ctx.config(shelf).count


@tool(effect="write")
async def put(book: str) -> str:
    """Put a book."""
    return book


shelf = Capability(
    "shelf",
    title="A shelf",
    aliases=["bookcase"],
    risk="medium",
    version="2",
    instructions="Keep it tidy.",
    tools=[look],
    presets={"writing": Preset(tools=[put], instructions="You may put."), "quiet": Preset(context=["Hush."])},
    default=["writing"],
    config=Limits,
)
desk = Capability("desk", uses=[shelf.with_names(prefix="d_")])


@tool(effect="read")
async def peek() -> dict[str, str]:
    """Peek."""
    return {"seen": "gold"}


@tool(effect="write")
async def take() -> str:
    """Take."""
    return "taken"


vault = Capability("vault", instructions="Gold is heavy.", tools=[peek, take])


@dataclass
class Door:
    """A door in whose house there is more once it is open; ``broken`` makes saying how it stands fail."""

    is_open: bool = False
    broken: bool = False
    agent: Agent = field(init=False)

    def __post_init__(self) -> None:
        """Make the agent that stands before it."""

        def inside(ctx: Context) -> list[AnyRef]:
            return [vault.with_names(prefix="v_")] if self.is_open else []

        self.agent = Agent("thief", system_prompt="Be quiet.", uses=[inside], context=[self.stands])

    def stands(self) -> dict[str, str]:
        """Say how it stands."""
        if self.broken:
            raise RuntimeError("hunter2")
        return {"door": "open" if self.is_open else "shut"}
