"""Choices with titles, in questions to the person behind a client."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Literal

import httpx2
import pytest
from pydantic import BaseModel, Field

from capset import Context, tool
from tests.helpers.server.mcp.person import Person, accept
from tests.helpers.server.mcp.support import bench, site, text_of

Color = Annotated[Literal["#d00"], Field(title="Red")] | Annotated[Literal["#0d0"], Field(title="Green")]


class Look(BaseModel):
    color: Color
    stripes: list[Color] = []


@tool(effect="read")
async def paint(ctx: Context) -> str:
    """Paint something."""
    look = await ctx.ask_client("look", "Which look?", Look)
    return look.data.model_dump_json() if look.data else look.action


@pytest.mark.spec("M12")
async def test_choices_are_shown_by_their_titles() -> None:
    person = Person(accept(color="Red"), accept(color="#0d0", stripes=["#d00", "#0d0"]))
    async with bench("auto", paint, elicitation_callback=person) as workbench:
        painted = text_of(await workbench.client.call_tool("paint", {}))
        assert painted == '{"color":"#0d0","stripes":["#d00","#0d0"]}', "a title is no value"
        assert len(person.asked) == 2
        choices = [{"const": "#d00", "title": "Red"}, {"const": "#0d0", "title": "Green"}]
        assert person.asked[0].requested_schema == {
            "type": "object",
            "properties": {
                "color": {"type": "string", "oneOf": choices},
                "stripes": {"type": "array", "items": {"anyOf": choices}, "default": []},
            },
            "required": ["color"],
        }


@pytest.mark.spec("M12", "M25")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
async def test_an_older_client_is_shown_them_in_its_own_form(version: str) -> None:
    declared = {"protocolVersion": version, "capabilities": {"elicitation": {}}}
    hello = {"method": "initialize", "params": declared | {"clientInfo": {"name": "t", "version": "1"}}}
    sent = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": version}
    async with (
        site(paint) as server,
        httpx2.AsyncClient(headers={**sent, "Authorization": "Bearer ada"}, timeout=20) as http,
    ):
        url = f"{server.url}/mcp/agents/tester"
        opened = await http.post(url, json={"jsonrpc": "2.0", "id": 0, **hello})
        http.headers["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "paint", "arguments": {}}}
        messages: list[dict[str, Any]] = []
        async with asyncio.timeout(60), http.stream("POST", url, json=call) as response:
            async for line in response.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                messages.append(json.loads(line.removeprefix("data: ")))
                if "method" in messages[-1]:
                    result = {"action": "accept", "content": {"color": "#d00", "stripes": []}}
                    answer = {"jsonrpc": "2.0", "id": messages[-1]["id"], "result": result}
                    assert (await http.post(url, json=answer)).status_code == 202
    question, answered = messages
    assert question["method"] == "elicitation/create"
    names = {"enum": ["#d00", "#0d0"], "enumNames": ["Red", "Green"]}
    titles = {"oneOf": [{"const": "#d00", "title": "Red"}, {"const": "#0d0", "title": "Green"}]}
    color = question["params"]["requestedSchema"]["properties"]["color"]
    assert color == {"type": "string", **(names if version == "2025-06-18" else titles)}
    assert answered["result"]["content"][0]["text"] == '{"color":"#d00","stripes":[]}'
