"""The contract with LlamaIndex, on its mock of a model that calls functions."""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import ANY

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.objects import ObjectRetriever
from llama_index.core.tools import BaseTool, FunctionTool, ToolMetadata, ToolOutput
from pydantic import ValidationError
from workflows import Context
from workflows.events import WorkflowIdleEvent
from workflows.handler import WorkflowHandler

from capset import Agent, Capability, ToolError
from capset.errors import DefinitionError, InternalError, InvalidArguments
from capset_frameworks.llama_index import (
    LLAMA_INDEX,
    CapsetFunctionAgent,
    ToolCallProgress,
    ToolCallSuspended,
    import_llama_index_tools,
)
from tests.helpers.frameworks.contract import AdapterContract
from tests.helpers.frameworks.driver import Call, Conversation, Driver, HeldTool, Read, Shown
from tests.helpers.frameworks.kit import INSTRUCTIONS, add, decide, office, paid, waiting
from tests.helpers.frameworks.pages import run_page
from tests.helpers.frameworks.travel import burn, plan, price
from tests.helpers.kernel.support import opened
from tests.waiting import until

pytestmark = [
    pytest.mark.clients,
    # LlamaIndex itself looks at every attribute of an agent, deprecated ones of pydantic too.
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
]


class Script:
    """The answers of a model, one a step, and what it was given for each."""

    def __init__(self, *answers: ChatMessage) -> None:
        self.answers = list(answers)
        self.given: list[tuple[list[ChatMessage], list[Any]]] = []
        self.model = MockFunctionCallingLLM(response_generator=self._answer)

    def _answer(self, messages: Sequence[ChatMessage], tools: Iterable[Any] = (), **_: Any) -> ChatMessage:
        self.given.append((list(messages), list(tools)))
        return self.answers[len(self.given) - 1]

    @property
    def shown(self) -> list[Shown]:
        return [_shown(*request) for request in self.given]


class LlamaIndexDriver(Driver):
    framework = LLAMA_INDEX

    async def run(self, *steps: Sequence[Call]) -> Conversation:
        self.script = Script(*(step(at, calls) for at, calls in enumerate(steps, 1)), say("done"))
        self.agent = CapsetFunctionAgent(name="clerk", llm=self.script.model, session=self.session, defers=self.defers)
        self.results: dict[str, ToolCallResult] = {}
        self.handler = begin(self.agent)
        self.waiting: list[ToolCallSuspended] = []
        return await self._go()

    async def resume(self) -> Conversation:
        waiting, self.waiting = self.waiting, []
        for event in waiting:
            self.handler.ctx.send_event(event.answered())
        return await self._go()

    async def _go(self) -> Conversation:
        """Go on to the end of the run, or until it is idle because it waits."""
        output: str | None = None
        try:
            async for event in self.handler.ctx.stream_events():
                if isinstance(event, ToolCallResult):
                    self.results[event.tool_id] = event
                elif isinstance(event, ToolCallProgress):
                    self.events.append((event.fraction, event.message))
                elif isinstance(event, ToolCallSuspended):
                    self.waiting.append(event)
                elif isinstance(event, WorkflowIdleEvent) and self.waiting:
                    break
            else:
                output = str(await self.handler)
        finally:
            if output is None and not self.waiting:
                await self.handler.cancel_run()
        return Conversation(
            self.script.shown, self._read(), [suspension.approval for suspension in self.waiting], output
        )

    def _read(self) -> list[Read]:
        """Return the results as the model read them last; it has them in the order in which they came."""
        texts = {
            str(message.additional_kwargs["tool_call_id"]): message.content or ""
            for message in self.script.given[-1][0]
            if message.role == "tool"
        }
        return [Read(text, self.results[call].tool_output.is_error) for call, text in sorted(texts.items())]

    async def take(self, name: str) -> HeldTool:
        agent = CapsetFunctionAgent(llm=Script().model, session=self.session, defers=self.defers)
        (matching,) = (tool for tool in await agent.get_tools() if tool.metadata.name == name)

        async def call(arguments: dict[str, Any], id: str) -> Read:
            output = await matching.acall(**arguments)
            return Read(output.content, output.is_error)

        return call

    async def run_id(self) -> str | None:
        return self.handler.run_id


class TestContract(AdapterContract):
    driver = LlamaIndexDriver


