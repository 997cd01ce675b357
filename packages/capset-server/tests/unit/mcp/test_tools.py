"""What MCP clients see of a session's tools."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, Tool

from capset.fingerprint.hashes import tool_hash
from tests.helpers.server.mcp.support import KIT, PREFIX, Era, add, bench, echo, save


async def listed(era: Era, **options: Any) -> dict[str, Tool]:
    async with bench(era, **options) as workbench:
        return {tool.name: tool for tool in (await workbench.client.list_tools()).tools}


async def test_the_list_has_the_tools_in_play_by_name_and_nothing_else(era: Era) -> None:
    async with bench(era) as workbench:
        result = await workbench.client.list_tools()
        names = [tool.name for tool in result.tools]
        assert names == sorted(tool.name for tool in KIT if tool is not save)
        assert names == sorted(workbench.session.snapshot.tools)
        assert result.next_cursor is None
        assert result.meta is not None
        assert result.meta[f"{PREFIX}runtime_hash"] == workbench.session.snapshot.runtime_hash
        assert result.meta[f"{PREFIX}prompt_hash"] == workbench.session.snapshot.prompt_hash
    assert "save" in await listed(era, permissions={"notes:write"})


async def test_a_tool_is_shown_with_its_own_words_and_schemas(era: Era) -> None:
    echo_tool = (await listed(era))["echo"]
    assert echo_tool.description == "Give back what was given."
    assert echo_tool.input_schema == echo.arguments.json_schema
    assert echo_tool.input_schema["additionalProperties"] is False
    assert echo_tool.title is None
    assert echo_tool.meta == {f"{PREFIX}capability": "kit", f"{PREFIX}effect": "read", f"{PREFIX}hash": tool_hash(echo)}


async def test_hints_say_what_the_effect_says_and_no_more(era: Era) -> None:
    tools = await listed(era)
    hints = {name: tool.annotations and tool.annotations.model_dump(exclude_none=True) for name, tool in tools.items()}
    assert hints["echo"] == {"read_only_hint": True}
    assert hints["add"] == {"read_only_hint": False, "destructive_hint": False}
    assert hints["crash"] == {"read_only_hint": False, "open_world_hint": True}
    assert hints["wipe"] == {"read_only_hint": False, "destructive_hint": True, "idempotent_hint": True}


async def test_an_output_that_is_an_object_keeps_its_schema_and_others_stand_under_result(era: Era) -> None:
    tools = await listed(era, permissions={"notes:write"})
    assert tools["save"].output_schema == save.output.json_schema
    assert tools["add"].output_schema == {
        "type": "object",
        "properties": {"result": add.output.json_schema},
        "required": ["result"],
        "additionalProperties": False,
    }
    for name in ("pages", "book"):
        schema = tools[name].output_schema
        assert schema is not None
        assert schema["type"] == "object"
        assert schema["$defs"].keys() == {"Page"}, "references are written from the root"
        assert "$defs" not in schema["properties"]["result"]
    for name in ("steps", "silent"):
        schema = tools[name].output_schema
        assert schema is not None
        assert "required" not in schema, "a streaming tool may end without a reply"


async def test_a_cursor_that_nobody_gave_out_is_invalid(era: Era) -> None:
    async with bench(era) as workbench:
        with pytest.raises(MCPError) as raised:
            await workbench.client.list_tools(cursor="2")
        assert raised.value.code == INVALID_PARAMS


async def test_the_session_s_system_text_is_the_server_s_instructions(era: Era) -> None:
    async with bench(era, prompt="Be brief.") as workbench:
        assert workbench.client.instructions == workbench.session.snapshot.composition.system_text == "Be brief."
    async with bench(era) as workbench:
        assert workbench.client.instructions is None


@pytest.mark.spec("M13", "M24")
async def test_the_server_claims_what_it_offers_and_nothing_else(era: Era) -> None:
    async with bench(era) as workbench:
        claimed = workbench.client.server_capabilities.model_dump(exclude_none=True)
        tells = era == "auto"  # older revisions have no request that listens
        assert claimed == {
            "completions": {},
            "prompts": {"list_changed": tells},
            "resources": {"list_changed": tells, "subscribe": tells},
            "tools": {"list_changed": tells},
            **({"extensions": {"io.modelcontextprotocol/tasks": {}}} if tells else {}),
        }
        assert workbench.client.server_info is not None
        assert workbench.client.server_info.name == "capset"
