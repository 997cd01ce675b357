"""The contract with LangChain, on a chat model that follows a script."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langsmith import Client, tracing_context
from pydantic import BaseModel

from capset import tool as capset_tool
from capset.errors import ToolNameConflict
from capset_frameworks.langchain import CapsetMiddleware, load_tools
from tests.helpers.frameworks.contract import AdapterContract
from tests.helpers.frameworks.kit import office
from tests.helpers.frameworks.langchain_agents import (
    GO,
    LangChainDriver,
    ScriptedChat,
    results,
    scripted,
    step,
)
from tests.helpers.frameworks.pages import run_page
from tests.helpers.kernel.support import Desk, desk

pytestmark = [pytest.mark.clients]


class TestContract(AdapterContract):
    driver = LangChainDriver


@pytest.fixture
async def here() -> AsyncIterator[Desk]:
    async with office() as open_desk:
        yield open_desk


@pytest.mark.spec("W2")
async def test_refusals_are_marked_and_results_have_their_records(here: Desk) -> None:
    driver = LangChainDriver(here.session)
    await driver.run([("pay", {"sum": 500}), ("add", {"a": 1})])
    refused, succeeded = results(driver.messages)
    first, second = await here.records()
    metadata = {"untrusted": True, "record": first.id, "code": "approval_required", "approval": first.approval}
    assert (refused.status, refused.artifact) == ("error", metadata)
    assert (succeeded.status, succeeded.artifact) == ("success", {"untrusted": True, "record": second.id})


@pytest.mark.spec("W2")
async def test_a_tool_that_is_not_in_play_is_refused_on_record(here: Desk) -> None:
    ran = await LangChainDriver(here.session).run([("note", {"text": "x"}), ("nothing", {})])
    assert [answer.failed for answer in ran.read] == [True, True]
    assert [record.outcome for record in await here.records()] == ["denied", "not_found"]


@pytest.mark.spec("W2")
async def test_arguments_that_are_not_json_are_refused_beside_calls_that_are_made(here: Desk) -> None:
    driver = LangChainDriver(here.session)
    ran = await driver.run([("add", {"a": 1}), ("add", '{"a": ')])
    assert sorted((message.tool_call_id, message.status) for message in results(driver.messages)) == [
        ("call-1-1", "success"),
        ("call-1-2", "error"),
    ]
    assert ran.output == "done"
    assert [(record.outcome, record.causation) for record in await here.records()] == [
        ("invalid", "call-1-2"),
        ("succeeded", "call-1-1"),
    ]


@pytest.mark.spec("W2")
async def test_broken_arguments_of_a_tool_that_is_absent_are_refused_on_record(here: Desk) -> None:
    ran = await LangChainDriver(here.session).run([("nothing", '{"a": ')])
    assert ([answer.failed for answer in ran.read], ran.output) == ([True], "done")
    assert [(record.tool, record.outcome) for record in await here.records()] == [("nothing", "not_found")]


async def test_broken_arguments_of_the_agents_own_tools_are_none_of_capsets(here: Desk) -> None:
    @tool
    def own() -> str:
        """Be of the agent's own."""
        return "own"

    class Bill(BaseModel):
        """The bill."""

        total: int

    for name in ("own", "Bill"):
        middleware = [CapsetMiddleware(here.session)]
        agent = create_agent(scripted([(name, "{")]), [own], middleware=middleware, response_format=ToolStrategy(Bill))
        assert results((await agent.ainvoke(GO))["messages"]) == []
    assert await here.records() == []


@pytest.mark.spec("W1")
async def test_its_own_prompt_and_tools_stay(here: Desk) -> None:
    @tool
    def own() -> str:
        """Be of the agent's own."""
        return "own"

    model = scripted([("own", {}), ("add", {"a": 1})])
    blocks = SystemMessage([{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}])
    agent = create_agent(model, [own], system_prompt=blocks, middleware=[CapsetMiddleware(here.session)])
    result = await agent.ainvoke(GO)
    assert [message.text for message in results(result["messages"])] == ["own", "2"]
    assert len(await here.records()) == 1
    assert "own" in model.shown[0].tools
    assert model.shown[0].system.startswith("Be brief.")
    assert "Pay only what was ordered." in model.shown[0].system
    other = scripted()
    quiet = CapsetMiddleware(here.session, include_instructions=False)
    await create_agent(other, system_prompt="Be brief.", middleware=[quiet]).ainvoke(GO)
    assert other.shown[0].system == "Be brief."


async def test_two_tools_of_one_name_are_refused(here: Desk) -> None:
    @tool
    def add(a: int) -> int:
        """Add nothing."""
        return a

    agent = create_agent(scripted(), [add], middleware=[CapsetMiddleware(here.session)])
    with pytest.raises(ToolNameConflict, match="both have a tool 'add'"):
        await agent.ainvoke(GO)


@pytest.mark.spec("W3")
async def test_callbacks_hear_of_progress(here: Desk) -> None:
    agent = create_agent(
        scripted([("count", {"texts": ["one two", "three"]})]), middleware=[CapsetMiddleware(here.session)]
    )
    heard: list[Any] = [
        event["data"] async for event in agent.astream_events(GO, version="v2") if event["event"] == "on_custom_event"
    ]
    assert [event["data"] for event in heard] == [
        {"fraction": 0.5, "message": "one two"},
        {"fraction": 1.0, "message": "three"},
    ]
    assert {(event["tool"], event["tool_call_id"]) for event in heard} == {("count", "call-1-1")}


