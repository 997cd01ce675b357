"""Results and descriptions of an MCP server, as they reach the clients of capset's own (spec 7, M96 to M98)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client
from mcp_types import TextContent

from capset_server.mcp.exchanges import Exchange
from capset_server.mcp.protocol import make_server
from tests.helpers.connect.mcp.opening import Site
from tests.helpers.connect.mcp.scripted import ADD, IMAGE, STRUCTURED, Answering, plain, scripted, site_of
from tests.helpers.kernel.support import records_of
from tests.helpers.server.mcp.support import PREFIX, Era

TEXT = {"type": "text", "text": "done"}
INSIDE = {"type": "resource", "resource": {"uri": "a://c", "mimeType": "text/plain", "text": "it is full"}}
BLOCKS = [
    {**TEXT, "annotations": {"audience": ["user"], "priority": 0.5}, "_meta": {"books/shelf": 1}},
    {**IMAGE, "annotations": {"priority": 1.0}},
    {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
    {"type": "resource_link", "uri": "a://b", "name": "b", "description": "Far.", "size": 3},
    INSIDE,
    {"type": "resource", "resource": {"uri": "a://d", "blob": "AAAA"}},
]


@asynccontextmanager
async def gateway(
    answering: Answering, tool: dict[str, Any] = ADD, *, era: Era = "auto", **options: Any
) -> AsyncGenerator[tuple[Client, Site]]:
    """Connect an official client to a session whose one tool is another server's."""
    async with site_of(scripted(answering, tool), **options) as (site, _):
        exchange = Exchange(site.session)
        async with Client(make_server(lambda: exchange), mode=era) as client:
            yield client, site


