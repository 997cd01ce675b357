"""What a tool gives fits its published output schema, through every door over HTTP (spec 4, G38)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar

import httpx2
import pytest
from jsonschema import Draft202012Validator
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, RootModel, computed_field, model_serializer
from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict

from capset import Capability, Context, Emit, Progress, Reply, Tool, handles, tool
from capset_server.client import Client
from tests.helpers.server.mcp.support import Era
from tests.helpers.server.sse import events_of
from tests.helpers.server.support import call, make_agent, make_session, site

pytestmark = pytest.mark.spec("G38")
T = TypeVar("T")
Cents = Annotated[int, PlainSerializer(lambda cents: f"{cents / 100:.2f}", return_type=str)]


class Line(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)
    unit_price: Cents
    count: int = Field(default=1, serialization_alias="howMany")

    @computed_field
    @property
    def whole_price(self) -> Cents:
        return self.unit_price * self.count


class Page(BaseModel, Generic[T]):
    items: list[T] = Field(serialization_alias="list")
    after: Page[T] | None = Field(default=None, serialization_alias="next")


class Total(TypedDict):
    total: Annotated[Cents, Field(serialization_alias="Total")]


@dataclass
class Bill:
    lines: Annotated[list[Line], Field(serialization_alias="Lines")]


class Point(BaseModel):
    x: int

    @model_serializer
    def written(self) -> list[int]:
        return [self.x]


LINE = Line(unit_price=150, count=2)
LINE_JSON = {"unitPrice": "1.50", "howMany": 2, "wholePrice": "3.00"}


@tool(effect="read")
async def line() -> Line:
    """Give a line."""
    return LINE


@tool(effect="read")
async def page() -> Page[Line]:
    """Give a page of lines."""
    return Page[Line](items=[LINE], after=Page[Line](items=[]))


@tool(effect="read")
async def total() -> Total:
    """Give the total."""
    return {"total": 300}


@tool(effect="read")
async def bill() -> Bill:
    """Give the bill."""
    return Bill([LINE])


@tool(effect="read")
async def any_of_them() -> Total | Point | None:
    """Give one of them."""
    return Point(x=1)


@tool(effect="read")
async def by_name() -> RootModel[dict[str, Line]]:
    """Give lines by name."""
    return RootModel[dict[str, Line]]({"first": LINE})


@tool(effect="read")
async def in_steps() -> AsyncIterator[Progress | Reply[Line]]:
    """Give a line, after a while."""
    yield Progress(0.5, "half")
    yield Reply(LINE)


class Ask(BaseModel):
    """Ask for a line."""

    kind: Literal["query"] = "query"
    type: Literal["Shop.Ask"] = "Shop.Ask"


class Seen(BaseModel):
    """A line was seen."""

    kind: Literal["event"] = "event"
    type: Literal["Shop.Seen"] = "Shop.Seen"
    data: Line


class Told(BaseModel):
    """The line."""

    kind: Literal["reply"] = "reply"
    type: Literal["Shop.Told"] = "Shop.Told"
    data: Line


async def tell(message: Ask, emit: Emit, ctx: Context) -> None:
    await emit(Seen(data=LINE))
    await emit(Told(data=LINE))


asked = Tool.from_processor(inbound=Ask, outbound=Seen | Told, factory=handles(tell), description="Tell.", name="asked")
GIVEN: dict[str, Any] = {
    "line": LINE_JSON,
    "page": {"list": [LINE_JSON], "next": {"list": [], "next": None}},
    "total": {"Total": "3.00"},
    "bill": {"Lines": [LINE_JSON]},
    "any_of_them": [1],
    "by_name": {"first": LINE_JSON},
    "in_steps": LINE_JSON,
    "asked": LINE_JSON,
}
TOOLS = {shop_tool.name: shop_tool for shop_tool in (line, page, total, bill, any_of_them, by_name, in_steps, asked)}
SHOP = Capability("shop", tools=list(TOOLS.values()))


async def test_over_rest_and_as_events() -> None:
    async with site(SHOP) as server, server.client() as ada:
        session = await make_session(ada, "shop")
        for name, expected in GIVEN.items():
            answer = await call(ada, session, name)
            assert (answer.status_code, answer.json().get("data")) == (200, expected), answer.text
            assert_fits(TOOLS[name].output.json_schema, answer.json()["data"])
        ada.headers["Accept"] = "text/event-stream"
        for name in ("in_steps", "asked"):
            *event_texts, last = (await call(ada, session, name)).text.rstrip("\n").split("\n\n")
            assert json.loads(last.partition("data: ")[2])["data"] == LINE_JSON
            (event,) = [parsed.data for parsed in events_of("\n\n".join(event_texts) + "\n\n")]
            assert_fits(TOOLS[name].outbound, {key: event[key] for key in ("kind", "type", "data")})
        assert event["data"] == LINE_JSON


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_over_mcp(era: Era) -> None:
    async with site(SHOP) as server, server.client() as ada:
        agent = await make_agent(ada, "shop")
        headers = {"Authorization": f"Bearer {server.keys['ada']}"}
        async with (
            httpx2.AsyncClient(headers=headers, trust_env=False, timeout=20) as http,
            McpClient(
                streamable_http_client(f"{server.url}/mcp/agents/{agent['id']}", http_client=http), mode=era
            ) as mcp,
        ):
            schemas = {tool.name: tool.output_schema for tool in (await mcp.list_tools()).tools}
            for name, expected in GIVEN.items():
                result = await mcp.call_tool(name, {})
                content = result.structured_content
                assert (result.is_error, content) in ((False, expected), (False, {"result": expected}))
                schema = schemas[name]
                assert schema is not None
                assert_fits(schema, content)


async def test_the_typed_client_reads_them() -> None:
    async with site(SHOP) as server, server.client() as ada:
        session = await make_session(ada, "shop")
        async with Client(server.url, key=server.keys["ada"]) as client:
            for name, expected in GIVEN.items():
                assert (await client.call(session, name, {})).data == expected


def assert_fits(schema: Any, data: Any) -> None:
    """Check JSON data by another validator than the one that capset has."""
    errors = [error.message for error in Draft202012Validator(schema).iter_errors(data)]
    assert not errors, (schema, data)
