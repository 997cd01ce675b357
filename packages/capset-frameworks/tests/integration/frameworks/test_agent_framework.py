"""The contract with Microsoft's Agent Framework, on a scripted chat client."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import AsyncIterable, Awaitable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, ClassVar

import pytest
from agent_framework import (
    Agent,
    AgentResponse,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationContext,
    FunctionInvocationLayer,
    FunctionTool,
    Message,
    ResponseStream,
)
from agent_framework import tool as framework_tool
from agent_framework.exceptions import ToolException
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import AfterValidator, BaseModel, Field

import capset
from capset.errors import DefinitionError
from capset.kernel.telemetry.tracing import Tracing
from capset_connect.tool_rules import ToolRules
from capset_frameworks.agent_framework import (
    AGENT_FRAMEWORK,
    CapsetProvider,
    import_agent_framework_tools,
)
from capset_frameworks.session_tools import SessionTools
from tests.helpers.frameworks.contract import AdapterContract
from tests.helpers.frameworks.driver import Call, Conversation, Driver, HeldTool, Read, Shown
from tests.helpers.frameworks.kit import add, decide, office, paid
from tests.helpers.frameworks.pages import run_page
from tests.helpers.kernel.support import opened

pytestmark = [pytest.mark.clients]

provider = TracerProvider()
tracer = provider.get_tracer("tests")


class ScriptedClient(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """A chat client that answers with given contents, one list a request, and keeps what it was asked."""

    def __init__(self, *steps: Sequence[Content]) -> None:
        super().__init__()
        self.steps = list(steps)
        self.asked: list[Mapping[str, Any]] = []

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse[Any]] | ResponseStream[ChatResponseUpdate, ChatResponse[Any]]:
        tools = {"tools": [*options["tools"]]} if "tools" in options else {}  # the list changes
        self.asked.append({**options, **tools, "messages": list(messages)})
        contents = self.steps.pop(0)
        if stream:
            return self._build_response_stream(_updates(contents))
        return _answer(contents)


async def _answer(contents: Sequence[Content]) -> ChatResponse[Any]:
    return ChatResponse(messages=[Message("assistant", list(contents))])


async def _updates(contents: Sequence[Content]) -> AsyncIterable[ChatResponseUpdate]:
    for content in contents:
        yield ChatResponseUpdate(role="assistant", contents=[content])


class AgentFrameworkDriver(Driver):
    framework = AGENT_FRAMEWORK
    misses: ClassVar = {"streamed": "the framework's function tools have no progress"}

    async def run(self, *steps: Sequence[Call]) -> Conversation:
        self.client = scripted(steps)
        tools = CapsetProvider(self.session, defers=self.defers)
        self.agent = Agent(self.client, name="clerk", context_providers=[tools])
        self.thread = AgentSession()
        self.read: list[Read] = []
        return await self._go("go")

    async def resume(self) -> Conversation:
        answers = [request.to_function_approval_response(True) for request in self.response.user_input_requests]
        return await self._go(Message("user", answers))

    async def _go(self, message: str | Message) -> Conversation:
        with tracer.start_as_current_span("clerk") as span:
            self._trace = f"{span.get_span_context().trace_id:032x}"
            self.response: AgentResponse[Any] = await self.agent.run(message, session=self.thread)
        for content in _contents(self.response):
            if content.type == "function_result":
                self.read.append(Read(str(content.result)))
        waiting = [str(request.additional_properties["approval"]) for request in self.response.user_input_requests]
        output = None if waiting else self.response.text
        return Conversation([_shown(request) for request in self.client.asked], list(self.read), waiting, output)

    async def take(self, name: str) -> HeldTool:
        tools = await CapsetProvider(self.session).tools()
        (matching,) = (tool for tool in tools if tool.name == name)

        async def call(arguments: dict[str, Any], id: str) -> Read:
            (content,) = await matching.invoke(arguments=arguments, tool_call_id=id)
            return Read(str(content.text))

        return call

    async def run_id(self) -> str | None:
        return self._trace


class TestContract(AdapterContract):
    driver = AgentFrameworkDriver


async def test_a_streamed_run_makes_the_same_calls() -> None:
    async with office(dynamic=True) as desk:
        client = scripted([[("hurry", {})], [("run", {}), ("pay", {"sum": 7})]])
        agent = Agent(client, name="clerk", context_providers=[CapsetProvider(desk.session)])
        stream = agent.run("go", stream=True)
        assert "done" in "".join([update.text async for update in stream])
        results = [
            content.result
            for content in _contents(await stream.get_final_response())
            if content.type == "function_result"
        ]
        assert results == ["hurrying", "running", '{"paid": 7}']
        assert ["run" in _shown(request).tools for request in client.asked] == [False, True, True]


async def test_what_a_model_does_not_read_of_a_result_stands_beside_it() -> None:
    async with office() as desk:
        driver = AgentFrameworkDriver(desk.session)
        await driver.run([("pay", {"sum": 500}), ("add", {"a": 1})])
        refused, succeeded = [content for content in _contents(driver.response) if content.type == "function_result"]
        first, second = await desk.records()
        metadata = {"untrusted": True, "record": first.id, "code": "approval_required", "approval": first.approval}
        assert [content.additional_properties for content in refused.items or ()] == [metadata]
        assert [content.additional_properties for content in succeeded.items or ()] == [
            {"untrusted": True, "record": second.id}
        ]


async def test_refusals_do_not_count_as_errors_in_a_row() -> None:
    """After three of these the framework would take the tools away."""
    async with office() as desk:
        ran = await AgentFrameworkDriver(desk.session).run(*[[("fail", {})]] * 5)
        assert ran.output == "done"
        assert len(await desk.records()) == 5


async def test_a_suspended_run_goes_on_in_another_process() -> None:
    """Of the first run, only the text of its session and of its request is left."""
    async with office() as desk:
        first = AgentFrameworkDriver(desk.session, defers=True)
        suspended = await first.run([("pay", {"sum": 500}), ("add", {"a": 1})])
        texts = json.dumps(
            [first.thread.to_dict(), [request.to_dict() for request in first.response.user_input_requests]]
        )
        await decide(desk, suspended.waiting[0])
        thread, requests = json.loads(texts)
        client = ScriptedClient(_say("done"))
        other = Agent(client, name="clerk", context_providers=[CapsetProvider(desk.session, defers=True)])
        answers = [Content.from_dict(request).to_function_approval_response(True) for request in requests]
        response = await other.run(Message("user", answers), session=AgentSession.from_dict(thread))
        assert (response.text, paid) == ("done", [500])
        read = [content for message in client.asked[0]["messages"] for content in message.contents]
        results = {str(content.result) for content in read if content.type == "function_result"}
        assert results == {'{"paid": 500}', "2"}


async def test_a_call_waits_on_until_capset_has_an_answer() -> None:
    async with office() as desk:
        driver = AgentFrameworkDriver(desk.session, defers=True)
        suspended = await driver.run([("pay", {"sum": 500})])
        assert [(await driver.resume()).waiting for _ in range(2)] == [suspended.waiting] * 2
        await decide(desk, suspended.waiting[0])
        assert (await driver.resume()).output == "done"
        assert paid == [500]


async def test_two_calls_of_one_tool_wait_each_for_its_own_request() -> None:
    async with office() as desk:
        driver = AgentFrameworkDriver(desk.session, defers=True)
        suspended = await driver.run([("pay", {"sum": 500}), ("pay", {"sum": 7}), ("pay", {"sum": 600})])
        assert paid == [7]
        assert len({*suspended.waiting}) == 2
        await decide(desk, suspended.waiting[0])
        await decide(desk, suspended.waiting[1], approved=False)
        ended = await driver.resume()
        assert (ended.output, paid) == ("done", [7, 500])
        assert any("the request was rejected" in answer.text for answer in ended.read)


async def test_a_rejection_on_the_side_of_the_framework_makes_no_call() -> None:
    async with office() as desk:
        driver = AgentFrameworkDriver(desk.session, defers=True)
        suspended = await driver.run([("pay", {"sum": 500})])
        await decide(desk, suspended.waiting[0])
        answers = [request.to_function_approval_response(False) for request in driver.response.user_input_requests]
        response = await driver.agent.run(Message("user", answers), session=driver.thread)
        assert (response.text, paid) == ("done", [])
        assert len(await desk.records()) == 1


async def test_its_own_instructions_and_tools_stay() -> None:
    def own() -> str:
        """Be of the agent's own."""
        return "own"

    async with office() as desk:
        client = scripted([[("own", {}), ("add", {"a": 1})]])
        tools = CapsetProvider(desk.session, include_instructions=False)
        response = await Agent(client, "Be brief.", tools=[own], context_providers=[tools]).run("go")
        assert {_shown(request).system for request in client.asked} == {"Be brief."}
        assert [content.result for content in _contents(response) if content.type == "function_result"] == ["own", "2"]
        client = scripted([])
        await Agent(client, "Be brief.", context_providers=[CapsetProvider(desk.session)]).run("go")
        assert _shown(client.asked[0]).system.startswith("Be brief.\n")
        assert len(await desk.records()) == 1


