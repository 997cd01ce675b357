"""A run of an agent is one tree of spans: the agent, its requests to the model, its calls, the agents in these."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from capset import Agent, Capability
from capset.flows import as_tool
from capset_agents.models import ModelChoice
from capset_agents.playback.scripts import Call, Script, ScriptStep
from tests.helpers.agents.support import Shelf, site
from tests.traces import Traces, said

pytestmark = pytest.mark.spec("P100")


async def test_a_turn_is_a_tree_of_agents_models_and_calls(url: str, shelf: Shelf) -> None:
    helper = shelf.agent("helper")
    works = as_tool(helper, effect="write", description="Works.")
    head = Agent("head", system_prompt="Have others work.", uses=[Capability("staff", tools=[works])])
    asks: Any = {"calls": [{"tool": "helper", "arguments": {"input": "go"}}]}
    puts: Any = {"calls": [{"tool": "put", "arguments": {"text": "secret words"}}]}
    steps = {
        "head": [ScriptStep(**asks), ScriptStep(text="Done.")],
        "helper": [ScriptStep(**puts), ScriptStep(text="So.")],
    }
    traces = Traces()
    async with site(url, shelf, [], agent=head, model=ModelChoice(Script(steps))) as host:  # pyright: ignore[reportArgumentType]
        with host.kernel.observe(traces.observer()):
            row = await host.session()
            turn = await host.say(row, "go")
    (model,) = {span.name for span in traces.spans if span.name.startswith("chat ")}
    assert traces.tree == [
        "invoke_agent head",
        f"  {model}",
        "  execute_tool helper",
        "    invoke_agent helper",
        f"      {model}",
        "      execute_tool put",
        f"      {model}",
        f"  {model}",
    ]
    agent, chat, *_ = traces.spans
    assert said(agent) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "head",
        "gen_ai.conversation.id": row.id,
        "capset.correlation": turn,
    }
    assert chat.kind is SpanKind.CLIENT
    assert said(chat)["gen_ai.operation.name"] == "chat"
    assert said(chat)["gen_ai.usage.output_tokens"] > 0
    assert "secret words" not in traces.text


async def test_a_turn_that_waits_is_no_error_and_one_that_fails_is(url: str, shelf: Shelf) -> None:
    traces = Traces()
    async with site(url, shelf, [Call("burn", text="b")]) as host:
        with host.kernel.observe(traces.observer()):
            row = await host.session()
            await host.say(row, "burn it")
            (waiting,) = [span for span in traces.spans if span.name == "invoke_agent scribe"]
            assert waiting.status.status_code is not StatusCode.ERROR
            traces.exporter.clear()
            await host.approve()
            await host.go_on()  # the script has no further step
            (failed,) = [span for span in traces.spans if span.name == "invoke_agent scribe"]
            assert failed.status.status_code is StatusCode.ERROR
            assert said(failed)["error.type"]
