"""Calls by MCP: what comes back, and what is on record."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    CallToolRequestParams,
    CallToolResult,
    EmptyResult,
    PingRequest,
    SetLevelRequest,
    SetLevelRequestParams,
)

from capset_server.mcp.exchanges import Exchange
from capset_server.mcp.tools import call_tool
from tests.helpers.kernel.support import desk
from tests.helpers.server.mcp.support import PREFIX, Era, bench, echo, text_of

QUIET = SetLevelRequest(params=SetLevelRequestParams(level="error"))
"""Of logging, which is left out."""


def nested(depth: int) -> list[Any]:
    """Return a list in a list, and so on."""
    nesting: list[Any] = []
    for _ in range(depth):
        nesting = [nesting]
    return nesting


@pytest.mark.parametrize(
    ("name", "arguments", "text", "structure"),
    [
        ("echo", {"text": "Grüße"}, "Grüße", {"result": "Grüße"}),
        ("add", {"a": 2}, "3", {"result": 3}),
        ("kit.add", {"a": 2, "b": 3}, "5", {"result": 5}),
        ("save", {"text": "hi"}, '{"text": "hi", "author": null}', {"text": "hi", "author": None}),
        ("wipe", {}, "null", {"result": None}),
        ("wipe", None, "null", {"result": None}),
        ("steps", {"fractions": [0.5]}, "1", {"result": 1}),
    ],
)
async def test_a_result_is_text_for_models_and_structure_for_programs(
    name: str, arguments: dict[str, Any] | None, text: str, structure: object, era: Era
) -> None:
    async with bench(era, permissions={"notes:write"}) as workbench:
        # The official client checks the structure against the tool's output schema.
        await workbench.client.list_tools()
        result = await workbench.client.call_tool(name, arguments)
        assert text_of(result) == text
        assert result.structured_content == structure
        assert result.is_error is False
        (record,) = await workbench.records()
        assert (record.outcome, record.capability) == ("succeeded", "kit")
        snapshot = workbench.session.snapshot
        assert result.meta is not None
        assert {key: value for key, value in result.meta.items() if key.startswith(PREFIX)} == {
            f"{PREFIX}record": record.id,
            f"{PREFIX}correlation": record.correlation,
            f"{PREFIX}untrusted": True,
            f"{PREFIX}runtime_hash": snapshot.runtime_hash,
            f"{PREFIX}prompt_hash": snapshot.prompt_hash,
        }


@pytest.mark.parametrize("name", ["pages", "book"])
async def test_a_schema_with_references_fits_its_result(name: str, era: Era) -> None:
    async with bench(era) as workbench:
        await workbench.client.list_tools()
        result = await workbench.client.call_tool(name)
        assert result.structured_content is not None
        assert result.structured_content["result"] == json.loads(text_of(result))


async def test_a_stream_without_a_reply_is_a_success_with_nothing_to_show(era: Era) -> None:
    async with bench(era) as workbench:
        await workbench.client.list_tools()
        result = await workbench.client.call_tool("silent")
        assert (result.content, result.structured_content, result.is_error) == ([], {}, False)


@pytest.mark.parametrize(
    ("name", "arguments", "outcome", "code", "lines"),
    [
        ("eco", {}, "not_found", "not_found", ["unknown tool 'eco'; did you mean 'echo'?"]),
        ("save", {"text": "x"}, "denied", "permission_denied", ["lacks the permission notes:write"]),
        (
            "refuse",
            {"text": "not today"},
            "failed",
            "refused_politely",
            ["not today", "- text: something kind (did you mean 'please'?)"],
        ),
        (
            "add",
            {"a": "one", "bb": 2},
            "invalid",
            "invalid_arguments",
            ["Invalid arguments for 'add': a: Input should be a valid integer; bb: no such parameter"],
        ),
        ("add", {"a": 1.5}, "invalid", "invalid_arguments", ["'add': a: "]),
        ("add", {"a": float("nan")}, "invalid", "invalid_arguments", ["'add': a: "]),
    ],
)
async def test_what_went_wrong_is_a_result_that_the_model_reads(
    name: str, arguments: dict[str, Any], outcome: str, code: str, lines: list[str], era: Era
) -> None:
    async with bench(era) as workbench:
        result = await workbench.client.call_tool(name, arguments)
        assert result.is_error is True
        assert result.structured_content is None
        (record,) = await workbench.records()
        assert (record.outcome, record.code, record.tool) == (outcome, code, name)
        text = text_of(result)
        for line in lines:
            assert line in text
        assert text.splitlines()[-1] == f"code: {code}, correlation: {record.correlation}"
        assert result.meta is not None
        assert result.meta[f"{PREFIX}record"] == record.id
        error = result.meta[f"{PREFIX}error"]
        assert (error["code"], error["retryable"]) == (code, False)


async def test_a_misspelt_argument_is_told_what_was_perhaps_meant(era: Era) -> None:
    async with bench(era) as workbench:
        text = text_of(await workbench.client.call_tool("echo", {"txet": "x"}))
        assert text.count("(did you mean 'text'?)") == 1


async def test_what_may_be_tried_again_says_so(era: Era) -> None:
    async with bench(era) as workbench:
        result = await workbench.client.call_tool("slow")
        assert text_of(result).splitlines()[-1].endswith(", retryable")
        (record,) = await workbench.records()
        assert record.outcome == "timed_out"


async def test_what_a_handler_s_mistake_says_stays_inside(era: Era) -> None:
    async with bench(era) as workbench:
        result = await workbench.client.call_tool("crash")
        (record,) = await workbench.records()
        assert record.code == "internal_error"
        text = result.model_dump_json()
        assert record.correlation in text
        assert "hunter2" not in text
        assert "Traceback" not in text
        assert ".py" not in text


async def test_a_defect_of_the_door_says_nothing_of_itself(era: Era, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("/home/ada/secret.py")

    monkeypatch.setattr("capset_server.mcp.tools.answer", broken)
    async with bench(era) as workbench:
        with pytest.raises(MCPError) as raised:
            await workbench.client.call_tool("echo", {"text": "x"})
        assert "secret" not in str(raised.value.error)
        assert [record.outcome for record in await workbench.records()] == ["succeeded"], (
            "the call is on record all the same"
        )


async def test_what_is_no_request_stays_an_error_of_the_protocol() -> None:
    async with bench("legacy") as workbench:
        with pytest.raises(MCPError) as raised:
            await workbench.client.session.send_request(QUIET, EmptyResult)
        assert raised.value.code == METHOD_NOT_FOUND
        malformed = {"name": "echo", "arguments": ["x"]}
        with pytest.raises(MCPError) as raised:
            await workbench.client.session._dispatcher.send_raw_request("tools/call", malformed)
        assert raised.value.code == INVALID_PARAMS
        assert await workbench.client.session.send_request(PingRequest(), EmptyResult) == EmptyResult()
        assert await workbench.records() == [], "none of these named a tool to call"


@pytest.mark.parametrize(
    ("name", "arguments", "outcome"),
    [
        ("\ud800", {}, "not_found"),
        ("echo", {"text": "\ud800"}, "invalid"),
        ("echo", {"text": nested(400)}, "invalid"),
        ("echo", {"text": nested(100_000)}, "invalid"),
    ],
)
async def test_what_has_no_utf_8_or_no_end_is_refused_on_record(
    name: str, arguments: dict[str, Any], outcome: str
) -> None:
    async def nobody(*_: object) -> None:
        """Take no progress."""

    async with desk(echo) as test_desk:
        result = await call_tool(
            Exchange(test_desk.session), CallToolRequestParams.model_construct(name=name, arguments=arguments), nobody
        )
        assert isinstance(result, CallToolResult)
        assert result.is_error
        assert (await test_desk.record()).outcome == outcome
