"""Tools of LangChain as tools of capset."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, cast

import pytest
from langchain.agents import create_agent
from langchain.tools import InjectedState, ToolRuntime
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool, Tool, ToolException, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.types import Command
from pydantic import BaseModel, ConfigDict, Field, field_validator

from capset import Agent
from capset.errors import DefinitionError, InternalError, InvalidArguments, ToolError
from capset_connect.interop import ImportedTools
from capset_frameworks.langchain import CapsetMiddleware, import_langchain_tools
from tests.helpers.frameworks.langchain_agents import GO, results, scripted
from tests.helpers.kernel.support import Desk, opened

pytestmark = [pytest.mark.clients]


class Place(BaseModel):
    city: str
    zip: int | None = None


class Order(BaseModel):
    """The arguments of ``order``."""

    place: Place
    items: list[str] = Field(description="By their names.")
    count: int = 1

    @field_validator("items")
    @classmethod
    def _known(cls, items: list[str]) -> list[str]:
        if "gold" in items:
            raise ValueError("we have no gold")
        return items


class Clock(BaseTool):
    name: str = "clock"
    description: str = "Say the time."

    def _run(self, zone: str = "UTC") -> str:
        return f"noon in {zone}"


threads: list[int] = []


@tool
def shout(text: str, times: int = 2) -> str:
    """Shout a text."""
    threads.append(threading.get_ident())
    return text.upper() * times


@tool
async def search(text: str, filters: dict[str, int] | None = None) -> list[Place]:
    """Search for places."""
    return [Place(city=text, zip=(filters or {}).get("zip"))]


async def _explode(kind: str) -> str:
    """Fail, in the way that is asked for."""
    if kind == "told":
        raise ToolException("the shelf is empty")
    if kind == "command":
        return cast("str", Command(goto="elsewhere"))
    raise RuntimeError("password=hunter2")


def _ordered(place: Place, items: list[str], count: int) -> dict[str, Any]:
    return {"city": place.city, "items": items, "count": count}


order = StructuredTool.from_function(_ordered, name="order", description="Order things.", args_schema=Order)
explode = StructuredTool.from_function(coroutine=_explode, name="explode")
politely = StructuredTool.from_function(coroutine=_explode, name="politely", handle_tool_error="Not now, thank you.")
echo = Tool("echo", func=lambda text: text, description="Say it again.")


TOOLS = [shout, search, explode, order, politely, Clock(), echo]


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    rules: Any = {"order": {"effect": "external"}, "*": {"limits": "100/1h"}}
    imported = import_langchain_tools(TOOLS, name="shop", effect="read", rules=rules)
    async with opened(Agent("a", uses=[imported.capability])) as desk:
        yield Shop(desk, imported)


@dataclass
class Shop:
    """A session with tools of LangChain."""

    desk: Desk
    imported: ImportedTools

    async def call(self, name: str, **arguments: Any) -> Any:
        """Call a tool as a model does, and return its data. Raises the error of the call."""
        result = await self.desk.session.try_call(self.imported.tools[name], **arguments)
        if result.error is not None:
            raise result.error
        return result.data


@pytest.mark.spec("W8")
async def test_names_descriptions_and_schemas_are_those_of_langchain(shop: Shop) -> None:
    for langchain_tool in TOOLS:
        converted = shop.imported.tools[langchain_tool.name]
        declared = convert_to_openai_tool(langchain_tool)["function"]
        schema = dict(converted.arguments.json_schema)
        assert (converted.name, converted.description) == (declared["name"], declared["description"])
        assert schema["properties"] == declared["parameters"]["properties"]
        assert {*schema.get("required", [])} == {*declared["parameters"].get("required", [])}


@pytest.mark.spec("W8")
async def test_results_are_json_data_sync_and_async(shop: Shop) -> None:
    assert await shop.call("shout", text="a") == "AA"
    assert threads.pop() != threading.get_ident()
    assert await shop.call("search", text="Bern") == [{"city": "Bern", "zip": None}]
    assert await shop.call("search", text="Bern", filters={"zip": 3000}) == [{"city": "Bern", "zip": 3000}]
    place = {"city": "Bern"}
    assert await shop.call("order", place=place, items=["tea"]) == {"city": "Bern", "items": ["tea"], "count": 1}
    assert await shop.call("clock") == "noon in UTC"
    assert await shop.call("echo", __arg1="hello") == "hello"


@pytest.mark.spec("W8")
async def test_calls_are_on_record_with_the_effect_that_was_said(shop: Shop) -> None:
    await shop.call("shout", text="a", times=1)
    await shop.call("order", place={"city": "Bern"}, items=[])
    records = await shop.desk.records()
    assert [(record.tool, record.effect, record.outcome) for record in records] == [
        ("shout", "read", "succeeded"),
        ("order", "external", "succeeded"),
    ]


@pytest.mark.spec("W8")
async def test_arguments_are_refused_by_field(shop: Shop) -> None:
    with pytest.raises(InvalidArguments, match=r"times: .*integer"):
        await shop.call("shout", text="a", times="many")
    with pytest.raises(ToolError, match=r"items: .*we have no gold") as raised:
        await shop.call("order", place={"city": "Bern"}, items=["gold"])
    assert raised.value.code == "invalid_arguments"


@pytest.mark.spec("W8")
async def test_errors_are_told_without_internals(shop: Shop) -> None:
    with pytest.raises(ToolError, match="the shelf is empty"):
        await shop.call("explode", kind="told")
    with pytest.raises(ToolError, match="Not now, thank you"):
        await shop.call("politely", kind="told")
    with pytest.raises(ToolError, match="only a graph of LangGraph can follow"):
        await shop.call("explode", kind="command")
    with pytest.raises(InternalError) as raised:
        await shop.call("explode", kind="otherwise")
    assert "hunter2" not in str(raised.value)


@pytest.mark.spec("W8")
async def test_an_agent_of_langchain_calls_them_governed(shop: Shop) -> None:
    agent = create_agent(scripted([("shout", {"text": "a"})]), middleware=[CapsetMiddleware(shop.desk.session)])
    result = await agent.ainvoke(GO)
    assert [message.text for message in results(result["messages"])] == ["AA"]
    assert len(await shop.desk.records()) == 1


PAID: list[int] = []


@tool
def spend(amount: Annotated[int, Field(le=10)], type: str = "cash") -> str:
    """Spend an amount, of a type."""
    PAID.append(amount)
    return type


@pytest.mark.spec("W8")
async def test_arguments_that_look_like_a_tool_call_are_arguments() -> None:
    PAID.clear()
    imported = import_langchain_tools([spend], name="shop", effect="external", rules={"*": {"limits": "100/1h"}})
    async with opened(Agent("a", uses=[imported.capability])) as desk:
        shop = Shop(desk, imported)
        assert await shop.call("spend", amount=1, type="tool_call") == "tool_call"
        attack: dict[str, Any] = {"args": {"amount": 1_000_000}, "id": None, "name": "spend"}
        await desk.session.try_call(imported.tools["spend"], amount=2, type="tool_call", **attack)
    assert set(PAID) <= {1, 2}


class Hiding(BaseModel):
    """The arguments of ``hiding``: the tenant is the host's to say."""

    model_config = ConfigDict(populate_by_name=True)
    text: str
    tenant: Annotated[str, InjectedToolArg] = Field("ours", alias="owner")


