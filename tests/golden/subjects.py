"""One definition of every shape of tool, and plain capabilities and agents of them; see ``fingerprints.json``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Final, Generic, Literal, NotRequired
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict, TypeVar

from capset import (
    Agent,
    Capability,
    Context,
    Progress,
    Reply,
    Request,
    Tool,
    policy,
    tool,
)

T = TypeVar("T")


class Colour(Enum):
    RED = "red"
    GREEN = "green"


class Address(BaseModel):
    """Where somebody lives."""

    street: str = Field(description="with the number")
    city: str
    tags: list[str] = []


class Person(BaseModel):
    title: str | None = None
    home: Address
    others: dict[str, Address] = Field(default_factory=dict)


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Page(BaseModel, Generic[T]):
    items: list[T]
    next: str | None = None


class OpenBag(BaseModel):
    model_config = ConfigDict(extra="allow", title="A bag of anything")

    size: int


class Point(TypedDict):
    x: float
    y: NotRequired[float]


@dataclass
class Range:
    low: int
    high: int = 10


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    good: bool = True


@policy
def office_hours(request: Request) -> bool:
    return request.env.get("hour", 12) < 18


@policy(id="team.billing:v2")
async def billing(request: Request) -> bool:
    return request.principal.org == "acme"


@tool
def no_parameters() -> None:
    """Do nothing."""


@tool(effect="read")
def scalars(whole: int, real: float, text: str, flag: bool, nothing: None) -> str:
    """Take one of each."""
    return f"{whole}{real}{text}{flag}{nothing}"


@tool
async def defaults(
    whole: int = 3,
    real: float = 1e21,
    text: str = "\u00e9",
    numbers: list[int] = [1, 2],  # noqa: B006  # a default is copied for each call
    none: str | None = None,
) -> int:
    """Have a default for everything."""
    return whole + int(real) + len(text) + len(numbers) + bool(none)


@tool
def described(path: str, limit: int = 10) -> list[str]:
    """Read the lines of a file.

    Stops at the limit.

    Args:
        path: where the file is,
            absolute
        limit: how many lines at most
    """
    return [path] * limit


@tool
def choices(mode: Literal["fast", "slow", 3], colour: Colour = Colour.RED) -> Colour:
    """Choose."""
    return colour if mode else Colour.GREEN


@tool
def nested(person: Person) -> Person:
    """Take a model of models."""
    return person


@tool
def recursive(tree: Tree) -> int:
    """Count a tree."""
    return tree.value


@tool
def generic(page: Page[int]) -> Page[Page[str]]:
    """Turn a page."""
    return Page(items=[Page(items=[str(item) for item in page.items])])


@tool
def unions(one: int | str, maybe: bool | None, pet: Annotated[Cat | Dog, Field(discriminator="kind")]) -> Cat | None:
    """Take this or that."""
    return pet if isinstance(pet, Cat) and one and maybe else None


@tool
def constrained(
    age: Annotated[int, Field(ge=0, le=2**70, description="in years", examples=[42])],
    code: Annotated[str, Field(pattern="^[a-z]+$", min_length=2, title="The code")],
    ratio: Annotated[float, Field(gt=0, multiple_of=0.5)] = 0.5,
) -> Decimal:
    """Stay within bounds."""
    return Decimal(age + len(code)) * Decimal(ratio)


@tool
def collections(
    names: list[str],
    table: Mapping[str, Sequence[int]],
    unique: frozenset[str] = frozenset({"delta", "alpha", "charlie", "bravo", "echo", "foxtrot"}),
    pair: tuple[int, str] = (1, "a"),
) -> dict[str, list[int]]:
    """Take many."""
    return {name: list(table.get(name, pair[:1])) for name in (*names, *unique)}


@tool
def times(day: date, moment: datetime = datetime(2024, 2, 29, 12, 0), key: UUID | None = None) -> datetime:  # noqa: DTZ001
    """Take times."""
    return moment if key else datetime.combine(day, moment.time())


@tool
def open_model(bag: OpenBag) -> OpenBag:
    """Take a model that is open by its own word."""
    return bag


@tool
def mappings(point: Point, bounds: Range, anything: object = None) -> Point:
    """Take a typed mapping and a dataclass."""
    return {"x": point["x"] + bounds.low} if anything is None else point


@tool
def unlucky_names(schema: int, properties: Point, required: list[str], title: str, default: int = 1) -> int:
    """Have parameters that are named like keywords of JSON Schema."""
    return schema + len(properties) + len(required) + len(title) + default


@tool
async def with_context(ctx: Context, text: str) -> str:
    """Know the world.

    Args:
        ctx: the world, which no model sees
        text: what to say
    """
    return f"{ctx.principal.id}: {text}"


@tool
async def streaming(ctx: Context, steps: int = 3) -> AsyncIterator[Progress | Reply[list[int]]]:
    """Stream."""
    yield Progress(0.5, ctx.correlation)
    yield Reply(list(range(steps)))


@tool(name="renamed-Tool_1", description="Said another way.", effect="external", timeout=5)
def renamed(n: int) -> int:
    """Say it."""
    return n


@tool(effect="destructive", permissions=["files:write", "files:delete"])
def permitted(path: str) -> None:
    """Delete a file."""


@tool(policies=[office_hours, billing])
def gated(amount: int) -> int:
    """Pay."""
    return amount


@tool(permissions={"pay:send"}, policies=[billing])
def permitted_and_gated(amount: int) -> int:
    """Pay, if you may."""
    return amount


@tool(description='Z\u00e4hle \u65e5\u672c \U0001f600 \u2028 \\ "so".')
def unicode(text: Annotated[str, Field(description='\u65e5\u672c\u8a9e \U0001f600 "quoted" \\ \x7f')]) -> str:
    return text


def large(request: Request) -> bool:
    return True


@tool(limits=["10/1m", {"requests": 3, "window": "1m", "per": "org"}], approval="ask")
def limited(amount: int) -> int:
    """Pay, now and then."""
    return amount


@tool(approval=large, idempotent=True, retry=3)
def sometimes(amount: int) -> int:
    """Pay, after a question perhaps."""
    return amount


TOOLS: Final[tuple[Tool[..., Any], ...]] = (
    no_parameters, scalars, defaults, described, choices, nested, recursive, generic, unions, constrained, collections,
    times, open_model, mappings, unlucky_names, with_context, streaming, renamed, permitted, gated,
    permitted_and_gated, unicode, limited, sometimes,
)  # fmt: skip

empty = Capability("empty")
versioned = Capability(
    "versioned", version="1.2.0", title="Not hashed", icon="star", category="Any", status="deprecated"
)
instructed = Capability(
    "instructed", instructions=["  Be brief. ", "", "Say \u00ab\u65e5\u672c\u00bb."], tools=[scalars]
)
files = Capability("files:main", tools=[permitted, described, no_parameters])
payments = Capability("payments", instructions="Pay only what is due.", tools=[permitted_and_gated, gated])
retired = Capability("old", status="retired", instructions="Gone.", tools=[nested])

bare = Agent("bare")
prompted = Agent("prompted", system_prompt=" Keep tidy. \n", description="not hashed")
full = Agent(
    "full",
    system_prompt="You are \u65e5\u672c.",
    instructions=["Answer in one line.", "  ", " Never guess. "],
    uses=[instructed, retired, payments, files, instructed],
)