async def test_a_session_without_tools_sends_no_list_of_them() -> None:
    async with opened(capset.Agent("clerk", system_prompt="Be brief.")) as desk:
        client = scripted([])
        await Agent(client, context_providers=[CapsetProvider(desk.session)]).run("go")
        assert "tools" not in client.asked[0]
        assert client.asked[0]["instructions"] == "Be brief."


async def test_an_argument_may_have_any_name() -> None:
    async with office() as desk:
        calls: list[Call] = [("add", {"a": 1, name: 2}) for name in ("self", "capset_context", "arguments", "raw")]
        ran = await AgentFrameworkDriver(desk.session).run(calls)
        assert all("no such parameter" in answer.text for answer in ran.read)
        assert [record.outcome for record in await desk.records()] == ["invalid"] * 4


async def test_spans_of_calls_are_below_those_of_the_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("agent_framework.observability.get_tracer", lambda *_, **__: tracer)  # as a host's setup does
    async with opened(capset.Agent("clerk", tools=[add]), observers=[Tracing(provider)]) as desk:
        await AgentFrameworkDriver(desk.session).run([("add", {"a": 1})])
    ours, theirs = exporter.get_finished_spans()[:2]
    assert [ours.name, theirs.name] == ["execute_tool add"] * 2
    assert theirs.context is not None
    assert ours.parent is not None
    assert (ours.parent.span_id, ours.links) == (theirs.context.span_id, ())


