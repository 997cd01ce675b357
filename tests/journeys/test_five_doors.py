"""One stored agent, called through every door: one record each, and one fingerprint (spec 5, P16)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pydantic_ai
import pytest
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from capset import Kernel, Principal, Registry
from capset_connect.agents.store import StoredAgents
from capset_frameworks.pydantic_ai import CapsetToolset
from capset_server.client import AgentInput, Client
from tests.helpers.server.running import Running, running

ASKED = {"a": 2, "b": 3}
ADA = Principal("ada", permissions={"session_files:read"}, org="acme")


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Call the tool once, as a model would."""
    if len(messages) == 1:
        return ModelResponse([ToolCallPart("add", ASKED)])
    return ModelResponse([TextPart("done")])


async def over_http(url: str, key: str) -> str:
    """Make the agent, call it over REST, as a stream and over MCP, and return its id."""
    async with Client(url, key=key) as client:
        agent = await client.agents.create(
            AgentInput(name="adder", system_prompt="Add.", capabilities=["test_math", "session_file_system"])
        )
        session = (await client.sessions.create(agent.id)).id
        assert (await client.call(session, "add", ASKED, correlation="rest")).data["result"] == 5
        async with client.stream(session, "add", ASKED, correlation="stream") as events:
            assert [event async for event in events] == []
        assert events.result.data["result"] == 5
    headers = {"Authorization": f"Bearer {key}", "X-Correlation-Id": "mcp"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False) as http,
        McpClient(streamable_http_client(f"{url}/mcp/agents/{agent.id}", http_client=http)) as mcp,
    ):
        called = await mcp.call_tool("add", ASKED)
        assert called.structured_content is not None
        assert called.structured_content["result"] == 5
    return agent.id


async def in_process(database: Path, agent_id: str) -> None:
    """Call it from a pydantic-ai agent, beside the server."""
    async with Kernel(store=f"sqlite:///{database}") as kernel:
        agent = (await StoredAgents(kernel, Registry.installed()).get(ADA.org, agent_id)).agent
        async with kernel.open(agent, principal=ADA) as session:
            helper = pydantic_ai.Agent(FunctionModel(scripted), toolsets=[CapsetToolset(session)])
            assert (await helper.run("How much is 2 + 3?")).output == "done"


@pytest.mark.gate
@pytest.mark.realtime
@pytest.mark.spec("P16")
def test_five_doors_leave_five_records_of_one_version(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        key = server.key("ada", org="acme", grant=ADA.permissions, scopes=("capset:admin",))
        agent_id = asyncio.run(over_http(server.url, key))
        by_command(server, key, agent_id)
        asyncio.run(in_process(tmp_path / "capset.db", agent_id))
        records = server.capset("audit", "query", "--tool", "add", "--json").json["items"]
        assert server.capset("audit", "verify").code == 0
    assert len(records) == 5
    assert len({record["runtime_hash"] for record in records}) == 1
    assert {record["runtime_hash"] for record in records} != {""}
    for column in ("static_hash", "prompt_hash", "tool_hash", "arguments_digest", "principal", "org", "outcome"):
        assert len({record[column] for record in records}) == 1, column
    assert records[0]["outcome"] == "succeeded"
    assert {"rest", "stream", "mcp"} < {record["correlation"] for record in records}
    assert len({record["id"] for record in records}) == 5


def by_command(server: Running, key: str, agent_id: str) -> None:
    """Call it from the command line."""
    arguments = ("call", "add", "--args", '{"a": 2, "b": 3}', "--agent", agent_id, "--url", server.url, "--json")
    done = server.capset(*arguments, env={"CAPSET_KEY": key})
    assert done.code == 0, done.err
    assert done.json["data"]["result"] == 5
