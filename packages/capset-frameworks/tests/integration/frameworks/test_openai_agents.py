"""The contract with the OpenAI Agents SDK, on its scripted model."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
from agents import (
    FunctionTool,
    RunConfig,
    Runner,
    RunResult,
    RunState,
    ToolGuardrailFunctionOutput,
    WebSearchTool,
    function_tool,
    set_trace_processors,
    tool_input_guardrail,
    trace,
)
from agents.items import ToolCallOutputItem
from agents.run_context import RunContextWrapper
from agents.testing.model import ModelCall, ModelStep, ScriptedModel
from agents.tool_context import ToolContext
from agents.tracing import TracingProcessor
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from pydantic import AfterValidator, BaseModel

import capset
from capset.errors import DefinitionError
from capset_frameworks.openai_agents import OPENAI_AGENTS, CapsetAgent, import_agents_tools
from capset_frameworks.session_tools import SessionTools
from tests.helpers.frameworks.contract import AdapterContract
from tests.helpers.frameworks.driver import Call, Conversation, Driver, HeldTool, Read, Shown
from tests.helpers.frameworks.kit import decide, office, paid
from tests.helpers.frameworks.pages import run_page
from tests.helpers.kernel.support import opened

pytestmark = [pytest.mark.clients]


class OpenAIAgentsDriver(Driver):
    framework = OPENAI_AGENTS
    misses: ClassVar = {"streamed": "the SDK's function tools have no progress"}

    async def run(self, *steps: Sequence[Call]) -> Conversation:
        self.model = scripted(steps)
        self.agent = CapsetAgent(name="clerk", model=self.model, session=self.session, defers=self.defers)
        self.result: RunResult | None = None
        return await self._go("go")

    async def resume(self) -> Conversation:
        assert self.result is not None
        state = self.result.to_state()
        for item in self.result.interruptions:
            state.approve(item)
        return await self._go(state)

    async def _go(self, start: str | RunState[Any]) -> Conversation:
        with trace("clerk") as running:
            self._trace = running.trace_id
            self.result = result = await Runner.run(self.agent, start)
        ran = Conversation([_shown(call) for call in self.model.calls])
        for item in result.new_items:
            if isinstance(item, ToolCallOutputItem):
                ran.read.append(Read(str(item.output)))
        if result.interruptions:
            ran.waiting = [str(self.agent.approval_of(_call_id(item.raw_item))) for item in result.interruptions]
        else:
            ran.output = str(result.final_output)
        return ran

    async def take(self, name: str) -> HeldTool:
        agent = CapsetAgent(name="clerk", session=self.session, defers=self.defers)
        tools = await agent.get_all_tools(RunContextWrapper(None))
        (matching,) = (tool for tool in tools if isinstance(tool, FunctionTool) and tool.name == name)

        async def call(arguments: dict[str, Any], id: str) -> Read:
            text = json.dumps(arguments)
            context = ToolContext(context=None, tool_name=name, tool_call_id=id, tool_arguments=text)
            return Read(str(await matching.on_invoke_tool(context, text)))

        return call

    async def run_id(self) -> str | None:
        return self._trace


class TestContract(AdapterContract):
    driver = OpenAIAgentsDriver


@pytest.fixture(autouse=True)
def spans() -> Iterator[SpanNames]:
    """Keep the traces here: by default the SDK sends them to its maker."""
    processor = SpanNames()
    set_trace_processors([processor])
    yield processor
    set_trace_processors([])


async def test_refusals_stand_among_the_guardrail_results() -> None:
    async with office() as desk:
        driver = OpenAIAgentsDriver(desk.session)
        await driver.run([("pay", {"sum": 500})], [("add", {"a": 1})])
        assert driver.result is not None
        refused, succeeded = driver.result.tool_output_guardrail_results
        record, _ = await desk.records()
        assert refused.output.behavior["type"] == "reject_content"
        metadata = {"untrusted": True, "record": record.id, "code": "approval_required", "approval": record.approval}
        assert refused.output.output_info == metadata
        assert succeeded.output.behavior["type"] == "allow"


async def test_spans_of_the_trace_have_the_records_ids(spans: SpanNames) -> None:
    async with office() as desk:
        await OpenAIAgentsDriver(desk.session).run([("add", {"a": 1})])
        (record,) = await desk.records()
        assert [span["data"] for span in spans.custom] == [{"tool": "add", "untrusted": True, "record": record.id}]


async def test_a_suspended_run_goes_on_in_another_process() -> None:
    """Of the first run, only the text of its state is left."""
    async with office() as desk:
        driver = OpenAIAgentsDriver(desk.session, defers=True)
        suspended = await driver.run([("pay", {"sum": 500})])
        assert driver.result is not None
        text = driver.result.to_state().to_string()
        await decide(desk, suspended.waiting[0])
        other = CapsetAgent(name="clerk", model=ScriptedModel([_done()]), session=desk.session, defers=True)
        state: RunState[Any] = await RunState.from_string(other, text)
        for item in state.get_interruptions():
            state.approve(item)
        result = await Runner.run(other, state)
        assert (result.final_output, paid) == ("done", [500])


async def test_arguments_that_are_not_an_object_interrupt_with_nothing_to_decide() -> None:
    """The SDK does not ask its tools then; once the call is approved there, the kernel refuses it."""
    async with office() as desk:
        driver = OpenAIAgentsDriver(desk.session, defers=True)
        suspended = await driver.run([("add", "[1, 2")])
        assert suspended.waiting == ["None"]
        ended = await driver.resume()
        assert "Invalid arguments for 'add'" in ended.read[-1].text
        assert [record.outcome for record in await desk.records()] == ["invalid"]


async def test_two_tools_of_one_name_are_refused() -> None:
    @function_tool
    def own() -> str:
        """Be the first."""
        return "first"

    with pytest.raises(DefinitionError, match="own"):
        import_agents_tools([own, own], name="theirs", effect="read")


async def test_its_own_instructions_and_tools_stay() -> None:
    @function_tool
    def own() -> str:
        """Be of the agent's own."""
        return "own"

    model = ScriptedModel([_step(1, [("own", {}), ("add", {"a": 1})]), _done()])
    async with office() as desk:
        agent = CapsetAgent(
            name="clerk", model=model, session=desk.session, instructions="Be brief.", tools=[own]
        ).clone(include_instructions=False)
        result = await Runner.run(agent, "go")
        assert model.calls[0].system_instructions == "Be brief."
        assert next(entry.output for entry in result.new_items if isinstance(entry, ToolCallOutputItem)) == "own"
        assert len(await desk.records()) == 1