async def test_without_a_trace_records_have_the_id_of_the_run_also_when_it_goes_on() -> None:
    async with office() as desk:
        client = scripted([[("pay", {"sum": 500})]])
        agent = Agent(client, name="clerk", context_providers=[CapsetProvider(desk.session, defers=True)])
        thread = AgentSession()
        suspended = await agent.run("go", session=thread)
        first = thread.state["capset"]["run"]
        answers = [request.to_function_approval_response(True) for request in suspended.user_input_requests]
        await agent.run(Message("user", answers), session=thread)
        assert {record.correlation for record in await desk.records()} == {first}
        client.steps.append(_say("again"))
        await agent.run("go", session=thread)
        assert thread.state["capset"]["run"] != first


class Parcel(BaseModel):
    weight: float = 1.0
    marks: list[str] = []


def weigh(parcel: Parcel, times: int = 1, note: str | None = None) -> dict[str, object]:
    """Weigh a parcel."""
    assert threading.current_thread() is not threading.main_thread()
    validated = Parcel.model_validate(parcel)  # the framework gives functions plain data
    return {"weight": validated.weight * times, "marks": validated.marks, "note": note}


@framework_tool(name="ship-it", approval_mode="always_require")
async def ship(to: Annotated[str, Field(description="the address")]) -> Content:
    """Ship a parcel."""
    return Content.from_text(f"shipped to {to}")


def positive(year: int) -> int:
    if year < 0:
        raise ValueError("years are positive")
    return year


@framework_tool
async def lose(year: Annotated[int, AfterValidator(positive)]) -> str:
    """Lose a parcel."""
    if year < 2000:
        raise ToolException("nothing was kept before 2000")
    raise RuntimeError("/secret/path is gone")


