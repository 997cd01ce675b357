"""More capabilities that break a promise: of presets, helpers and context, and between sessions."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from capset import Context, Preset, Resource, tool
from capset.ext import Documents
from capset_testing.capability_suite import Example
from tests.helpers.testing.capability_suite.broken import BROKEN, broken, double

__all__ = ["BROKEN"]

# each_preset_moves_what_it_declares, each_setting_of_the_presets_works

broken(
    "each_preset_moves_what_it_declares",
    "'again' declares the tools double, but switching it on adds nothing",
    "repetitive",
    {"double": [{"number": 1}]},
    tools=[double],
    presets={"again": Preset(tools=[double])},
)
broken("each_preset_moves_what_it_declares", "'empty' declares nothing", "hollow", presets={"empty": Preset()})

shelf = Documents("shelf", "session")
box = Resource("box", str, scope="session", default="full")


@tool(effect="read")
async def browse(ctx: Context) -> int:
    """Count what is on the shelf."""
    return len(await ctx.documents(shelf).recent())


async def boxed(ctx: Context) -> str:
    return await ctx.resource(box).get()


broken(
    "each_setting_of_the_presets_works",
    "with only the preset 'tools', tool 'browse' with {} fails",
    "entangled",
    {"browse": [{}]},
    presets={"storage": Preset(resources=[shelf]), "tools": Preset(tools=[browse])},
)
broken(
    "each_setting_of_the_presets_works",
    "with only the preset 'shown'",
    "intertwined",
    presets={"shown": Preset(context=[boxed]), "storage": Preset(resources=[box])},
)

# helpers_can_be_built_by_everybody, every_helper_is_documented


class Exclusive:
    """Helps those who hold a permission."""

    def __init__(self, ctx: Context) -> None:
        if "club:enter" not in ctx.principal.permissions:
            raise PermissionError("members only")


class Undocumented:
    def help(self) -> str:
        return "help"


class Wordless:
    """Helps without a word."""

    def help(self) -> str:
        return "help"


@tool(effect="read", permissions={"club:enter"})
async def enter() -> int:
    """Enter the club as a member."""
    return 1


broken(
    "helpers_can_be_built_by_everybody",
    "without permissions: PermissionError",
    "club",
    tools=[enter],
    helpers=Exclusive,
)
broken("helpers_can_be_built_by_everybody", "are None", "helpless", helpers=lambda ctx: None)
broken("every_helper_is_documented", "helpers Undocumented need", "undocumented", helpers=lambda ctx: Undocumented())
broken("every_helper_is_documented", "helper Wordless.help needs", "wordless", helpers=lambda ctx: Wordless())

# context_renders_the_same_twice

turns = count()


def turn(_ctx: Context) -> str:
    return f"turn {next(turns)}"


def failing(_ctx: Context) -> str:
    raise ValueError("no context today")


broken("context_renders_the_same_twice", "renders differently", "restless", context=[turn])
broken("context_renders_the_same_twice", "cannot be rendered", "failing", context=[failing])

# nothing_reaches_another_session

heard: list[str] = []
by_user: dict[str, list[str]] = {}


@tool
async def tell(ctx: Context, text: str) -> int:
    """Keep a text where everybody finds it.

    Args:
        text: Anything at all.
    """
    heard.append(text)
    by_user.setdefault(ctx.principal.id, []).append(text)
    return 1


@tool(effect="read")
async def listen() -> list[str]:
    """Return all that anybody told."""
    return list(heard)


@tool(effect="read")
async def listen_closely(ctx: Context) -> list[str]:
    """Return all that this user told, in whatever session."""
    return list(by_user.get(ctx.principal.id, []))


def overheard(_ctx: Context) -> Mapping[str, Any]:
    return {"overheard": list(heard)}


TOLD: Mapping[str, list[Example]] = {"tell": [{"text": "a secret"}]}
for said, capability_name, reading, parts in (
    ("the result of 'listen' (example 0) of another session of another user", "rumour", [listen], {}),
    ("the system text of another session of another user", "overhearer", [], {"context": [overheard]}),
    ("the result of 'listen_closely' (example 0) of another session of the same user", "dossier", [listen_closely], {}),
):
    asked: dict[str, list[Example]] = {reader.name: [{}] for reader in reading}
    examples = {**TOLD, **asked}
    broken("nothing_reaches_another_session", said, capability_name, examples, tools=[tell, *reading], **parts)

# what_is_exposed_is_there

fleeting = Resource("fleeting", int, scope="request", default=0)
unset = Resource("unset", int, scope="session")
broken("what_is_exposed_is_there", "'fleeting' is exposed, but", "fleeting", resources=[fleeting], expose=["fleeting"])
broken("what_is_exposed_is_there", "or it has no value yet", "unset", resources=[unset], expose=["unset"])