async def test_without_a_trace_records_have_ids_of_their_own() -> None:
    async with office() as desk:
        agent = CapsetAgent(
            name="clerk", model=ScriptedModel([_step(1, [("add", {"a": 1})]), _done()]), session=desk.session
        )
        await Runner.run(agent, "go", run_config=RunConfig(tracing_disabled=True))
        (record,) = await desk.records()
        assert record.causation == "call-1-1"
        assert record.correlation != "no-op"


class Parcel(BaseModel):
    weight: float
    marks: list[str]


@function_tool(strict_mode=False)
def weigh(parcel: Parcel, times: int = 1, note: str | None = None) -> dict[str, object]:
    """Weigh a parcel.

    Args:
        parcel: what to weigh
    """
    assert threading.current_thread() is not threading.main_thread()
    return {"weight": parcel.weight * times, "marks": parcel.marks, "note": note}


@function_tool(name_override="ship-it", needs_approval=True, timeout=7)
async def ship(context: RunContextWrapper[str], to: str) -> str:
    """Ship a parcel."""
    return f"shipped to {to} by {context.context}"


@function_tool
async def lose() -> str:
    """Lose a parcel."""
    raise RuntimeError("/secret/path is gone")


def positive(year: int) -> int:
    if year < 0:
        raise ValueError("years are positive")
    return year


@function_tool(failure_error_function=None)
async def lose_loudly(year: Annotated[int, AfterValidator(positive)]) -> str:
    """Lose a parcel, and raise."""
    raise RuntimeError("/secret/path is gone")


