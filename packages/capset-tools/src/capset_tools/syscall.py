"""``syscall``: the tools in play and their descriptions; nothing is run (spec 3, K18)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from copy import deepcopy
from difflib import get_close_matches
from typing import Annotated, Any, Final, Literal, NotRequired

from pydantic import BaseModel, Field, JsonValue
from typing_extensions import TypedDict

from capset import Capability, Context, Emit, Tool, ToolError, handles
from capset.ext import ToolView, tools_of

_EVERY: Final = "*"
_SUGGESTED: Final = 10
"""Maximum number of unknown names with a suggestion."""
_Name = Annotated[str, Field(max_length=256)]


class Names(TypedDict):
    names: Annotated[
        list[_Name],
        Field(
            max_length=100,
            description='Names of tools, types of messages, or capability.tool; ["*"] stands for all that there is.',
        ),
    ]


class Described(TypedDict):
    name: Annotated[str, Field(description="The name that the tool is called by.")]
    kind: Annotated[Literal["command", "query"], Field(description="A query only reads; a command may do more.")]
    type: Annotated[str, Field(description="The type of the messages that ask for it.")]
    description: Annotated[str, Field(description="What it is for, word for word as its author wrote it.")]
    inbound: Annotated[dict[str, Any], Field(description="The JSON Schema of the message that asks for it.")]
    outbound: Annotated[dict[str, Any], Field(description="The JSON Schema of what it emits.")]
    arguments: Annotated[dict[str, Any], Field(description="The JSON Schema of its arguments.")]
    effect: Annotated[
        Literal["read", "write", "external", "destructive"], Field(description="What a call may do to the world.")
    ]
    permissions: Annotated[list[str], Field(description="What a principal must hold to call it.")]
    examples: Annotated[list[dict[str, Any]], Field(description="Arguments that fit.")]
    cost: Annotated[float | None, Field(description="What a call costs, in the host's own unit.")]
    hash: Annotated[str, Field(description="The fingerprint of exactly this version of it.")]


class Unknown(TypedDict):
    name: Annotated[str, Field(description="What was asked for and is not there.")]
    did_you_mean: NotRequired[
        Annotated[str, Field(description="The nearest name of all that there is, for the first ten.")]
    ]


class Descriptions(TypedDict):
    tools: Annotated[list[Described], Field(description="Each tool that was asked for, once, by name.")]
    unknown: Annotated[list[Unknown], Field(description="The names of which there is no tool here.")]


class Listed(TypedDict):
    name: Annotated[str, Field(description="The name that the tool is called by.")]
    type: Annotated[str, Field(description="The type of the messages that ask for it.")]
    kind: Annotated[Literal["command", "query"], Field(description="A query only reads; a command may do more.")]
    description: Annotated[str, Field(description="The first line of what it is for.")]


class Listing(TypedDict):
    tools: Annotated[list[Listed], Field(description="Every tool that is in play, by name.")]


class DescribeTools(BaseModel):
    """Ask what some tools are, or all of them."""

    kind: Literal["query"] = "query"
    type: Literal["Syscall.Describe"] = "Syscall.Describe"
    data: Names


class ToolsDescribed(BaseModel):
    """What the tools are, and which names were unknown."""

    kind: Literal["reply"] = "reply"
    type: Literal["Syscall.Describe"] = "Syscall.Describe"
    data: Descriptions


class ListTools(BaseModel):
    """Ask which tools there are."""

    kind: Literal["query"] = "query"
    type: Literal["Syscall.List"] = "Syscall.List"


class ToolsListed(BaseModel):
    """The tools that there are, in a line each."""

    kind: Literal["reply"] = "reply"
    type: Literal["Syscall.List"] = "Syscall.List"
    data: Listing


class Ping(BaseModel):
    """Ask to get a value back."""

    kind: Literal["query"] = "query"
    type: Literal["Syscall.Ping"] = "Syscall.Ping"
    data: JsonValue = Field(description="Any JSON value.")


class Pong(BaseModel):
    """The value that was sent."""

    kind: Literal["reply"] = "reply"
    type: Literal["Syscall.Ping"] = "Syscall.Ping"
    data: JsonValue = Field(description="The same JSON value.")


async def _describe(message: DescribeTools, emit: Emit, ctx: Context) -> None:
    views = tools_of(ctx)
    names, views_by_name = dict.fromkeys(message.data["names"]), _by_every_name(views.values())
    known_names = {view.name for name in names if (view := views_by_name.get(name))}
    chosen = [view for view in views.values() if _EVERY in names or view.name in known_names]
    unknown: list[Unknown] = []
    for name in [requested for requested in names if requested != _EVERY and requested not in views_by_name]:
        unknown.append(_unknown(name, views_by_name) if len(unknown) < _SUGGESTED else Unknown(name=name))
        await asyncio.sleep(0)  # each search takes milliseconds: let other tasks run
    await emit(ToolsDescribed(data=Descriptions(tools=[_described(view) for view in chosen], unknown=unknown)))


async def _list(message: ListTools, emit: Emit, ctx: Context) -> None:
    tools = [
        Listed(name=view.name, type=view.type, kind=view.kind, description=view.description.strip().partition("\n")[0])
        for view in tools_of(ctx).values()
    ]
    await emit(ToolsListed(data=Listing(tools=tools)))


async def _ping(message: Ping, emit: Emit, ctx: Context) -> None:
    try:
        json.dumps(message.data, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise ToolError(
            "JSON cannot carry this value: it has no NaN, no infinities and no lone surrogates, an integer has at most "
            "4,300 digits, and what is nested too deeply cannot be written",
            code="no_json",
            status=422,
        ) from None
    await emit(Pong(data=message.data))


def _by_every_name(views: Collection[ToolView]) -> dict[str, ToolView]:
    by_name: dict[str, ToolView] = {}
    for view in views:
        by_name |= {view.qualified: view, view.type: view}
    return by_name | {view.name: view for view in views}


def _unknown(name: str, names: Collection[str]) -> Unknown:
    near = get_close_matches(
        name, [candidate for candidate in names if ("." in candidate) is ("." in name)] or names, n=1
    )
    return Unknown(name=name, did_you_mean=near[0]) if near else Unknown(name=name)


def _described(view: ToolView) -> Described:
    return Described(
        name=view.name,
        kind=view.kind,
        type=view.type,
        description=view.description,
        inbound=deepcopy(dict(view.inbound)),
        outbound=deepcopy(dict(view.outbound)),
        arguments=deepcopy(dict(view.arguments)),
        effect=view.effect,
        permissions=list(view.permissions),
        examples=[deepcopy(dict(example)) for example in view.examples],
        cost=view.cost,
        hash=view.hash,
    )


syscall_describe = Tool.from_processor(
    inbound=DescribeTools,
    outbound=ToolsDescribed,
    factory=handles(_describe),
    description=(
        "Tell exactly what some tools are: what they are for, what they take and give, what they may do to the world.\n"
        "\n"
        "Use it before you call a tool that you do not know. It tells of what you may call here and now, and of "
        "nothing else; no tool is run for it."
    ),
    examples=[{"names": ["*"]}, {"names": ["Syscall.Ping", "Syscall_List"]}],
)
syscall_list = Tool.from_processor(
    inbound=ListTools,
    outbound=ToolsListed,
    factory=handles(_list),
    description=(
        "List the tools that you may call here and now, in a line each.\n"
        "\n"
        "Use it to find out what there is; no tool is run for it."
    ),
)
syscall_ping = Tool.from_processor(
    inbound=Ping,
    outbound=Pong,
    factory=handles(_ping),
    description=(
        "Give back a JSON value exactly as it came.\n\nUse it to find out whether calls arrive, and unchanged."
    ),
    examples=[{"data": "hello"}],
)

syscall = Capability(
    "syscall",
    title="Syscall",
    description="Tells which tools there are and exactly what each of them is, without running any.",
    icon="terminal",
    category="System",
    instructions=(
        "Ask `Syscall_List` which tools there are, and `Syscall_Describe` what one of them takes and gives. "
        "Where it calls a name unknown, there is no such tool for you."
    ),
    tools=[syscall_describe, syscall_ping, syscall_list],
)
