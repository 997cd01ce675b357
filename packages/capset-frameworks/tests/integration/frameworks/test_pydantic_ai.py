"""The contract with pydantic-ai, on its function model: the capability, and the toolset alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pydantic_ai
import pytest
from pydantic_ai import (
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    ToolFailed,
)
from pydantic_ai.capabilities import PrepareTools
from pydantic_ai.messages import (
    AgentStreamEvent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RunUsage

from capset import Agent, Capability, Context, ContextMessage
from capset.errors import ContextError
from capset_frameworks.pydantic_ai import (
    PYDANTIC_AI,
    CapabilityCallEvent,
    CapsetCapability,
    CapsetToolset,
    SessionCallEvent,
)
from tests.helpers.frameworks.contract import AdapterContract
from tests.helpers.frameworks.driver import Call, Conversation, Driver, HeldTool, Read, Shown
from tests.helpers.frameworks.kit import add, decide, notes, office, paid
from tests.helpers.frameworks.pages import run_page
from tests.helpers.frameworks.support import Scripted, returns
from tests.helpers.kernel.support import opened


class CapabilityDriver(Driver):
    framework = PYDANTIC_AI
    event: ClassVar[type[SessionCallEvent] | type[CapabilityCallEvent]] = CapabilityCallEvent

    async def run(self, *steps: Sequence[Call]) -> Conversation:
        self.script = Scripted(*steps)
        self.agent = pydantic_ai.Agent(self.script.model, output_type=[str, DeferredToolRequests])
        return await self._go(user_prompt="go")

    async def resume(self) -> Conversation:
        assert isinstance(self.result.output, DeferredToolRequests)
        approvals: dict[str, Any] = {call.tool_call_id: True for call in self.result.output.approvals}
        return await self._go(
            message_history=self.result.all_messages(), deferred_tool_results=DeferredToolResults(approvals=approvals)
        )

    def given(self) -> dict[str, Any]:
        """Return what a run is given of the session."""
        return {"capabilities": [CapsetCapability(self.session, defers=self.defers)]}

    async def _go(self, **start: Any) -> Conversation:
        async with self.agent.iter(**start, **self.given()) as run:
            async for node in run:
                if pydantic_ai.Agent.is_call_tools_node(node):
                    async with node.stream(run.ctx) as events:
                        async for event in events:
                            self._hear(event)
        assert run.result is not None
        self.result: AgentRunResult[Any] = run.result
        read = [
            Read(part.model_response_str(), part.outcome == "failed") for part in returns(self.result.all_messages())
        ]
        views = [
            Shown(info.instructions or "", {tool.name: tool.parameters_json_schema for tool in info.function_tools})
            for info in self.script.shown
        ]
        output = self.result.output
        if isinstance(output, DeferredToolRequests):
            return Conversation(
                views, read, [output.metadata[approval.tool_call_id]["approval"] for approval in output.approvals]
            )
        return Conversation(views, read, output=output)

    def _hear(self, event: AgentStreamEvent) -> None:
        if isinstance(event, self.event) and event.type == "progress":
            assert isinstance(event.content, dict)
            assert (event.tool_name, event.tool_call_id) == ("count", "call-1-1")
            fraction: Any = event.content["fraction"]
            self.events.append((fraction, str(event.content["message"])))

    async def take(self, name: str) -> HeldTool:
        toolset = CapsetToolset(self.session, defers=self.defers)
        toolset_tool = (await toolset.get_tools(RunContext(deps=None, model=TestModel(), usage=RunUsage())))[name]

        async def call(arguments: dict[str, Any], id: str) -> Read:
            ctx = RunContext[object](deps=None, model=TestModel(), usage=RunUsage(), tool_call_id=id)
            try:
                returned = await toolset.call_tool(name, arguments, ctx, toolset_tool)
            except ToolFailed as error:
                return Read(error.message, failed=True)
            return Read(ToolReturnPart(name, returned.return_value, id).model_response_str(), failed=False)

        return call

    async def run_id(self) -> str | None:
        return self.result.run_id


class ToolsetDriver(CapabilityDriver):
    event = SessionCallEvent

    def given(self) -> dict[str, Any]:
        return {"toolsets": [CapsetToolset(self.session, defers=self.defers)]}


class TestContract(AdapterContract):
    driver = CapabilityDriver


class TestToolsetContract(AdapterContract):
    driver = ToolsetDriver


# What the capability gives


@pytest.mark.spec("W17")
async def test_all_of_a_step_is_resolved_once_and_given() -> None:
    steps: list[object] = []

    def rules(input: object, ctx: Context) -> list[ContextMessage | str]:
        steps.append(input)
        return [ContextMessage("user", f"Rule {len(steps)}?"), ContextMessage("assistant", "Yes."), "It is late."]

    kit = Capability("kit", tools=[add], context=[rules], model_settings={"temperature": 0.5, "seed": 1})
    async with opened(Agent("clerk", system_prompt="Count.", uses=[kit])) as desk:
        histories: list[list[ModelMessage]] = []
        settings: list[Any] = []

        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            histories.append(messages)
            settings.append({key: (info.model_settings or {}).get(key) for key in ("temperature", "seed")})
            return ModelResponse(
                [ToolCallPart("add", {"a": len(histories)})] if len(histories) == 1 else [TextPart("done")]
            )

        agent = pydantic_ai.Agent(FunctionModel(answer), instructions="Be brief.", model_settings={"seed": 7})
        capability = CapsetCapability(desk.session)
        result = await agent.run("go", capabilities=[capability], model_settings={"temperature": 0.1})
        assert steps == ["go", "go"], "once a step"
        for step, messages in enumerate(histories, 1):
            question, reply, first, *_ = messages
            assert [type(part).__name__ for part in (*question.parts, *reply.parts)] == ["UserPromptPart", "TextPart"]
            assert question.parts[0].content == f"Rule {step}?"  # pyright: ignore[reportAttributeAccessIssue]
            assert isinstance(first, ModelRequest)
            assert first.parts[0].content == "go"  # pyright: ignore[reportAttributeAccessIssue]
            assert isinstance(messages[-1], ModelRequest)
            instructions = messages[-1].instructions or ""
            assert all(part in instructions for part in ("Be brief.", "Count.", "It is late."))
        assert settings == [{"temperature": 0.1, "seed": 1}] * 2, "a run's own come first"
        assert "Rule" not in str(result.all_messages()), "they are not kept in the conversation"


@pytest.mark.spec("W17")
async def test_a_context_that_fails_ends_the_run_named() -> None:
    def broken() -> str:
        raise RuntimeError("hunter2")

    async with opened(Agent("clerk", uses=[Capability("kit", context=[broken])])) as desk:
        with pytest.raises(ContextError, match=r"broken\(\) of capability 'kit'"):
            await pydantic_ai.Agent(Scripted().model, capabilities=[CapsetCapability(desk.session)]).run("go")


@pytest.mark.spec("W17")
async def test_a_call_of_a_tool_that_is_not_in_play_is_refused_on_record() -> None:
    def own() -> str:
        return "own"

    async with office() as desk:
        script = Scripted([("note", {"text": "x"}), ("own", {}), ("nothing", "{"), ("add", {"a": 1})])
        agent = pydantic_ai.Agent(script.model, tools=[own], capabilities=[CapsetCapability(desk.session)])
        result = await agent.run("go")
        assert (result.output, notes) == ("done", [])
        records = {
            record.causation: (record.tool, record.outcome, record.correlation) for record in await desk.records()
        }
        assert records == {
            "call-1-1": ("note", "denied", result.run_id),
            "call-1-3": ("nothing", "not_found", result.run_id),
            "call-1-4": ("add", "succeeded", result.run_id),
        }


@pytest.mark.spec("W17")
async def test_a_tool_in_play_that_another_capability_hides_is_not_run() -> None:
    async def hide(ctx: RunContext[object], tools: list[ToolDefinition]) -> list[ToolDefinition]:
        return [tool for tool in tools if tool.name != "pay"]

    async with office() as desk:
        script = Scripted([("pay", {"sum": 500})])
        agent = pydantic_ai.Agent(script.model, capabilities=[CapsetCapability(desk.session), PrepareTools(hide)])
        assert (await agent.run("go")).output == "done"
        assert (paid, await desk.records()) == ([], [])


@pytest.mark.spec("W17")
async def test_one_capability_serves_runs_side_by_side() -> None:
    """Each has steps of its own: the first waits in its second step while the other one begins."""
    async with office(dynamic=True) as desk:
        gate = asyncio.Event()
        visibility: dict[str, list[bool]] = {"first": [], "second": []}

        async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            name = str(messages[0].parts[0].content)  # pyright: ignore[reportAttributeAccessIssue]
            visibility[name].append(any(tool.name == "run" for tool in info.function_tools))
            if name == "first" and len(visibility[name]) == 1:
                await gate.wait()
                return ModelResponse([ToolCallPart("run", {}, "call-1")])
            if name == "second" and len(visibility[name]) == 1:
                return ModelResponse([ToolCallPart("hurry", {}, "call-2")])
            gate.set()
            return ModelResponse([TextPart("done")])

        agent = pydantic_ai.Agent(FunctionModel(answer), capabilities=[CapsetCapability(desk.session)])
        await asyncio.gather(agent.run("first"), agent.run("second"))
        assert visibility == {"first": [False, True], "second": [False, True]}
        records = {record.causation: (record.tool, record.outcome) for record in await desk.records()}
        assert records == {"call-2": ("hurry", "succeeded")}, (
            "a tool that was not shown is not run, though it is in play by now"
        )


@pytest.mark.spec("W5", "W17")
async def test_a_suspended_run_goes_on_in_another_process() -> None:
    """Of the first run only its messages are left, as JSON; the call of an unknown tool has one record."""
    async with office() as desk:
        driver = CapabilityDriver(desk.session, defers=True)
        suspended = await driver.run([("pay", {"sum": 7}), ("pay", {"sum": 500}), ("nothing", {})])
        stored = ModelMessagesTypeAdapter.dump_json(driver.result.all_messages())
        await decide(desk, suspended.waiting[0])
        agent = pydantic_ai.Agent(Scripted().model, capabilities=[CapsetCapability(desk.session, defers=True)])
        done = await agent.run(
            message_history=ModelMessagesTypeAdapter.validate_json(stored),
            deferred_tool_results=DeferredToolResults(approvals={"call-1-2": True}),
            output_type=[str, DeferredToolRequests],
        )
        assert (done.output, paid) == ("done", [7, 500])
        assert [record.outcome for record in await desk.records(tool="nothing")] == ["not_found"]


@pytest.mark.spec("W17")
async def test_streamed_runs_have_it_too() -> None:
    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[DeltaToolCalls | str]:
        if len(messages) == 1:
            yield {
                0: DeltaToolCall("add", '{"a": 1}', tool_call_id="a"),
                1: DeltaToolCall("nothing", "{}", tool_call_id="b"),
            }
        else:
            yield "done"

    async with office() as desk:
        agent = pydantic_ai.Agent(FunctionModel(stream_function=stream), capabilities=[CapsetCapability(desk.session)])
        async with agent.run_stream("go") as running:
            assert await running.get_output() == "done"
        assert {record.causation: record.outcome for record in await desk.records()} == {
            "a": "succeeded",
            "b": "not_found",
        }


async def test_the_page_runs_as_it_stands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        first, last = messages[0].parts[0], messages[-1].parts[-1]
        assert isinstance(first, UserPromptPart)
        article = "desk" if "desk" in str(first.content) else "paper"
        if not isinstance(last, ToolReturnPart):
            return ModelResponse([ToolCallPart("pay", {"sum": 500 if article == "desk" else 7}, "call-1")])
        return ModelResponse([TextPart(f"The {article} is paid.")])

    await run_page("pydantic-ai", {"anthropic:claude-sonnet-5-5": FunctionModel(answer)}, capsys, tmp_path, monkeypatch)
