"""What an MCP client sees where tools come and go, and where they have other names (spec 1, C15, C21, C27)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from capset import Agent, Kernel, Principal
from capset_server.mcp.exchanges import Exchange
from capset_server.mcp.protocol import make_server
from tests.helpers.server.dynamic import Door, shelf
from tests.helpers.server.mcp.support import PREFIX, Bench, Era, text_of


@asynccontextmanager
async def bench_of(era: Era, agent: Agent) -> AsyncGenerator[Bench]:
    """Open a session of an agent and connect a client to it in memory."""
    async with Kernel("memory://") as kernel, kernel.open(agent, principal=Principal("user-1")) as session:
        exchange = Exchange(session)
        async with Client(make_server(lambda: exchange), mode=era) as client:
            yield Bench(kernel, session, client)


@pytest.mark.spec("C27")
async def test_the_list_is_that_of_the_moment_and_its_tools_are_called(era: Era) -> None:
    door = Door()
    async with bench_of(era, door.agent) as workbench:
        assert [tool.name for tool in (await workbench.client.list_tools()).tools] == []
        refused = await workbench.client.call_tool("v_peek", {})
        assert refused.is_error
        door.is_open = True
        tool_list = await workbench.client.list_tools()
        assert [tool.name for tool in tool_list.tools] == ["v_peek", "v_take"]
        assert [(tool.meta or {})[f"{PREFIX}capability"] for tool in tool_list.tools] == ["vault", "vault"]
        peeked = await workbench.client.call_tool("v_peek", {})
        taken = await workbench.client.call_tool("vault.v_take", {})
        assert (peeked.structured_content, text_of(taken)) == ({"seen": "gold"}, "taken")
        assert taken.structured_content == {"result": "taken"}
        for answer in (peeked, taken):
            assert answer.meta is not None
            assert tool_list.meta is not None
            assert answer.meta[f"{PREFIX}runtime_hash"] == tool_list.meta[f"{PREFIX}runtime_hash"]
            assert answer.meta[f"{PREFIX}runtime_hash"] != workbench.session.snapshot.runtime_hash
        records = await workbench.records()
        assert [(record.tool, record.capability, record.outcome) for record in records] == [
            ("v_peek", None, "not_found"),
            ("v_peek", "vault", "succeeded"),
            ("v_take", "vault", "succeeded"),
        ]


@pytest.mark.spec("C21")
async def test_the_instructions_have_the_context_of_the_moment(era: Era) -> None:
    for is_open, word in ((False, "shut"), (True, "open")):
        async with bench_of(era, Door(is_open=is_open).agent) as workbench:
            assert workbench.client.instructions is not None
            assert workbench.client.instructions.endswith(f"<door>\n  {word}\n</door>")
            assert ("Gold is heavy." in workbench.client.instructions) == is_open


async def test_a_context_that_fails_is_named_and_leaks_nothing(era: Era) -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - the client wraps it in groups of its own
        async with bench_of(era, Door(broken=True).agent):
            pass
    error: BaseException = raised.value
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, MCPError)
    assert "hunter2" not in str(error)
    # The client of the newest revision takes any error for an older server, and tries the handshake of old.
    assert "stands()" in str(error) or era == "auto"


@pytest.mark.spec("C15")
async def test_tools_are_listed_called_and_recorded_under_their_names_here(era: Era) -> None:
    agent = Agent("keeper", uses=[shelf.with_names(prefix="s_", rename={"put": "place"})])
    async with bench_of(era, agent) as workbench:
        assert [tool.name for tool in (await workbench.client.list_tools()).tools] == ["place", "s_look"]
        for name in ("place", "shelf.place", "bookcase.place"):
            assert text_of(await workbench.client.call_tool(name, {"book": "Ovid"})) == "Ovid"
        assert (await workbench.client.call_tool("put", {"book": "Ovid"})).is_error
        assert [record.tool for record in await workbench.records()] == ["place", "place", "place", "put"]