@pytest.mark.spec("W8")
async def test_tools_of_the_sdk_become_tools_here() -> None:
    imported = import_agents_tools(
        [weigh, ship, lose, lose_loudly], name="parcels", effect="write", context="a van", rules={"*": {"timeout": 9.0}}
    )
    assert imported.tools["weigh"].description == "Weigh a parcel."
    properties = imported.tools["weigh"].arguments.json_schema["properties"]
    assert properties == weigh.params_json_schema["properties"]
    assert [imported.tools[name].timeout for name in ("weigh", "ship-it")] == [9.0, 7.0]
    async with opened(capset.Agent("clerk", uses=[imported.capability])) as desk:
        tools = SessionTools(desk.session)
        weighed = await tools.call("weigh", {"parcel": {"weight": 2, "marks": ["x"]}, "times": 3})
        assert weighed.data == {"weight": 6.0, "marks": ["x"], "note": None}
        assert (await tools.call("weigh", {"parcel": {}})).text.startswith("Invalid arguments")
        suspended = await tools.call("ship-it", {"to": "Ada"})
        assert suspended.approval is not None
        await decide(desk, suspended.approval)
        assert (await tools.call("ship-it", {"to": "Ada"})).data == "shipped to Ada by a van"
        for name, arguments in (("lose", {}), ("lose_loudly", {"year": 2001})):
            broken = await tools.call(name, arguments)
            assert "secret" not in broken.text
            assert "failed" in broken.text
        assert "Invalid JSON input for tool lose_loudly" in (await tools.call("lose_loudly", {"year": -1})).text
        records = await desk.records()
        assert {record.effect for record in records} == {"write"}
        outcomes = ["succeeded", "invalid", "pending", "succeeded", "failed", "failed", "failed"]
        assert [record.outcome for record in records] == outcomes


@pytest.mark.spec("W8")
def test_tools_that_only_a_run_can_call_are_refused() -> None:
    for tool, message in (
        (WebSearchTool(), "'web_search' is a WebSearchTool"),
        (replace(lose, is_enabled=lambda *_: True), "'lose' is not always enabled"),
        (replace(lose, tool_input_guardrails=[nothing]), "'lose' has tool_input_guardrails"),
    ):
        with pytest.raises(DefinitionError, match=message):
            import_agents_tools([tool], name="kit", effect="read")


@tool_input_guardrail
def nothing(data: object) -> ToolGuardrailFunctionOutput:
    return ToolGuardrailFunctionOutput.allow()


async def test_the_page_runs_as_it_stands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedModel([_step(1, [("pay", {"sum": 7})]), _say("The paper is paid.")])
    model.extend([_step(1, [("pay", {"sum": 500})]), _say("The desk is paid.")])
    await run_page("openai-agents", {"gpt-5.4": model}, capsys, tmp_path, monkeypatch)


def test_a_session_is_required() -> None:
    with pytest.raises(DefinitionError, match="takes a session"):
        CapsetAgent(name="clerk")


class SpanNames(TracingProcessor):
    """Keeps the spans that adapters add."""

    def __init__(self) -> None:
        self.custom: list[dict[str, Any]] = []

    def on_span_end(self, span: Any) -> None:
        if span.span_data.type == "custom":
            self.custom.append(span.span_data.export())

    def on_span_start(self, span: Any) -> None:
        pass

    def on_trace_start(self, trace: Any) -> None:
        pass

    def on_trace_end(self, trace: Any) -> None:
        pass

    def shutdown(self) -> None:
        pass

    def force_flush(self) -> None:
        pass


def scripted(steps: Sequence[Sequence[Call]]) -> ScriptedModel:
    """Return a model that makes these calls, those of one list a step, then says "done"."""
    return ScriptedModel([*(_step(at, calls) for at, calls in enumerate(steps, 1)), _done()])


def _step(at: int, calls: Sequence[Call]) -> ModelStep:
    tool_calls = [
        ResponseFunctionToolCall(
            type="function_call",
            call_id=f"call-{at}-{place}",
            name=name,
            arguments=arguments if isinstance(arguments, str) else json.dumps(arguments),
        )
        for place, (name, arguments) in enumerate(calls, 1)
    ]
    return ModelStep(output=tool_calls)


def _done() -> ModelStep:
    return _say("done")


def _say(words: str) -> ModelStep:
    text = ResponseOutputText(type="output_text", text=words, annotations=[])
    return ModelStep(
        output=[ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])]
    )


def _shown(call: ModelCall) -> Shown:
    tools = {tool.name: tool.params_json_schema for tool in call.tools if isinstance(tool, FunctionTool)}
    return Shown(call.system_instructions or "", tools)


def _call_id(raw: Any) -> str:
    return str(raw.get("call_id") if isinstance(raw, dict) else raw.call_id)