class Found(ObjectRetriever[BaseTool]):
    """A retriever of the framework's own that finds one tool."""

    def __init__(self) -> None:
        pass

    async def aretrieve(self, str_or_query_bundle: Any) -> list[BaseTool]:
        return [FunctionTool.from_defaults(plan)]


@pytest.mark.spec("W2", "W6")
async def test_results_have_the_records_ids() -> None:
    async with office() as desk:
        driver = LlamaIndexDriver(desk.session)
        await driver.run([("add", {"a": 1}), ("pay", {"sum": 500})])
        (succeeded,), (refused,) = await desk.records(tool="add"), await desk.records(tool="pay")
        metadata = {"untrusted": True, "record": succeeded.id, "data": 2}
        assert driver.results["call-1-1"].tool_output.raw_output == metadata
        raw = driver.results["call-1-2"].tool_output.raw_output
        assert (raw["code"], raw["approval"]) == ("approval_required", refused.approval)


@pytest.mark.spec("W2")
@pytest.mark.parametrize("text", ['{"sum": 7', '{"sum": 7}, {"sum": 8}', "[7]", ""])
async def test_arguments_that_break_off_are_not_completed(text: str) -> None:
    async with office() as desk:
        ran = await LlamaIndexDriver(desk.session).run([("pay", text), ("look", "")])
        assert "Invalid arguments for 'pay'" in ran.read[0].text
        assert paid == []
        assert ran.read[1].text == "nothing"


@pytest.mark.spec("W1", "W6")
async def test_its_own_prompt_tools_and_retriever_stay() -> None:
    script = Script(step(1, [("price", {"city": "Rome"}), ("plan", {"trip": 1}), ("add", {"a": 1})]), say("done"))
    async with office() as desk:
        agent = CapsetFunctionAgent(
            llm=script.model,
            session=desk.session,
            system_prompt="Be brief.",
            tools=[FunctionTool.from_defaults(async_fn=price)],
            tool_retriever=Found(),
        )
        result = await begin(agent)
        text = await desk.session.system_text()
        assert INSTRUCTIONS in text
        assert [view.system for view in script.shown] == [f"Be brief.\n\n{text}"] * 2
        assert [*script.shown[0].tools][:3] == ["price", "plan", "add"]
        assert sorted(call.tool_output.content for call in result.tool_calls)[1:] == ["4", ANY]
        assert len(await desk.records()) == 1
        without = CapsetFunctionAgent(llm=Script().model, session=desk.session, include_instructions=False)
        without.llm = (silent := Script(say("done"))).model
        await begin(without)
        assert silent.shown[0].system == ""


@pytest.mark.spec("W1", "W6")
async def test_agents_of_a_workflow_hand_over_to_one_with_a_session() -> None:
    first = Script(step(1, [("handoff", {"to_agent": "clerk", "reason": "it pays"})]))
    second = Script(step(2, [("pay", {"sum": 7})]), say("done"))
    async with office() as open_desk:
        desk = FunctionAgent(name="desk", description="Greets.", llm=first.model)
        clerk = CapsetFunctionAgent(name="clerk", description="Pays.", llm=second.model, session=open_desk.session)
        handler = begin(AgentWorkflow(agents=[desk, clerk], root_agent="desk"))
        assert str(await handler) == "done"
        (record,) = await open_desk.records()
        assert (record.correlation, record.causation) == (handler.run_id, "call-2-1")
        assert paid == [7]
        assert INSTRUCTIONS not in first.shown[0].system
        assert INSTRUCTIONS in second.shown[0].system


