"""The contract with the Agent Development Kit, on a model that follows a script."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner, Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.google_search_tool import google_search
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai.types import Content, FunctionCall, FunctionDeclaration, FunctionResponse, Part, Schema, Type
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import Field

from capset import Agent, Kernel, Principal, ToolError
from capset.errors import DefinitionError, InternalError, InvalidArguments
from capset_frameworks.google_adk import GOOGLE_ADK, PROGRESS, SessionToolset, import_adk_tools
from tests.helpers.frameworks.contract import AdapterContract
from tests.helpers.frameworks.driver import Call, Conversation, Driver, HeldTool, Read, Shown
from tests.helpers.frameworks.kit import INSTRUCTIONS, decide, office, paid
from tests.helpers.frameworks.pages import run_page
from tests.helpers.frameworks.travel import burn, plan, price
from tests.helpers.kernel.support import records_of

pytestmark = [pytest.mark.clients]


class ScriptedLlm(BaseLlm):
    """A model that gives these answers, one a step, and keeps what it was given for each."""

    model: str = "script"
    answers: list[Content] = Field(default_factory=list[Content])
    shown: list[Shown] = Field(default_factory=list[Shown])
    read: list[FunctionResponse] = Field(default_factory=list[FunctionResponse])
    """The results that it was given last."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.shown.append(_shown(llm_request))
        self.read = [
            part.function_response
            for content in llm_request.contents
            for part in content.parts or []
            if part.function_response is not None
        ]
        yield LlmResponse(content=self.answers[len(self.shown) - 1])


class GoogleADKDriver(Driver):
    framework = GOOGLE_ADK
    misses: ClassVar = {
        "no_object": "the ADK's models hand over objects alone: its LiteLlm ends a step with MALFORMED_FUNCTION_CALL",
    }

    async def run(self, *steps: Sequence[Call]) -> Conversation:
        self.model = ScriptedLlm(answers=[*(step(at, calls) for at, calls in enumerate(steps, 1)), say("done")])
        tools = SessionToolset(self.session, defers=self.defers)
        self.runner = runner_of(LlmAgent(name="clerk", model=self.model, tools=[tools]))
        self.asked: dict[str, str] = {}
        return await self._go(Part(text="go"), is_new=True)

    async def resume(self) -> Conversation:
        requests, self.asked = self.asked, {}
        return await self._go(*(confirm(request) for request in requests))

    async def _go(self, *parts: Part, is_new: bool = False) -> Conversation:
        ran = Conversation()
        async for event in stream(self.runner, *parts, is_new=is_new):
            self.invocation = event.invocation_id
            self.asked |= requests_in(event)
            if progress := (event.custom_metadata or {}).get(PROGRESS):
                self.events.append((progress["fraction"], progress["message"]))
            if event.is_final_response() and (text := _text(event.content)):
                ran.output = text
        ran.shown = self.model.shown
        ran.read = [_read(response.response or {}) for response in self.model.read]
        ran.waiting = [*self.asked.values()]
        return ran

    async def take(self, name: str) -> HeldTool:
        (matching,) = (tool for tool in await SessionToolset(self.session).get_tools() if tool.name == name)

        async def call(arguments: dict[str, Any], id: str) -> Read:
            context = await context_of(id)
            return _read(await matching.run_async(args=arguments, tool_context=context))

        return call

    async def run_id(self) -> str | None:
        return self.invocation


class TestContract(AdapterContract):
    driver = GoogleADKDriver


@pytest.mark.spec("W3")
async def test_progress_of_parallel_calls_is_told_apart_and_stored_nowhere() -> None:
    async with office() as desk:
        driver = GoogleADKDriver(desk.session)
        ran = await driver.run([("count", {"texts": ["one two", "three"]}), ("count", {"texts": ["four"]})])
        assert [answer.text for answer in ran.read] == ["3", "1"]
        assert sorted(driver.events) == [(0.5, "one two"), (1.0, "four"), (1.0, "three")]
        stored = await driver.runner.session_service.get_session(app_name="app", user_id="ada", session_id="s")
        assert stored is not None
        assert [event.author for event in stored.events] == ["user", "clerk", "clerk", "clerk"]


@pytest.mark.spec("W3")
async def test_progress_outside_of_a_run_ends_no_call(caplog: pytest.LogCaptureFixture) -> None:
    async with office() as desk:
        count = await GoogleADKDriver(desk.session).take("count")
        assert (await count({"texts": ["one two"]}, "call-1-1")).text == "2"
        assert "progress of 'count' cannot be forwarded here" in caplog.text


@pytest.mark.spec("W6")
async def test_spans_of_the_adk_have_the_records_ids() -> None:
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    async with office() as desk:
        driver = GoogleADKDriver(desk.session)
        await driver.run([("add", {"a": 1})], [("fail", {})])
        records = await desk.records()
    finished = spans.get_finished_spans()
    around = [span for span in finished if "capset.record" in (span.attributes or {})]
    attributes = [dict(span.attributes or {}) for span in around]
    assert [entry["capset.record"] for entry in attributes] == [entry.id for entry in records]
    assert [entry.get("error.type") for entry in attributes] == [None, "TOOL_ERROR"]


