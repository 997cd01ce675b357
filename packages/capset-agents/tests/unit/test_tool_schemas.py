"""Turns with tools whose schemas providers refuse: the model is shown what they take, and its calls fit (K26)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo

from capset import Agent, Capability
from capset.definitions.tools.schema_tools import schema_tool
from capset.schemas.model_schemas import refused_keywords, refused_names
from capset.stores.base import AuditQuery
from capset_agents.budgets import TurnBudget
from capset_agents.playback.script_model import ScriptedModel
from capset_agents.playback.scripts import Call
from tests.helpers.agents.support import Shelf, site

EITHER: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"not": {"type": "null"}}},
    "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
}


class Watched(ScriptedModel):
    """A scripted model that keeps what it was shown."""

    def __init__(self, *moves: Call | str) -> None:
        super().__init__(*moves)
        self.shown: list[AgentInfo] = []

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.shown.append(info)
        return await super()._answer(messages, info)


@pytest.mark.spec("K26")
async def test_a_turn_calls_tools_whose_schemas_a_provider_refuses(url: str, shelf: Shelf) -> None:
    calls: list[dict[str, Any]] = []

    def note(params: dict[str, Any]) -> str:
        calls.append(params)
        return "done"

    filtered = {"$filter": {"type": "string", "required": True}}
    find = schema_tool(name="find", parameters=filtered, handler=note, description="Find.", effect="read")
    pick = schema_tool(name="pick", parameters=EITHER, handler=note, description="Pick.", effect="read")
    model = Watched(
        Call("find", filter="x eq 1"),
        Call("pick", arguments={"a": 1}),
        Call("pick", arguments={}),
        Call("pick", a=2),
        "Done.",
    )
    agent = Agent("finder", uses=[Capability("lib", tools=[find, pick])])
    async with site(url, shelf, [], agent=agent, model=model) as host:
        row = await host.session()
        turn = await host.say(row, "go")
        assert (await host.last(row))[1] == {"output": "Done."}
        refused = (await host.kernel.audit.query(AuditQuery(correlation=turn, outcome="invalid"))).items
    assert calls == [{"$filter": "x eq 1"}, {"a": 1}, {"a": 2}]
    assert [record.tool for record in refused] == ["pick"], "what fits the wrapper alone is for the kernel to refuse"
    definitions = {tool.name: tool for tool in model.shown[0].function_tools}
    for tool in definitions.values():
        schema = tool.parameters_json_schema
        assert (schema["type"], refused_keywords(schema), refused_names(schema)) == ("object", [], [])
    assert (definitions["find"].strict, definitions["pick"].strict) == (None, False)


@pytest.mark.spec("K26", "G22")
async def test_calls_that_are_refused_are_on_record_as_their_own_schema_has_them(url: str, shelf: Shelf) -> None:
    """So that what the schema declares secret is masked."""
    pick = schema_tool(
        name="pick", parameters=EITHER, handler=lambda params: "done", description="Pick.", effect="read"
    )
    agent = Agent("finder", uses=[Capability("lib", tools=[pick])])
    model = ScriptedModel([Call("pick", arguments={"a": 1}), Call("pick", arguments={"a": 2})])
    async with site(url, shelf, [], agent=agent, model=model, budget=TurnBudget(calls=1)) as host:
        turn = await host.say(await host.session(), "go")
        await host.kernel.audit.flush()
        records = (await host.kernel.audit.query(AuditQuery(correlation=turn, outcome="limited"))).items
    assert sorted(json.loads(record.arguments)["a"] for record in records) == [1, 2]