@pytest.mark.spec("W5")
async def test_a_suspended_run_goes_on_in_another_process() -> None:
    """Of the first run, only the text of its context and of its memory is left, as LlamaIndex has them stored."""
    async with office() as desk:
        memory = ChatMemoryBuffer.from_defaults()
        script = Script(step(1, [("add", {"a": 1}), ("pay", {"sum": 500})]))
        agent = CapsetFunctionAgent(llm=script.model, session=desk.session, defers=True)
        handler = begin(agent, memory=memory)
        suspensions: list[ToolCallSuspended] = []
        async for event in handler.ctx.stream_events():
            suspensions += [event] if isinstance(event, ToolCallSuspended) else []
            if isinstance(event, WorkflowIdleEvent):
                break
        with warnings.catch_warnings(action="ignore"):  # that the memory has to be stored beside it
            messages = [message.model_dump_json() for message in memory.get_all()]
            text = json.dumps([handler.ctx.to_dict(), messages, suspensions[0].model_dump()])
        await handler.cancel_run()
        assert paid == []

        stored_context, messages, details = json.loads(text)
        suspended = ToolCallSuspended(**details)
        await decide(desk, suspended.approval)
        last = Script(say("done"))
        other = CapsetFunctionAgent(llm=last.model, session=desk.session, defers=True)
        history = [ChatMessage.model_validate_json(message) for message in messages]
        context: Context[Any] = Context.from_dict(other, stored_context)
        resumed = other.run(ctx=context)  # pyright: ignore[reportDeprecated]  # as above
        await context.store.set("memory", ChatMemoryBuffer.from_defaults(history))
        context.send_event(suspended.answered())
        assert str(await resumed) == "done"
        assert paid == [500]
        details = [message for message in last.given[0][0] if message.role == "tool"]
        assert {
            str(message.additional_kwargs["tool_call_id"]): json.loads(message.content or "") for message in details
        } == {
            "call-1-1": 2,
            "call-1-2": {"paid": 500},
        }
        pending, succeeded = await desk.records(tool="pay")
        assert (pending.outcome, succeeded.outcome) == ("pending", "succeeded")
        assert pending.causation == succeeded.causation == "call-1-2"
        assert (pending.correlation, succeeded.correlation) == (handler.run_id, resumed.run_id)


@pytest.mark.spec("W4", "W5")
async def test_one_approval_lets_one_of_two_equal_calls_through() -> None:
    async with office() as desk:
        driver = LlamaIndexDriver(desk.session, defers=True)
        suspended = await driver.run([("pay", {"sum": 500}), ("pay", {"sum": 500})])
        assert len({*suspended.waiting}) == 1
        await decide(desk, suspended.waiting[0])
        ended = await driver.resume()
        assert (ended.output, paid) == ("done", [500])
        assert sorted(answer.failed or False for answer in ended.read) == [False, True]


@pytest.mark.spec("W6")
async def test_cancelling_who_awaits_a_run_cancels_its_call() -> None:
    async with office() as desk:
        agent = CapsetFunctionAgent(llm=Script(step(1, [("wait", {})])).model, session=desk.session)

        async def awaited() -> None:
            await begin(agent)

        task = asyncio.create_task(awaited())
        await until(lambda: waiting or task.done())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [record.outcome for record in await desk.records()] == ["cancelled"]


async def test_calls_of_a_session_are_async_and_by_name() -> None:
    async with office() as desk:
        agent = CapsetFunctionAgent(llm=Script().model, session=desk.session)
        add = next(tool for tool in await agent.get_tools() if tool.metadata.name == "add")
        with pytest.raises(TypeError, match=r"await tool\.acall"):
            add(a=1)
        with pytest.raises(TypeError, match="keyword arguments only"):
            await add.acall(1)
        assert agent.tool_retriever is not None
        with pytest.raises(TypeError, match="aretrieve"):
            agent.tool_retriever.retrieve("add")
        assert add.metadata.fn_schema is not None
        assert add.metadata.fn_schema.model_json_schema() == add.metadata.get_parameters_dict()


@pytest.mark.spec("W1")
async def test_one_tool_under_two_names_is_shown_by_both() -> None:
    uses = [Capability("kit", tools=[add]), Capability("other", tools=[add]).with_names(prefix="x_")]
    async with opened(Agent("clerk", uses=uses)) as desk:
        agent = CapsetFunctionAgent(llm=Script().model, session=desk.session)
        assert [tool.metadata.name for tool in await agent.get_tools()] == ["add", "x_add"]


def test_a_session_is_required() -> None:
    with pytest.raises(ValidationError, match="session"):
        CapsetFunctionAgent(llm=Script().model)


