"""Agents that are tools of other agents: one record, rights and budgets of the caller (spec 6, R23)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from capset import Agent, Capability, tool
from capset.definitions.governance.allowances import Allowance
from capset.definitions.governance.settings import Governance
from capset.flows import as_tool
from capset.stores.base import AuditQuery
from capset_agents.budgets import TurnBudget
from tests.helpers.agents.support import Shelf, site


@tool(effect="read")
def look(text: str) -> str:
    """Look at something.

    Args:
        text: At what.
    """
    return f"seen {text}"


@tool(effect="write", permissions={"vault:open"})
def unlock(text: str) -> str:
    """Open the vault.

    Args:
        text: Why.
    """
    return "open"


def house(*tools: Any) -> Agent:
    """Return an agent whose only tool is another agent."""
    helper = Agent("helper", description="Helps.", system_prompt="Help.", uses=[Capability("kit", tools=tools)])
    staff = Capability("staff", tools=[as_tool(helper, effect="write")])
    return Agent("head", system_prompt="Have others work.", uses=[staff])


def model(*, rounds: int = 1) -> FunctionModel:
    """Return a model that calls the first tool so often, and then says what it was given last."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        returns = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        if not info.function_tools:
            return ModelResponse(parts=[TextPart("nothing to work with")])
        name = info.function_tools[0].name
        if len(returns) >= (1 if name == "helper" else rounds):
            return ModelResponse(parts=[TextPart(f"{name}: {returns[-1].content}")])
        arguments = {"input": "go"} if name == "helper" else {"text": str(len(returns))}
        return ModelResponse(parts=[ToolCallPart(name, arguments)])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        (part,) = answer(messages, info).parts
        if isinstance(part, TextPart):
            yield part.content
        elif isinstance(part, ToolCallPart):
            yield {0: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=f"call-{len(messages)}")}

    return FunctionModel(answer, stream_function=stream)


@pytest.mark.spec("R23")
async def test_an_agent_works_for_another_with_the_same_rights_and_correlation(url: str, shelf: Shelf) -> None:
    async with site(url, shelf, [], agent=house(look), model=model()) as host:
        row = await host.session()
        turn = await host.say(row, "go")
        assert (await host.last(row))[1] == {"output": "helper: look: seen 0"}
        await host.kernel.audit.flush()
        records = (await host.kernel.audit.query(AuditQuery())).items
        outcomes = {record.tool: (record.outcome, record.correlation) for record in records if record.phase != "intent"}
        assert outcomes == {"helper": ("succeeded", turn), "look": ("succeeded", turn)}
    async with site(url, shelf, [], agent=house(unlock), model=model()) as second_host:
        row = await second_host.session()
        await second_host.say(row, "go")
        assert (await second_host.last(row))[1] == {"output": "helper: nothing to work with"}


@pytest.mark.spec("R23")
async def test_what_an_agent_uses_for_another_comes_from_the_budget_of_both(url: str, shelf: Shelf) -> None:
    async with site(url, shelf, [], agent=house(look), model=model(rounds=30), budget=TurnBudget(steps=6)) as host:
        row = await host.session()
        await host.say(row, "go")
        kind, data = await host.last(row)
        assert (kind, data["error"]["code"]) == ("turn.failed", "budget_exceeded")
        await host.kernel.audit.flush()
        records = (await host.kernel.audit.query(AuditQuery(tool="look"))).items
        assert len(records) == 5, "one step of the six was the head's"


@pytest.mark.spec("R24")
@pytest.mark.parametrize(("steps", "ends"), [(3, "budget_exceeded"), (4, None)])
async def test_what_an_agent_uses_for_another_counts_once(url: str, shelf: Shelf, steps: int, ends: str | None) -> None:
    """Two steps of each of the two."""
    governance = Governance(allowance=Allowance(usage=f"steps={steps}/1h"))
    async with site(url, shelf, [], agent=house(look), model=model(), governance=governance) as host:
        row = await host.session()
        await host.say(row, "go")
        assert (await host.last(row))[1].get("error", {}).get("code") == ends
