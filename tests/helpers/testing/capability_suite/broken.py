"""Capabilities that break one promise each; at the top of a module, so that other processes can load them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema
from typing_extensions import TypedDict

from capset import Capability, Context, Preset, Resource, ToolError, deny, policy, tool
from capset.ext import Documents
from capset.schemas.schema import schema_of
from capset_testing.capability_suite import Example

DESCRIPTION: Final = "Does some things for tests."
BROKEN: dict[str, list[tuple[Capability[Any, Any], Mapping[str, list[Example]], str]]] = {}
"""By the check that finds them: the capability, examples of it, and what is said of it."""


def broken(
    check: str, problem: str, name: str, examples: Mapping[str, list[Example]] | None = None, **parts: Any
) -> Any:
    make: Any = Capability
    capability = make(name, **{"description": DESCRIPTION, **parts})
    BROKEN.setdefault(check, []).append((capability, examples or {}, problem))
    return capability


class Numbers(BaseModel):
    number: int = Field(default=0, description="Any number.")


class OtherNumbers(BaseModel):
    number: str = Field(default="", description="Any number.")


class NeedsSome(BaseModel):
    number: int = Field(description="A number that has no default.")


@tool(effect="read")
async def double(number: int) -> int:
    """Double a whole number.

    Args:
        number: Any whole number.
    """
    return 2 * number


DOUBLED: Final[Mapping[str, list[Example]]] = {"double": [{"number": 2}]}

# it_can_be_used


@policy
def never(_request: object) -> Any:
    return deny("not on any day")


broken("it_can_be_used", "is coming_soon", "soon", status="coming_soon")
broken("it_can_be_used", "needs a config: number", "demanding", config=NeedsSome)
broken("it_can_be_used", "not on any day", "gated", tools=[double], policies=[never])
broken(
    "it_can_be_used",
    "different types",
    "at_odds",
    presets={
        "one": Preset(state={"session": Numbers}),
        "other": Preset(state={"session": OtherNumbers}),
    },
)

# it_says_what_it_is


@tool(effect="read")
async def go() -> int:
    """Go."""
    return 1


broken("it_says_what_it_is", "'silent' needs a description", "silent", description="")
broken("it_says_what_it_is", "tool 'go' needs a description", "curt", tools=[go])

# hashes_are_the_same_in_every_process


class Random(BaseModel):
    number: float = Field(default_factory=random.random, description="Another one every time.")


words = {f"word-{number}" for number in range(20)}
scrambled = broken("hashes_are_the_same_in_every_process", "another process", "scrambled", instructions=" ".join(words))
lottery = broken("hashes_are_the_same_in_every_process", "composed twice", "lottery", config=Random)
broken("hashes_are_the_same_in_every_process", "is not a variable of any module", "nowhere")

# every_parameter_is_described, every_parameter_is_read


class Inner(BaseModel):
    depth: int


@tool(effect="read")
async def undescribed(number: int) -> int:
    """Double a whole number."""
    return 2 * number


@tool(effect="read")
async def half_described(inner: Inner) -> int:
    """Double a whole number.

    Args:
        inner: Where the number is.
    """
    return 2 * inner.depth


@tool(effect="read")
async def multiply(number: int, factor: int = 2) -> int:
    """Multiply a whole number.

    Args:
        number: Any whole number.
        factor: What it is multiplied by.
    """
    return sum(number for _ in range(factor))


broken("every_parameter_is_described", "nothing describes 'number'", "mute", tools=[undescribed])
broken("every_parameter_is_described", "nothing describes 'depth'", "half_mute", tools=[half_described])

# instructions_name_only_tools_that_are_there

broken(
    "instructions_name_only_tools_that_are_there",
    "the capability itself mention double",
    "talkative",
    instructions="Multiply by `double`.",
    presets={"tools": Preset(tools=[double])},
)
broken(
    "instructions_name_only_tools_that_are_there",
    "preset 'words' mention double",
    "gossip",
    presets={"tools": Preset(tools=[double]), "words": Preset(instructions="Multiply by `double(number)`.")},
)


@tool(effect="read")
async def ignorant(number: int, factor: int = 2) -> int:
    """Double a whole number.

    Args:
        number: Any whole number.
        factor: What it is multiplied by, or so it seems.
    """
    return number * 2


broken("every_parameter_is_read", "never reads the parameter 'factor'", "ignorant", tools=[ignorant])

# invalid_arguments_are_refused, unknown_arguments_are_refused

Lenient = Annotated[int, BeforeValidator(lambda value: int(value) if isinstance(value, str) else value)]


class Wrapped(TypedDict):
    number: Annotated[Lenient, Field(description="Any whole number.")]


class Loose(TypedDict):
    number: Annotated[int, Field(description="Any whole number.")]


@tool(effect="read")
async def lenient(number: Lenient) -> int:
    """Double a whole number.

    Args:
        number: Any whole number.
    """
    return 2 * number


@tool(effect="read")
async def deeply_lenient(numbers: list[Wrapped]) -> int:
    """Add whole numbers up.

    Args:
        numbers: Any whole numbers.
    """
    return sum(entry["number"] for entry in numbers)


loose = replace(double, arguments=schema_of("loose", Loose, "serialization"))
broken("invalid_arguments_are_refused", "not of type integer", "lenient", tools=[lenient])
broken("invalid_arguments_are_refused", "'number': ", "deeply_lenient", tools=[deeply_lenient])
broken("unknown_arguments_are_refused", "tool 'double' takes", "loose", tools=[loose])

# every_tool_and_parameter_has_an_example

broken("every_tool_and_parameter_has_an_example", "'double' has no example", "unshown", tools=[double])
broken(
    "every_tool_and_parameter_has_an_example",
    "did you mean 'double'",
    "misspelt",
    {**DOUBLED, "duoble": []},
    tools=[double],
)
broken(
    "every_tool_and_parameter_has_an_example",
    "no example has the parameter 'factor'",
    "half_shown",
    {"multiply": [{"number": 1}]},
    tools=[multiply],
)

# every_example_runs


@tool(effect="read")
async def picky(number: int) -> int:
    """Double a whole number.

    Args:
        number: Any whole number.
    """
    if number > 1:
        raise ToolError(f"{number} is too much for me")
    return number


@tool(effect="read")
async def misleading(number: int) -> Annotated[int, WithJsonSchema({"type": "string"})]:
    """Double a whole number.

    Args:
        number: Any whole number.
    """
    return number


broken("every_example_runs", "2 is too much", "picky", {"picky": [{"number": 1}, {"number": 2}]}, tools=[picky])
broken(
    "every_example_runs", "does not fit its schema", "misleading", {"misleading": [{"number": 2}]}, tools=[misleading]
)

# what_is_optional_can_be_left_out


@tool(effect="read")
async def shout(text: str | None = None) -> str:
    """Turn a text into capital letters.

    Args:
        text: What to shout.
    """
    assert text is not None
    return text.upper()


broken(
    "what_is_optional_can_be_left_out", "without its optional 'text'", "shy", {"shout": [{"text": "a"}]}, tools=[shout]
)

# a_tool_that_reads_writes_nothing

visits = Resource("visits", int, scope="user", default=0)
diary = Documents("diary", "org")


@tool(effect="read")
async def visit(ctx: Context) -> int:
    """Count how often somebody came."""
    return await ctx.resource(visits).increment()


@tool(effect="read")
async def confide(ctx: Context) -> str:
    """Tell the diary, though nobody asked."""
    return (await ctx.documents(diary).add("dear diary")).text


@tool(effect="read")
async def litter(ctx: Context) -> str:
    """Leave a file lying around."""
    return (await ctx.files.write("/litter", b"x"))[0].path


@tool(effect="read")
async def recount(ctx: Context) -> int:
    """Count in the session's own state."""
    return (await ctx.state(Numbers).increment("number")).number


for said, capability_name, kind, parts in (
    ("the user resource 'visits'", "visitor", visit, {"resources": [visits]}),
    ("the org documents 'diary'", "diarist", confide, {"resources": [diary]}),
    ("the files", "litterer", litter, {}),
    ("the session state", "recounter", recount, {"state": {"session": Numbers}}),
):
    broken("a_tool_that_reads_writes_nothing", said, capability_name, {kind.name: [{}]}, tools=[kind], **parts)

# every_config_field_is_described


class Undescribed(BaseModel):
    number: int = 0


broken("every_config_field_is_described", "Undescribed.number needs", "undescribed", config=Undescribed)