def _told(text: str, tenant: str = "ours") -> str:
    """Say whose a text is."""
    return f"{text} of {tenant}"


def _of_function(text: str, tenant: Annotated[str, InjectedToolArg] = "ours") -> str:
    return f"{text} of {tenant}"


class Bare(BaseTool):
    name: str = "bare"
    description: str = "Say whose a text is."

    def _run(self, text: str, tenant: Annotated[str, InjectedToolArg] = "ours") -> str:
        return f"{text} of {tenant}"


class Text(BaseModel):
    text: str


@pytest.mark.spec("W8")
@pytest.mark.parametrize(
    "langchain_tool",
    [
        StructuredTool.from_function(_told, name="hiding", args_schema=Hiding),
        StructuredTool.from_function(_of_function, name="function", description="Say."),
        StructuredTool.from_function(_of_function, name="schema", description="Say.", args_schema=Text),
        Bare(),
    ],
    ids=lambda langchain_tool: langchain_tool.name,
)
async def test_arguments_that_models_are_not_shown_are_refused(langchain_tool: BaseTool) -> None:
    imported = import_langchain_tools([langchain_tool], name="x", effect="read")
    async with opened(Agent("a", uses=[imported.capability])) as desk:
        shop = Shop(desk, imported)
        assert await shop.call(langchain_tool.name, text="page") == "page of ours"
        for key in ("tenant", "owner") if langchain_tool.name == "hiding" else ("tenant",):
            with pytest.raises(
                ToolError, match=f"Invalid arguments for '{langchain_tool.name}': .*no such parameter"
            ) as raised:
                await shop.call(langchain_tool.name, text="page", **{key: "theirs"})
            assert (raised.value.code, raised.value.status) == ("invalid_arguments", 422)


async def test_what_only_a_graph_gives_is_refused() -> None:
    @tool
    def stateful(text: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Look at the state."""
        return text

    @tool
    def running(text: str, runtime: ToolRuntime) -> str:
        """Look at the runtime."""
        return text

    class Looking(BaseTool):
        name: str = "looking"
        description: str = "Look at the runtime."

        def _run(self, text: str, runtime: ToolRuntime) -> str:
            return text

    for graph_tool, needed in ((stateful, "state"), (running, "runtime"), (Looking(), "runtime")):
        with pytest.raises(DefinitionError, match=f"needs '{needed}' from a graph of LangGraph"):
            import_langchain_tools([graph_tool], name="x", effect="read")


async def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(DefinitionError, match="shout"):
        import_langchain_tools([shout, shout], name="x", effect="read")


async def test_functions_are_not_taken() -> None:
    with pytest.raises(DefinitionError, match="a tool of LangChain was expected"):
        import_langchain_tools([cast("Any", _ordered)], name="x", effect="read")