@pytest.mark.spec("W8")
async def test_tools_of_the_framework_become_tools_here() -> None:
    imported = import_agent_framework_tools([weigh, ship, lose], name="parcels", effect="write")
    original = framework_tool(weigh)
    assert imported.tools["weigh"].description == "Weigh a parcel."
    assert dict(imported.tools["weigh"].arguments.json_schema) == original.parameters()
    async with opened(capset.Agent("clerk", uses=[imported.capability])) as desk:
        tools = SessionTools(desk.session)
        weighed = await tools.call("weigh", {"parcel": {"weight": 2}, "times": 3})
        assert weighed.data == {"weight": 6.0, "marks": [], "note": None}
        assert (await tools.call("weigh", {"parcel": {"weight": "heavy"}})).text.startswith("Invalid arguments")
        suspended = await tools.call("ship-it", {"to": "Ada"})
        assert suspended.approval is not None
        await decide(desk, suspended.approval)
        assert (await tools.call("ship-it", {"to": "Ada"})).data == "shipped to Ada"
        failed = await tools.call("lose", {"year": 1999})
        assert "nothing was kept before 2000" in failed.text
        broken = await tools.call("lose", {"year": 2001})
        assert "secret" not in broken.text
        wrong = await tools.call("lose", {"year": -1})
        assert "year: " in wrong.text
        assert "years are positive" in wrong.text
        records = await desk.records()
        assert {record.effect for record in records} == {"write"}
        assert [record.outcome for record in records] == [
            *("succeeded", "invalid", "pending", "succeeded"),
            *("failed", "failed", "failed"),
        ]


@pytest.mark.spec("W8")
async def test_a_host_may_take_an_approval_away_and_results_that_are_not_text_are_data() -> None:
    def draw() -> list[Content]:
        """Draw a dot."""
        return [Content.from_text("a dot"), Content.from_data(b"dot", "image/png")]

    rules: dict[str, ToolRules] = {"ship-it": {"approval": "auto"}}
    imported = import_agent_framework_tools([draw, ship], name="kit", effect="read", rules=rules)
    async with opened(capset.Agent("clerk", uses=[imported.capability])) as desk:
        tools = SessionTools(desk.session)
        assert (await tools.call("ship-it", {"to": "Ada"})).data == "shipped to Ada"
        drawn = (await tools.call("draw", {})).data
        assert isinstance(drawn, list)
        assert [part["type"] for part in drawn if isinstance(part, dict)] == ["text", "data"]


@pytest.mark.spec("W8")
def test_tools_that_only_a_run_can_call_are_refused() -> None:
    @framework_tool
    def peek(ctx: FunctionInvocationContext) -> str:
        """Peek."""
        return str(ctx.session)

    with pytest.raises(DefinitionError, match="'peek' takes a FunctionInvocationContext"):
        import_agent_framework_tools([peek], name="kit", effect="read")
    with pytest.raises(DefinitionError, match="function tools of Agent Framework were expected"):
        import_agent_framework_tools([FunctionTool(name="declared")], name="kit", effect="read")


async def test_the_page_runs_as_it_stands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client that the page names is of a package beside the framework, and is the scripted one here."""
    package = ModuleType("agent_framework_openai")
    package.__dict__["OpenAIChatClient"] = lambda *, model: model
    monkeypatch.setitem(sys.modules, "agent_framework_openai", package)
    client = ScriptedClient(_calls(1, [("pay", {"sum": 7})]), _say("The paper is paid."))
    client.steps += [_calls(1, [("pay", {"sum": 500})]), _say("The desk is paid.")]
    await run_page("agent-framework", {"gpt-5.4": client}, capsys, tmp_path, monkeypatch)


def scripted(steps: Sequence[Sequence[Call]]) -> ScriptedClient:
    """Return a client that makes these calls, those of one list a step, then says "done"."""
    return ScriptedClient(*(_calls(at, calls) for at, calls in enumerate(steps, 1)), _say("done"))


def _calls(at: int, calls: Sequence[Call]) -> list[Content]:
    return [
        Content.from_function_call(
            f"call-{at}-{place}", name, arguments=arguments if isinstance(arguments, str) else json.dumps(arguments)
        )
        for place, (name, arguments) in enumerate(calls, 1)
    ]


def _say(words: str) -> list[Content]:
    return [Content.from_text(words)]


def _shown(options: Mapping[str, Any]) -> Shown:
    return Shown(options.get("instructions", ""), {tool.name: tool.parameters() for tool in options["tools"]})


def _contents(response: AgentResponse[Any]) -> list[Content]:
    return [content for message in response.messages for content in message.contents]
