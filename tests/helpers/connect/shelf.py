"""A capability with everything that can be chosen of one, and agents that choose."""

from __future__ import annotations

from datetime import date

from pydantic import BaseModel, Field

from capset import Agent, Capability, Context, Preset, Registry, compose, tool


class Place(BaseModel):
    room: str = "hall"


class Limits(BaseModel):
    """How much, until when, and where."""

    count: int = Field(default=5, ge=1)
    until: date | None = None
    places: list[Place] = []


@tool(effect="read")
async def look(ctx: Context) -> int:
    """Look how many there may be."""
    return ctx.config(shelf).count


@tool(effect="write")
async def put(book: str) -> str:
    """Put a book."""
    return book


@tool(effect="destructive")
async def burn(book: str) -> str:
    """Burn a book."""
    return f"{book} is ashes"


shelf = Capability(
    "shelf",
    aliases=["bookshelf"],
    instructions="Keep it tidy.",
    tools=[look],
    presets={
        "writing": Preset(tools=[put], instructions="You may put."),
        "burning": Preset(tools=[burn], context=[{"fire": "hot"}]),
    },
    default=["writing"],
    config=Limits,
)
lamp = Capability("lamp")
soon = Capability("soon", status="coming_soon")
REGISTRY = Registry.of([shelf, lamp, soon])
ENTRY = {
    "id": "shelf",
    "presets": {"burning": True, "writing": False},
    "config": {"count": 7, "until": "2030-01-31", "places": [{"room": "attic"}]},
    "prefix": "s_",
    "rename": {"burn": "torch"},
}


def tools_of(agent: Agent) -> set[str]:
    """Return the names of an agent's tools, as a model calls them."""
    return set(compose(agent).tools)
