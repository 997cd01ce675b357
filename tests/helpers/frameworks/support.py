"""Tools to be called, a model that calls them as it is told to, and what it read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pydantic_ai
from pydantic import BaseModel, Field
from pydantic_ai import RunContext
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage

from capset import Context, Decision, Progress, Reply, Request, Session, ToolError, allow, deny, policy, tool
from capset_frameworks.pydantic_ai import CapsetToolset

Call = tuple[str, str | dict[str, Any]]
"""The name of a tool, and its arguments as a model sends them: JSON text, or what a client library made of it."""


class Scripted:
    """A model that makes these calls, one list a step, then says "done"; it keeps what it was shown."""

    def __init__(self, *steps: Sequence[Call]) -> None:
        self._steps = list(steps)
        self.shown: list[AgentInfo] = []
        self.model = FunctionModel(self._answer)

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.shown.append(info)
        step = len(self.shown) - 1
        if step >= len(self._steps):
            return ModelResponse([TextPart("done")])
        calls = enumerate(self._steps[step], start=1)
        return ModelResponse([ToolCallPart(name, args, f"call-{step + 1}-{at}") for at, (name, args) in calls])


def returns(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    """Return the tool results that a model read, in order."""
    parts = (part for message in messages if isinstance(message, ModelRequest) for part in message.parts)
    return [part for part in parts if isinstance(part, ToolReturnPart)]


async def run(session: Session, *steps: Sequence[Call], run_id: str = "run-1") -> list[ToolReturnPart]:
    """Let a model make these calls, to the end of its run, and return what it read."""
    agent = pydantic_ai.Agent(Scripted(*steps).model, toolsets=[CapsetToolset(session)])
    result = await agent.run("go", run_id=run_id)
    assert result.output == "done", "the run goes on to its end"
    return returns(result.all_messages())


def context(**fields: Any) -> RunContext[object]:
    return RunContext(deps=None, model=TestModel(), usage=RunUsage(), **fields)


async def call(session: Session, name: str, arguments: dict[str, Any], **fields: Any) -> Any:
    """Call a tool as a wrapper of the toolset would, with any tool of the set at hand."""
    toolset = CapsetToolset(session)
    toolset_tool, *_ = (await toolset.get_tools(context())).values()
    return await toolset.call_tool(name, arguments, context(**fields), toolset_tool)


class Line(BaseModel):
    article: str
    pieces: int = Field(ge=1)


@policy
async def pro_tier(request: Request) -> Decision:
    return allow() if request.env.get("tier") == "pro" else deny("export needs the pro tier")


@policy
async def small_sums(request: Request) -> bool:
    return request.arguments is None or request.arguments["b"] < 100


@tool(effect="read", policies=[small_sums])
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="write", permissions={"notes:write"})
async def save(ctx: Context, text: str) -> dict[str, str]:
    """Save one note."""
    await ctx.files.write("/note.txt", text.encode())
    return {"saved": text}


@tool(effect="external")
async def order(lines: list[Line], express: bool) -> str:
    """Order articles."""
    return f"{len(lines)} lines"


@tool(effect="read", policies=[pro_tier])
async def export() -> str:
    """Export everything."""
    return "everything"


@tool(effect="read")
async def fail() -> str:
    """Fail, in one's own words."""
    raise ToolError("the shelf is empty; order first", code="empty_shelf", status=409)


@tool(effect="read")
async def crash() -> str:
    """Crash."""
    raise RuntimeError("SELECT secret FROM /etc/shadow")


@tool(effect="read")
async def count(texts: list[str]) -> AsyncIterator[Progress | Reply[int]]:
    """Count words."""
    for position, _ in enumerate(texts, start=1):
        yield Progress(position / len(texts))
    yield Reply(len(" ".join(texts).split()))


@tool(effect="read")
async def watch() -> AsyncIterator[Progress | Reply[int]]:
    """Watch, and end without a reply."""
    yield Progress(1.0)
