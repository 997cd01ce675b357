"""Tools that are stream processors, and the built-in that consists of some; see ``fingerprints.json``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field

from capset import Context, Emit, Tool, handles
from capset_tools.syscall import syscall


@dataclass
class Where:
    path: str
    depth: int = 1


class Walk(BaseModel):
    """Walk a tree."""

    kind: Literal["command"] = "command"
    type: Literal["Tree.Walk"] = "Tree.Walk"
    data: Where


class Stepped(BaseModel):
    """A step was taken."""

    kind: Literal["event"] = "event"
    type: Literal["Tree.Stepped"] = "Tree.Stepped"
    data: int


class Walked(BaseModel):
    """The whole way."""

    kind: Literal["reply"] = "reply"
    type: Literal["Tree.Walk"] = "Tree.Walk"
    data: list[str]


class Count(BaseModel):
    """Count up to a number."""

    kind: Literal["query"] = "query"
    type: Literal["Tree:count-up"] = "Tree:count-up"
    data: Annotated[int, Field(ge=0, description="Up to where.")] = 3


async def nothing(message: Any, emit: Emit, ctx: Context) -> None: ...


walk = Tool.from_processor(
    inbound=Walk,
    outbound=Stepped | Walked,
    factory=handles(nothing),
    description="Walk it.",
    effect="external",
    cost=0.25,
    buffer=3,
)
count_up = Tool.from_processor(
    inbound=Count, outbound=[Stepped], factory=handles(nothing), description="Count.", name="count_up"
)
PROCESSORS: Final[tuple[Tool[..., Any], ...]] = (walk, count_up, *syscall.every_tool)
__all__ = ["PROCESSORS", "syscall"]