@pytest.mark.spec("W3")
async def test_a_call_succeeds_though_a_listener_to_its_progress_fails(
    here: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(AsyncCallbackHandler):
        raise_error = True

        async def on_custom_event(self, name: str, data: Any, **kwargs: Any) -> None:
            raise RuntimeError("the listener fell asleep")

    agent = create_agent(scripted([("count", {"texts": ["one"]})]), middleware=[CapsetMiddleware(here.session)])
    result = await agent.ainvoke(GO, {"callbacks": [Failing()]})
    assert [(message.text, message.status) for message in results(result["messages"])] == [("1", "success")]
    assert "progress of 'count' cannot be forwarded" in caplog.text


@pytest.mark.spec("W6")
async def test_without_an_id_the_calls_of_a_run_share_one(here: Desk) -> None:
    for _ in range(2):
        agent = create_agent(
            scripted([("add", {"a": 1})], [("add", {"a": 2})]), middleware=[CapsetMiddleware(here.session)]
        )
        await agent.ainvoke(GO)
    first, second, third, fourth = [record.correlation for record in await here.records()]
    assert first == second != third == fourth


@pytest.mark.spec("W6")
async def test_the_id_is_that_of_the_trace_where_there_is_one(here: Desk) -> None:
    client = KeptRuns()
    agent = create_agent(scripted([("add", {"a": 1})]), middleware=[CapsetMiddleware(here.session)])
    with tracing_context(enabled=True, client=client):
        await agent.ainvoke(GO)
    (record,) = await here.records()
    assert {str(run["trace_id"]) for run in client.kept} == {record.correlation}


async def test_structured_output_stays(here: Desk) -> None:
    class Bill(BaseModel):
        """The bill."""

        total: int

    model = scripted([("add", {"a": 1})], [("add", "{")], [("Bill", {"total": 2})])
    agent = create_agent(model, middleware=[CapsetMiddleware(here.session)], response_format=ToolStrategy(Bill))
    result = await agent.ainvoke(GO)
    assert result["structured_response"] == Bill(total=2)
    assert [record.outcome for record in await here.records()] == ["succeeded", "invalid"]


async def test_a_run_that_is_not_async_says_what_to_call(here: Desk) -> None:
    agent = create_agent(scripted([("add", {"a": 1})]), middleware=[CapsetMiddleware(here.session)])
    with pytest.raises(NotImplementedError, match=r"call await agent\.ainvoke"):
        agent.invoke(GO)
    (add, *_) = await load_tools(here.session)
    with pytest.raises(NotImplementedError, match=r"await tool\.ainvoke"):
        add.invoke({"a": 1})
    assert await here.records() == []


@pytest.mark.spec("W1", "W6")
async def test_tools_of_a_session_in_a_graph_of_ones_own(here: Desk) -> None:
    tools = await load_tools(here.session)
    script = scripted([("add", {"a": 1}), ("pay", {"sum": 500}), ("count", {"texts": ["one"]})])
    model = script.bind_tools(tools)

    async def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    run = uuid4()
    events: Any = graph.compile().astream(GO, {"run_id": run}, stream_mode=["custom", "values"])
    chunks = [event async for event in events]
    read = results(chunks[-1][1]["messages"])
    assert [(message.status, message.tool_call_id) for message in read] == [
        ("success", "call-1-1"),
        ("error", "call-1-2"),
        ("success", "call-1-3"),
    ]
    assert [chunk["type"] for mode, chunk in chunks if mode == "custom"] == ["capset.progress"]
    records = await here.records()
    assert {record.correlation for record in records} == {str(run)}
    assert {record.causation for record in records} == {"call-1-1", "call-1-2", "call-1-3"}
    assert set(script.shown[0].tools) == {session_tool.name for session_tool in tools}


async def test_bare_arguments_give_the_data() -> None:
    @capset_tool(effect="read")
    async def echo(config: str, run_manager: str, call_id: str = "c") -> list[str]:
        """Have arguments with names that LangChain uses itself."""
        return [config, run_manager, call_id]

    async with desk(echo) as open_desk:
        (echo_tool,) = await load_tools(open_desk.session)
        assert await echo_tool.ainvoke({"config": "a", "run_manager": "b"}) == ["a", "b", "c"]
        assert "run_manager: required" in await echo_tool.ainvoke({"config": "a"})
        assert "Invalid arguments" in await echo_tool.ainvoke("no JSON")


async def test_the_page_runs_as_it_stands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedChat(
        messages=[
            step(1, [("pay", {"sum": 7})]),
            AIMessage("The paper is paid."),
            step(1, [("pay", {"sum": 500})]),
            AIMessage("The desk is paid."),
        ]
    )
    await run_page("langchain", {"openai:gpt-5.4": model}, capsys, tmp_path, monkeypatch)


class KeptRuns(Client):
    """A client of LangSmith that sends nothing."""

    def __init__(self) -> None:
        super().__init__(api_url="http://127.0.0.1:9", api_key="none", auto_batch_tracing=False)
        self.kept: list[dict[str, Any]] = []

    def create_run(self, *args: Any, **kwargs: Any) -> None:
        self.kept.append(kwargs)

    def update_run(self, *args: Any, **kwargs: Any) -> None:
        pass