def plainly(value: Any) -> Any:
    """Return a model of the protocol as it is on the wire."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


@pytest.mark.spec("M97")
async def test_clients_get_the_blocks_of_a_server_as_it_sent_them() -> None:
    structure = {"z": 1, "a": [2]}
    answering = plain(content=BLOCKS, structuredContent=structure, _meta={"books/x": {"z": 1}, f"{PREFIX}record": "no"})
    async with gateway(answering) as (client, site):
        result = await client.call_tool("books_add", {"a": 1})
        assert [plainly(block) for block in result.content] == BLOCKS
        assert result.structured_content == structure
        assert list(result.structured_content or ()) == ["z", "a"]
        (record,) = await records_of(site.kernel.audit, tool="books_add")
        assert result.meta is not None
        assert (result.meta["books/x"], result.meta[f"{PREFIX}record"]) == ({"z": 1}, record.id)
        assert (result.is_error, record.outcome, record.code) == (False, "succeeded", None)


@pytest.mark.spec("M97")
async def test_a_text_stays_where_there_is_a_structure_with_a_schema(era: Era) -> None:
    answering = plain(content=[TEXT], structuredContent={"n": 1})
    async with gateway(answering, STRUCTURED, era=era) as (client, site):
        result = await client.call_tool("books_add", {"a": 1})
        assert ([plainly(block) for block in result.content], result.structured_content) == ([TEXT], {"n": 1})
        assert await site.call("books_add", a=1) == {"n": 1}


@pytest.mark.spec("M97")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"content": [], "structuredContent": {"reason": "it is full"}}, '{"reason": "it is full"}'),
        ({"content": [INSIDE]}, "it is full"),
        ({"content": [TEXT, IMAGE], "structuredContent": {"n": 1}}, "done"),
    ],
)
async def test_an_error_is_readable_whatever_says_it(answer: dict[str, Any], expected: str) -> None:
    async with gateway(plain(isError=True, **answer)) as (client, site):
        result = await client.call_tool("books_add", {"a": 1})
        assert result.is_error
        assert [plainly(block) for block in result.content] == (answer["content"] or [{**TEXT, "text": expected}])
        assert result.structured_content == answer.get("structuredContent")
        failed = await site.session.try_message(site.session.message("books_add", {"a": 1}))
        assert failed.error is not None
        assert (failed.error.message, failed.error.code) == (expected, "failed")


@pytest.mark.spec("M96")
@pytest.mark.parametrize(
    ("structure", "place"),
    [
        ({"n": "many"}, "n: "),
        ({"m": 1}, "n: "),
        (None, "the result: "),
        ("-", "structuredContent: required, but missing"),
    ],
)
async def test_what_does_not_fit_its_schema_arrives_with_a_note(structure: Any, place: str) -> None:
    answering = plain(content=[TEXT], structuredContent=structure)
    async with gateway(answering, STRUCTURED) as (client, site):
        result = await client.call_tool("books_add", {"a": 1})
        assert result.meta is not None
        note = result.meta[f"{PREFIX}note"]
        assert place in note
        assert [block.text for block in result.content if isinstance(block, TextContent)] == ["done", f"[{note}]"]
        assert result.structured_content == (None if structure == "-" else structure)
        assert result.is_error, "the official client throws away what does not fit and is no error"
        (record,) = await records_of(site.kernel.audit, tool="books_add")
        assert (record.outcome, record.code) == ("succeeded", "output_misfit")
        assert record.reason is not None
        assert note in record.reason


@pytest.mark.spec("M96")
@pytest.mark.parametrize(
    ("answer", "place"),
    [
        ({"isError": None}, "isError: "),
        ({"content": [{**TEXT, "annotations": {"priority": 5}}]}, "content.0.annotations.priority: "),
        ({"content": [TEXT, {"type": "video", "uri": "a://b"}]}, "content.1: "),
    ],
)
async def test_what_does_not_fit_the_protocol_arrives_with_a_note(answer: dict[str, Any], place: str) -> None:
    async with gateway(plain(**answer)) as (client, site):
        result = await client.call_tool("books_add", {"a": 1})
        assert not result.is_error
        assert plainly(result.content[0]) == TEXT
        assert place in plainly(result.content[-1])["text"]
        (record,) = await records_of(site.kernel.audit, tool="books_add")
        assert (record.outcome, record.code) == ("succeeded", "output_misfit")


OPTIONAL = {"taskSupport": "optional"}
DESCRIBED = {
    "name": "add",
    "description": "Add.",
    "inputSchema": {"type": "object", "properties": {"z": {"type": "integer"}, "a": {"type": "integer"}}},
    "annotations": {"title": "Adding", "readOnlyHint": True, "openWorldHint": False},
    "execution": OPTIONAL,
    "_meta": {"books/x": {"z": 1, "a": 2}, f"{PREFIX}effect": "read"},
}


@pytest.mark.spec("M98")
async def test_a_list_says_of_a_tool_what_its_server_says(era: Era) -> None:
    async with gateway(plain(), DESCRIBED, era=era) as (client, _):
        (tool,) = (await client.list_tools()).tools
        assert list(tool.input_schema["properties"]) == ["z", "a"]
        assert tool.output_schema is None
        assert plainly(tool.annotations) == DESCRIBED["annotations"]
        # The newest revision has no such member.
        assert (None if tool.execution is None else plainly(tool.execution)) == (OPTIONAL if era == "legacy" else None)
        assert tool.meta is not None
        assert list(tool.meta["books/x"]) == ["z", "a"]
        assert tool.meta[f"{PREFIX}effect"] == "destructive", "what capset says of it is capset's"


@pytest.mark.spec("M98")
async def test_hints_of_a_server_stand_back_for_the_effect_that_its_host_says() -> None:
    async with gateway(plain(), DESCRIBED, rules={"add": {"effect": "write"}}) as (client, _):
        (tool,) = (await client.list_tools()).tools
        assert plainly(tool.annotations) == {"title": "Adding", "readOnlyHint": False, "destructiveHint": False}


@pytest.mark.spec("M98")
async def test_a_schema_of_results_is_the_servers_own() -> None:
    async with gateway(plain(), STRUCTURED) as (client, _):
        (tool,) = (await client.list_tools()).tools
        assert tool.output_schema == STRUCTURED["outputSchema"]