@pytest.mark.spec("W1")
async def test_its_own_instruction_and_tools_stay() -> None:
    model = ScriptedLlm(answers=[step(1, [("price", {"city": "Rome"}), ("add", {"a": 1})]), say("done")])
    async with office() as desk:
        tools = SessionToolset(desk.session)
        runner = runner_of(LlmAgent(name="clerk", model=model, instruction="Be brief.", tools=[price, tools]))
        await run(runner, Part(text="go"))
        assert [*model.shown[0].tools][:2] == ["price", "add"]
        assert model.shown[0].system.index("Be brief.") < model.shown[0].system.index(INSTRUCTIONS)
        assert [response.response for response in model.read] == [{"result": 4}, {"result": 2}]
        assert len(await desk.records()) == 1
        silent = ScriptedLlm(answers=[say("done")])
        without = SessionToolset(desk.session, include_instructions=False)
        await run(runner_of(LlmAgent(name="clerk", model=silent, tools=[without])), Part(text="go"))
        assert INSTRUCTIONS not in silent.shown[0].system


@pytest.mark.spec("W5")
async def test_a_suspended_run_goes_on_in_another_process(tmp_path: Path) -> None:
    """Of the first run, only what the ADK's own store of sessions has is left."""
    file = str(tmp_path / "adk.db")
    first = ScriptedLlm(answers=[step(1, [("pay", {"sum": 500})])])
    last = ScriptedLlm(answers=[say("done")])
    async with office() as desk:

        def runner(model: BaseLlm) -> Runner:
            agent = LlmAgent(name="clerk", model=model, tools=[SessionToolset(desk.session, defers=True)])
            return Runner(agent=agent, app_name="app", session_service=SqliteSessionService(file))

        requests = [ask async for event in stream(runner(first), Part(text="go")) for ask in requests_in(event).items()]
        ((confirmation, approval),) = requests
        await decide(desk, approval)
        events = [event async for event in stream(runner(last), confirm(confirmation), is_new=False)]
        assert paid == [500]
        assert [response.response for response in last.read] == [{"result": {"paid": 500}}]
        refused, succeeded = await desk.records()
        assert (refused.causation, succeeded.causation) == ("call-1-1", "call-1-1")
        assert succeeded.correlation == refused.correlation == events[-1].invocation_id


@pytest.mark.spec("W5")
async def test_a_confirmation_that_is_refused_makes_no_call() -> None:
    async with office() as desk:
        driver = GoogleADKDriver(desk.session, defers=True)
        suspended = await driver.run([("pay", {"sum": 500})])
        await decide(desk, suspended.waiting[0])
        (confirmation,) = driver.asked
        ran = await driver._go(confirm(confirmation, confirmed=False))
        assert ran.read[-1] == Read("This call was rejected, and not made.", failed=True)
        assert (paid, len(await desk.records())) == ([], 1)


@pytest.mark.spec("W4", "W5")
async def test_one_approval_lets_one_of_two_equal_calls_through() -> None:
    async with office() as desk:
        driver = GoogleADKDriver(desk.session, defers=True)
        suspended = await driver.run([("pay", {"sum": 500}), ("pay", {"sum": 500})])
        assert len(suspended.waiting) == 2
        assert len({*suspended.waiting}) == 1
        await decide(desk, suspended.waiting[0])
        ended = await driver.resume()
        assert (ended.output, paid) == ("done", [500])
        assert sorted(answer.failed or False for answer in ended.read) == [False, True]


@pytest.mark.spec("W8")
async def test_tools_of_the_adk_are_tools_with_their_own_schemas() -> None:
    adk_tools = [FunctionTool(function) for function in (plan, price, burn)]
    imported = import_adk_tools(adk_tools, name="travel", effect="read", rules={"burn": {"effect": "destructive"}})
    for tool in adk_tools:
        converted = imported.tools[tool.name]
        declared = tool._get_declaration()
        assert declared is not None
        assert (converted.description, converted.arguments.json_schema) == (
            tool.description,
            declared.parameters_json_schema,
        )
    agent = Agent("clerk", uses=[imported.capability])
    async with Kernel("memory://") as kernel, kernel.open(agent, principal=Principal("ada")) as session:
        planned = await session.call(imported.tools["plan"], trip={"city": "Rome"})
        trip = {"city": "Rome", "by": "train"}
        assert planned == {"trip": trip, "days": 2, "note": None, "main thread": False}
        assert await session.call(imported.tools["price"], city="Rome") == 4
        wrong = await session.try_call(imported.tools["plan"], trip={"city": "Rome", "by": "car"})
        assert isinstance(wrong.error, InvalidArguments)
        failed = await session.try_call(imported.tools["burn"], what="paper")
        assert isinstance(failed.error, InternalError)
        assert "secret" not in str(failed.error)
        records = {record.tool: record for record in await records_of(kernel.audit)}
        assert [records[name].effect for name in ("plan", "price", "burn")] == ["read", "read", "destructive"]