@pytest.mark.spec("W8")
async def test_tools_of_llama_index_are_tools_with_their_own_schemas() -> None:
    llama_tools = [
        FunctionTool.from_defaults(plan, partial_params={"note": "ours"}),
        FunctionTool.from_defaults(async_fn=price),
        FunctionTool.from_defaults(burn),
    ]
    imported = import_llama_index_tools(
        llama_tools, name="travel", effect="read", rules={"burn": {"effect": "destructive"}}
    )
    for tool in llama_tools:
        converted = imported.tools[tool.metadata.get_name()]
        assert converted.description == tool.metadata.description
        assert converted.arguments.json_schema == tool.metadata.get_parameters_dict()
    async with opened(Agent("clerk", uses=[imported.capability])) as desk:
        session, trip = desk.session, {"trip": {"city": "Rome"}}
        planned = await session.call(imported.tools["plan"], **trip)
        assert planned == {"trip": {"city": "Rome", "by": "train"}, "days": 2, "note": "ours", "main thread": False}
        assert await session.call(imported.tools["price"], city="Rome") == 4
        wrong = await session.try_call(imported.tools["plan"], trip={"city": "Rome", "by": "car"})
        assert isinstance(wrong.error, InvalidArguments)
        hidden = await session.try_call(imported.tools["plan"], note="theirs", **trip)
        assert "Invalid arguments for 'plan': note: no such parameter" in str(hidden.error)
        failed = await session.try_call(imported.tools["burn"], what="paper")
        assert isinstance(failed.error, InternalError)
        assert "secret" not in str(failed.error)
        records = {record.tool: record for record in await desk.records()}
        assert [records[name].effect for name in ("plan", "price", "burn")] == ["read", "read", "destructive"]


class Oracle(BaseTool):
    """A tool that is no function, is not async, and says itself when it failed."""

    @property
    def metadata(self) -> ToolMetadata:
        return ToolMetadata("Answer a question.", name="oracle")

    def __call__(self, input: Any) -> ToolOutput:
        if input == "image":
            return ToolOutput("oracle", raw_input={}, blocks=[ImageBlock(image=b"x")])
        is_error = input == "why"
        return ToolOutput("oracle", f"{input}: 42", raw_input={}, raw_output=object(), is_error=is_error)


@pytest.mark.spec("W8")
async def test_a_tool_that_is_no_function_answers_with_its_text() -> None:
    imported = import_llama_index_tools([Oracle()], name="oracles", effect="read")
    async with opened(Agent("clerk", uses=[imported.capability])) as desk:
        ask = imported.tools["oracle"]
        assert await desk.session.call(ask, input="what") == "what: 42"
        for question, message in (("why", "why: 42"), ("image", "neither text nor JSON data: image")):
            failed = await desk.session.try_call(ask, input=question)
            assert isinstance(failed.error, ToolError)
            assert message in failed.error.message


@pytest.mark.spec("W8")
def test_a_tool_that_takes_the_context_of_a_workflow_and_two_of_one_name_are_refused() -> None:
    async def remember(ctx: object, text: str) -> str:
        return text

    remember.__annotations__["ctx"] = Context  # LlamaIndex reads annotations as they stand
    with pytest.raises(DefinitionError, match="'remember' takes the Context of a workflow"):
        import_llama_index_tools([FunctionTool.from_defaults(async_fn=remember)], name="kit", effect="read")
    with pytest.raises(DefinitionError, match="plan"):  # two of one name
        import_llama_index_tools([FunctionTool.from_defaults(plan)] * 2, name="kit", effect="read")


async def test_the_page_runs_as_it_stands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(step(1, [("pay", {"sum": 7})]), say("The paper is paid."))
    script.answers += [step(1, [("pay", {"sum": 500})]), say("The desk is paid.")]
    provider = ModuleType("llama_index.llms.openai")
    vars(provider)["OpenAI"] = lambda model: script.model
    monkeypatch.setitem(sys.modules, "llama_index.llms.openai", provider)
    await run_page("llama-index", {}, capsys, tmp_path, monkeypatch)


def begin(workflow: FunctionAgent | AgentWorkflow, **options: Any) -> WorkflowHandler:
    """Have an agent begin."""
    return workflow.run(user_msg="go", **options)  # pyright: ignore[reportDeprecated]  # the other form, which it cannot tell apart


def step(at: int, calls: Sequence[Call]) -> ChatMessage:
    """Return the answer that makes these calls."""
    blocks = [
        ToolCallBlock(tool_call_id=f"call-{at}-{place}", tool_name=name, tool_kwargs=arguments)
        for place, (name, arguments) in enumerate(calls, 1)
    ]
    return ChatMessage(role="assistant", blocks=blocks)


def say(words: str) -> ChatMessage:
    """Return the answer that says this."""
    return ChatMessage(role="assistant", content=words)


def _shown(messages: Sequence[ChatMessage], tools: Sequence[Any]) -> Shown:
    system = "\n".join(message.content or "" for message in messages if message.role == "system")
    return Shown(system, {tool.metadata.name: tool.metadata.get_parameters_dict() for tool in tools})
