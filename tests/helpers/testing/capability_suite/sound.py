"""A capability that has something of everything, and keeps every promise; with examples of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from capset import Capability, Context, Preset, Resource, Session, allow, policy, tool
from capset_testing.capability_suite import Arguments, Example


class Settings(BaseModel):
    most: int = Field(default=10, description="How many notes there may be.")
    words: list[str] = Field(default=["todo"], description="Words to look out for.")


class Rules(BaseModel):
    model_config = ConfigDict(strict=True)
    words: frozenset[str] = Field(alias="wordList", description="Words to look out for.")


ruled = Capability("ruled", description="Looks out for some words.", config=Rules)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    row: Annotated[int, Field(ge=1, le=99, description="Counted from the top.")]
    label: Annotated[str, Field(pattern="^[a-z]+$", description="In small letters.")] = "desk"


class Tally(BaseModel):
    saved: int = 0


class Notes(TypedDict):
    notes: list[str]


notes_of_session = Resource("sound_notes", list[str], scope="session", default=list, description="All notes.")


class Helper:
    """Writes notes for other code."""

    def __init__(self, ctx: Context) -> None:
        self._notes = ctx.resource(notes_of_session)

    async def save(self, text: str) -> list[str]:
        """Keep a note, and return them all."""
        return await self._notes.push(text)


@policy
def weekdays(_request: object) -> Any:
    return allow()


@tool(effect="write", permissions={"notes:write"}, policies=[weekdays])
async def save_note(
    ctx: Context,
    text: Annotated[str, Field(max_length=100)],
    place: Place | None = None,
    colour: Colour = Colour.RED,
    tags: Annotated[list[Literal["a", "b"]], Field(max_length=2)] | None = None,
) -> Notes:
    """Keep a note for later.

    Args:
        text: What to keep.
        place: Where it belongs.
        colour: How it looks.
        tags: What it is about.
    """

    def render_note() -> str:
        return f"{text} ({colour.value}{f', {place.label}' if place else ''})"

    await ctx.state(Tally).increment("saved")
    await ctx.use(sound).save(" ".join([render_note(), *map(str.upper, tags or [])]))
    return Notes(notes=await ctx.resource(notes_of_session).get())


@tool(effect="read", permissions={"notes:read"})
def count_notes(ctx: Context, factor: Annotated[float, Field(gt=0, lt=10)] = 1.0) -> float:
    """Count the notes that there are.

    Args:
        factor: What to multiply the count by.
    """
    return factor * len(ctx.session.id[:1])


async def noted(ctx: Context) -> Mapping[str, Any]:
    return {"notes": await ctx.resource(notes_of_session).get()}


sound = Capability(
    "sound",
    description="Keeps notes for as long as a session lasts.",
    resources=[notes_of_session],
    state={"session": Tally},
    presets={
        "shown": Preset(context=[noted]),
        "writing": Preset(tools=[save_note], instructions="Save with `save_note`."),
        "counting": Preset(tools=[count_notes], instructions="Count with `count_notes()`."),
    },
    default=["shown", "writing"],
    helpers=Helper,
    config=Settings,
    expose=["sound_notes", "saved"],
)


async def with_a_note(session: Session) -> Arguments:
    await session.call(save_note, text="first")
    return {"text": "second", "tags": ["b"]}


EXAMPLES: Mapping[str, list[Example]] = {
    "save_note": [
        {"text": "Buy milk", "place": {"row": 3, "label": "door"}, "colour": "blue", "tags": ["a", "b"]},
        {"text": "", "place": None},
        with_a_note,
    ],
    "count_notes": [{}, {"factor": 2.5}],
}


@tool
async def wind_up(ctx: Context) -> int:
    """Keep the clock going."""
    return await ctx.resource(turns).increment()


@tool(effect="read")
async def tell_time() -> int:
    """Tell the time in nanoseconds."""
    return time.time_ns()


turns = Resource("turns", int, scope="session", default=0)
ticking = Capability(
    "ticking", description="Tells the time, once wound up.", resources=[turns], tools=[wind_up, tell_time]
)