class Oracle(BaseTool):
    """A tool that is no function, with a schema of the ADK's older kind."""

    def __init__(self) -> None:
        super().__init__(name="oracle", description="Answer a question.")

    def _get_declaration(self) -> FunctionDeclaration:
        question = Schema(type=Type.STRING, nullable=True)
        parameters = Schema(type=Type.OBJECT, properties={"question": question}, required=["question"])
        return FunctionDeclaration(name=self.name, description=self.description, parameters=parameters)

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> object:
        if args["question"] == "may I?":
            tool_context.request_confirmation()
            return {"error": "please confirm"}
        return {"error": "ask something"} if args["question"] is None else {"answer": 42}


@pytest.mark.spec("W8")
@pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning")  # of the ADK's AgentTool
async def test_a_tool_that_is_no_function_has_its_errors_read() -> None:
    helper = LlmAgent(name="helper", description="Help.", model=ScriptedLlm(answers=[say("helped")]))
    imported = import_adk_tools([Oracle(), AgentTool(helper)], name="oracles", effect="read")
    agent = Agent("clerk", uses=[imported.capability])
    async with Kernel("memory://") as kernel, kernel.open(agent, principal=Principal("ada")) as session:
        ask = imported.tools["oracle"]
        assert ask.arguments.json_schema["properties"]["question"] == {"type": ["null", "string"]}
        assert await session.call(ask, question="what?") == {"answer": 42}
        for question, message in ((None, "ask something"), ("may I?", "a confirmation or a credential")):
            failed = await session.try_call(ask, question=question)
            assert isinstance(failed.error, ToolError)
            assert message in failed.error.message
        assert await session.call(imported.tools["helper"], request="please") == "helped"


@pytest.mark.spec("W8")
def test_tools_that_answer_later_or_run_in_the_model_are_refused() -> None:
    with pytest.raises(DefinitionError, match="'price' answers at a later time"):
        import_adk_tools([LongRunningFunctionTool(price)], name="kit", effect="read")
    with pytest.raises(DefinitionError, match="'google_search' has no declaration"):
        import_adk_tools([google_search], name="kit", effect="read")


async def test_the_page_runs_as_it_stands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedLlm(answers=[step(1, [("pay", {"sum": 7})]), say("The paper is paid.")])
    model.answers += [step(1, [("pay", {"sum": 500})]), say("The desk is paid.")]
    await run_page("google-adk", {"gemini-3.5-flash": model}, capsys, tmp_path, monkeypatch)


def runner_of(agent: LlmAgent) -> InMemoryRunner:
    """Return a runner for one agent."""
    return InMemoryRunner(agent, app_name="app")


async def context_of(id: str) -> ToolContext:
    """Return the context of a call outside of a run."""
    service = InMemorySessionService()
    session = await service.create_session(app_name="app", user_id="ada")
    return ToolContext(
        InvocationContext(session_service=service, invocation_id="i", session=session), function_call_id=id
    )


async def stream(runner: Runner, *parts: Part, is_new: bool = True) -> AsyncGenerator[Event]:
    """Have a runner go on, and yield its events."""
    if is_new:
        await runner.session_service.create_session(app_name="app", user_id="ada", session_id="s")
    message = Content(role="user", parts=list(parts))
    async for event in runner.run_async(user_id="ada", session_id="s", new_message=message):
        yield event


async def run(runner: Runner, *parts: Part) -> list[Event]:
    """Have a runner go to the end."""
    return [event async for event in stream(runner, *parts)]


def step(at: int, calls: Sequence[Call]) -> Content:
    """Return the answer that makes these calls."""
    parts: list[Part] = []
    for place, (name, arguments) in enumerate(calls, 1):
        assert isinstance(arguments, dict), "the ADK's models hand over objects"
        parts.append(Part(function_call=FunctionCall(id=f"call-{at}-{place}", name=name, args=arguments)))
    return Content(role="model", parts=parts)


def say(words: str) -> Content:
    """Return the answer that says this."""
    return Content(role="model", parts=[Part(text=words)])


def confirm(id: str, *, confirmed: bool = True) -> Part:
    """Return the answer of a person to a request for a confirmation."""
    return Part(
        function_response=FunctionResponse(id=id, name="adk_request_confirmation", response={"confirmed": confirmed})
    )


def requests_in(event: Event) -> dict[str, str]:
    """Return the ids of capset's requests by those of the ADK's requests for a confirmation."""
    return {
        str(call.id): (call.args or {})["toolConfirmation"]["payload"]["approval"]
        for call in event.get_function_calls()
        if call.name == "adk_request_confirmation"
    }


def _text(content: Content | None) -> str:
    return "".join(part.text or "" for part in (content.parts or [])) if content is not None else ""


def _read(response: dict[str, Any]) -> Read:
    if "error" in response:
        return Read(response["error"], failed=True)
    result = response["result"]
    return Read(result if isinstance(result, str) else json.dumps(result), failed=False)


def _shown(request: LlmRequest) -> Shown:
    declared = [
        declaration
        for tool in request.config.tools or []
        for declaration in getattr(tool, "function_declarations", None) or []
    ]
    return Shown(
        str(request.config.system_instruction or ""),
        {str(declaration.name): declaration.parameters_json_schema for declaration in declared},
    )
