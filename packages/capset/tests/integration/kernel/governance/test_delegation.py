"""Agents that act for users: what they may do, what is on record, and whose their sessions are (spec 4, G9)."""

from __future__ import annotations

import pytest

from capset import Agent, Capability, Kernel, Principal, tool
from capset.errors import NotFound, PermissionDenied
from tests.helpers.kernel.support import records_of


@tool(permissions={"notes:write"})
async def write() -> int:
    """Write."""
    return 1


@tool(permissions={"vault:open"})
async def unlock() -> int:
    """Open the vault."""
    return 1


@tool(effect="read", permissions={"notes:read"})
async def look() -> int:
    """Look."""
    return 1


AGENT = Agent("tester", uses=[Capability("kit", tools=[write, unlock, look])])
ADA = Principal("ada", org="acme", permissions={"notes:read", "notes:write"})
BOB = Principal("bob", org="acme", permissions={"notes:read", "notes:write"})
BOT = Principal("bot", kind="agent", org="acme", permissions={"notes:read", "vault:open"})


@pytest.mark.spec("G9", "G20", "T19")
async def test_it_may_do_what_both_may_and_the_record_says_for_whom(store: str) -> None:
    async with Kernel(store) as kernel, kernel.open(AGENT, principal=BOT.acting_for(ADA)) as session:
        assert list(session.snapshot.tools) == ["look"]
        assert await session.call(look) == 1
        for denied_tool in (write, unlock):
            with pytest.raises(PermissionDenied):
                await session.call(denied_tool)
        records = await records_of(kernel.audit)
        assert [record.outcome for record in records] == ["succeeded", "denied", "denied"]
        assert {(record.principal, record.principal_kind, record.on_behalf_of) for record in records} == {
            ("bot", "agent", "user:ada")
        }
        assert (await kernel.audit.verify()).ok


@pytest.mark.spec("G9")
async def test_a_session_is_of_whoever_acts_and_of_whom_they_act_for(store: str) -> None:
    for_ada = BOT.acting_for(ADA)
    async with Kernel(store) as kernel:
        async with kernel.open(AGENT, principal=for_ada) as session:
            await session.files.write("/diary.txt", b"of ada's")
        for other in (BOT.acting_for(BOB), BOT, ADA, BOT.acting_for(BOB.acting_for(ADA))):
            with pytest.raises(NotFound, match="there is no session"):
                async with kernel.open(AGENT, principal=other, session_id=session.id):
                    pass
        async with kernel.open(AGENT, principal=for_ada, session_id=session.id) as reopened:
            assert (await reopened.files.read("/diary.txt"))[1] == b"of ada's"
        async with kernel.open(AGENT, principal=BOT) as own_session:
            pass
        with pytest.raises(NotFound):
            async with kernel.open(AGENT, principal=for_ada, session_id=own_session.id):
                pass
