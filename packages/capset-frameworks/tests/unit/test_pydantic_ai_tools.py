"""Tools of pydantic-ai that become capset's; the contract of the other way is in ``integration/frameworks``."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from pydantic import BaseModel, Field
from pydantic_ai import FunctionToolset, ModelRetry, RunContext, Tool, ToolFailed, ToolReturn
from pydantic_ai.exceptions import CallDeferred
from pydantic_ai.tools import ToolDefinition

from capset import Agent
from capset.definitions.calls.messages import Json
from capset.errors import ApprovalRequired, DefinitionError
from capset_frameworks.pydantic_ai import import_pydantic_ai_tools
from tests.helpers.frameworks.kit import decide
from tests.helpers.kernel.support import opened


class Line(BaseModel):
    article: str
    pieces: int = Field(default=1, ge=1)


def sync_sum(lines: list[Line], discount: float | None = None) -> dict[str, Any]:
    """Add up an order."""
    assert threading.current_thread() is not threading.main_thread()
    return {"pieces": sum(line.pieces for line in lines), "discount": discount, "first": lines[0]}


async def lookup(ctx: RunContext[dict[str, int]], name: str) -> ToolReturn[int]:
    """Look up a name.

    Args:
        name: The name to look for.
    """
    return ToolReturn(ctx.deps[name], metadata="not for models")


def retry() -> str:
    """Ask for another try."""
    raise ModelRetry("give a shorter text")


async def give_up() -> str:
    """Give up."""
    raise ToolFailed("there is none")


def crash() -> str:
    """Crash."""
    raise RuntimeError("SELECT secret FROM /etc/shadow")


def refuse_odd(ctx: RunContext[Any], number: int) -> None:
    if number % 2:
        raise ModelRetry("the number has to be even")


def halve(number: int) -> int:
    """Halve a number."""
    return number // 2


TOOLSET = FunctionToolset[Any]([sync_sum, lookup, retry, give_up, crash, Tool(halve, args_validator=refuse_odd)])


@pytest.mark.spec("W18")
async def test_tools_of_pydantic_ai_are_tools_here() -> None:
    imported = import_pydantic_ai_tools(
        TOOLSET, name="shop", effect="external", rules={"halve": {"effect": "read"}}, deps={"ada": 7}
    )
    for name, original in TOOLSET.tools.items():
        tool = imported.tools[name]
        assert (tool.name, tool.description) == (name, original.description)
        assert (
            tool.arguments.json_schema["properties"].keys()
            == original.tool_def.parameters_json_schema["properties"].keys()
        )
    async with opened(Agent("clerk", uses=[imported.capability])) as desk:

        async def call(name: str, /, **arguments: Any) -> Any:
            result = await desk.session.try_message(desk.session.message(name, Json(json.dumps(arguments).encode())))
            return result.data if result.error is None else result.error.message

        assert await call("sync_sum", lines=[{"article": "milk", "pieces": 2}, {"article": "tea"}]) == {
            "pieces": 3,
            "discount": None,
            "first": {"article": "milk", "pieces": 2},
        }
        assert "lines.0.pieces" in await call("sync_sum", lines=[{"article": "milk", "pieces": 0}])
        assert await call("lookup", name="ada") == 7
        assert await call("retry") == "give a shorter text"
        assert await call("give_up") == "there is none"
        assert "SELECT" not in await call("crash")
        assert await call("halve", number=8) == 4
        assert await call("halve", number=7) == "the number has to be even"
        records = {(record.tool, record.effect, record.outcome) for record in await desk.records()}
        assert records == {
            ("sync_sum", "external", "succeeded"),
            ("sync_sum", "external", "invalid"),
            ("lookup", "external", "succeeded"),
            ("retry", "external", "failed"),
            ("give_up", "external", "failed"),
            ("crash", "external", "failed"),
            ("halve", "read", "succeeded"),
            ("halve", "read", "failed"),
        }


@pytest.mark.spec("W18")
async def test_a_tool_that_requires_approval_needs_one_of_capset_s() -> None:
    imported = import_pydantic_ai_tools([Tool(halve, requires_approval=True)], name="shop", effect="write")
    async with opened(Agent("clerk", uses=[imported.capability])) as desk:
        session = desk.session.options(approvals="defer")
        message = session.message("halve", {"number": 8})
        refused = await session.try_message(message)
        assert isinstance(refused.error, ApprovalRequired)
        await decide(desk, str(refused.error.approval))
        assert (await session.try_message(message)).data == 4
    free = import_pydantic_ai_tools(
        [Tool(halve, requires_approval=True)], name="shop", effect="write", rules={"halve": {"approval": "auto"}}
    )
    assert free.tools["halve"].approval == "auto"


@pytest.mark.spec("W18")
def test_a_tool_that_is_prepared_for_each_step_is_refused() -> None:
    async def prepare(ctx: RunContext[Any], tool: ToolDefinition) -> ToolDefinition | None:
        return tool

    with pytest.raises(DefinitionError, match="'halve' has a prepare function"):
        import_pydantic_ai_tools([Tool(halve, prepare=prepare)], name="shop", effect="read")


@pytest.mark.spec("W18")
async def test_a_tool_that_defers_itself_says_so() -> None:
    def later() -> str:
        """Do it later."""
        raise CallDeferred

    imported = import_pydantic_ai_tools([later], name="shop", effect="write")
    async with opened(Agent("clerk", uses=[imported.capability])) as desk:
        result = await desk.session.try_message(desk.session.message("later", {}))
        assert result.error is not None
        assert result.error.message == "the tool defers its call, which only a run of pydantic-ai can"
