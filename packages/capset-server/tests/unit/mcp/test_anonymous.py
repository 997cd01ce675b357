"""Where everybody must be known, MCP shows no tool to who is not (spec 4, G8)."""

from __future__ import annotations

import pytest
from mcp import Client

from capset import Agent, Capability, Kernel, Principal
from capset.ext import Governance
from capset_server.mcp.exchanges import Exchange
from capset_server.mcp.protocol import make_server
from tests.helpers.kernel.support import records_of
from tests.helpers.server.mcp.support import KIT, text_of


@pytest.mark.spec("G1", "G8", "P16")
@pytest.mark.parametrize("must_be_known", [True, False])
async def test_who_is_not_known_is_shown_nothing_and_refused_on_record(must_be_known: bool) -> None:
    governance = Governance(require_auth=must_be_known)
    agent = Agent("tester", uses=[Capability("kit", tools=KIT)])
    principal = Principal.anonymous()
    async with Kernel("memory://", governance=governance) as kernel, kernel.open(agent, principal=principal) as session:
        exchange = Exchange(session)
        async with Client(make_server(lambda: exchange)) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert ("echo" in names) is not must_be_known
            assert bool(names) is not must_be_known
            if must_be_known:
                refused = await client.call_tool("echo", {"text": "hi"})
                assert refused.is_error
                assert "only known principals" in text_of(refused)
                (record,) = await records_of(kernel.audit)
                assert (record.outcome, record.principal) == ("unauthenticated", "anonymous")
