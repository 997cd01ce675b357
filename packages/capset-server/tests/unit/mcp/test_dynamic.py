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
    async with bench_of(era, door.agent) as here:
        assert [one.name for one in (await here.client.list_tools()).tools] == []
        refused = await here.client.call_tool("v_peek", {})
        assert refused.is_error
        door.is_open = True
        listed = await here.client.list_tools()
        assert [one.name for one in listed.tools] == ["v_peek", "v_take"]
        assert [(one.meta or {})[f"{PREFIX}capability"] for one in listed.tools] == ["vault", "vault"]
        peeked = await here.client.call_tool("v_peek", {})
        taken = await here.client.call_tool("vault.v_take", {})
        assert (peeked.structured_content, text_of(taken)) == ({"seen": "gold"}, "taken")
        assert taken.structured_content == {"result": "taken"}
        for answer in (peeked, taken):
            assert answer.meta is not None
            assert listed.meta is not None
            assert answer.meta[f"{PREFIX}runtime_hash"] == listed.meta[f"{PREFIX}runtime_hash"]
            assert answer.meta[f"{PREFIX}runtime_hash"] != here.session.snapshot.runtime_hash
        records = await here.records()
        assert [(one.tool, one.capability, one.outcome) for one in records] == [
            ("v_peek", None, "not_found"),
            ("v_peek", "vault", "succeeded"),
            ("v_take", "vault", "succeeded"),
        ]


@pytest.mark.spec("C21")
async def test_the_instructions_have_the_context_of_the_moment(era: Era) -> None:
    for is_open, said in ((False, "shut"), (True, "open")):
        async with bench_of(era, Door(is_open=is_open).agent) as here:
            assert here.client.instructions is not None
            assert here.client.instructions.endswith(f"<door>\n  {said}\n</door>")
            assert ("Gold is heavy." in here.client.instructions) == is_open


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
    async with bench_of(era, agent) as here:
        assert [one.name for one in (await here.client.list_tools()).tools] == ["place", "s_look"]
        for name in ("place", "shelf.place", "bookcase.place"):
            assert text_of(await here.client.call_tool(name, {"book": "Ovid"})) == "Ovid"
        assert (await here.client.call_tool("put", {"book": "Ovid"})).is_error
        assert [one.tool for one in await here.records()] == ["place", "place", "place", "put"]
