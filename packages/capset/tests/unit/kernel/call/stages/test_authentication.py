"""Who must be known, and what everybody may do (spec 4, G1, G8)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from capset import Agent, Capability, Context, Json, Kernel, Message, Meta, Principal, compose, evaluate, tool
from capset.definitions.governance.settings import Governance
from capset.errors import PermissionDenied, Unauthenticated
from tests.helpers.evaluation.things import make
from tests.helpers.kernel.streams.support import processor
from tests.helpers.kernel.support import Desk, read

ran: list[str] = []
NOBODY = Principal.anonymous()


@tool(effect="read", instructions="Be careful.")
async def look(number: int = 0) -> int:
    """Look."""
    ran.append("look")
    return number


@tool(permissions={"vault:open"})
async def unlock() -> int:
    """Open the vault."""
    ran.append("unlock")
    return 1


async def process(messages: Any, emit: Any, ctx: Any) -> None:
    raise AssertionError("it ran")


KIT = Capability("kit", tools=[look, unlock, processor(process, name="work")])
STATIC = Agent("tester", uses=[KIT])


def uses(ctx: Context) -> list[Capability]:
    ran.append("uses")
    return [KIT]


DYNAMIC = Agent("tester", uses=uses)


@asynccontextmanager
async def gate(
    principal: Principal = NOBODY, *, agent: Agent = STATIC, store: str = "memory://", **settings: Any
) -> AsyncGenerator[Desk]:
    """Open a session: of an anonymous principal, where nobody may be anonymous, unless it is said."""
    ran.clear()
    governance = Governance(**(settings or {"require_auth": True}))
    async with Kernel(store, governance=governance) as kernel, kernel.open(agent, principal=principal) as session:
        yield Desk(kernel, session)


@pytest.mark.spec("G1", "G8", "G19", "T2")
@pytest.mark.parametrize("agent", [STATIC, DYNAMIC], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    "message",
    [
        Message("query", "look", {}),
        Message("query", "kit.look", {"number": 1}),
        Message("query", "look", {"number": "x", "more": 1}),
        Message("query", "look", Json(b"{no json")),
        Message("command", "look", {}),
        Message("query", "look", {}, Meta("m", "", "c", deadline="soon")),  # pyright: ignore[reportArgumentType]
        Message("query", "look", {}, Meta("m", "", "c", deadline=1.0)),
        Message("command", "unlock", {}),
        Message("command", "Work.Do", {"to": 1}),
        Message("command", "nothing", {}),
        Message("command", "\ud800", {}),
    ],
    ids=str,
)
async def test_anonymous_principals_learn_nothing_of_any_tool(message: Message, agent: Agent) -> None:
    async with gate(agent=agent) as opened:
        (error,) = await read(opened.session.invoke(message))
        record = await opened.record()
        assert error.data == {
            "code": "unauthenticated",
            "status": 401,
            "message": "Unauthenticated: only known principals may call tools here.",
            "retryable": False,
            "correlation": record.correlation,
        }
        assert ran == []
        assert (record.outcome, record.code, record.decision) == ("unauthenticated", "unauthenticated", "deny")
        assert (record.principal, record.principal_kind) == ("anonymous", "anonymous")
        assert record.reason == "anonymous principals are refused"


@pytest.mark.spec("G1", "G8", "T2")
@pytest.mark.parametrize("agent", [STATIC, DYNAMIC], ids=["static", "dynamic"])
async def test_anonymous_principals_see_no_tool(agent: Agent, store: str) -> None:
    empty = await evaluate(compose(Agent("empty")), principal=NOBODY)
    async with gate(agent=agent, store=store) as opened:
        for snapshot in (opened.session.snapshot, await opened.session.current()):
            assert (dict(snapshot.tools), snapshot.tool_refs, snapshot.decisions) == ({}, (), {})
            assert snapshot.runtime_hash == empty.runtime_hash
            assert not [verdict for verdict in snapshot.verdicts.values() if verdict.in_play]
            reasons = {verdict.reason for verdict in snapshot.verdicts.values()}
            assert reasons <= {"anonymous principals are refused"}
            assert "Be careful." not in snapshot.system_text
        assert ran == []


@pytest.mark.spec("G1", "G8")
async def test_anonymous_principals_see_no_tool_by_a_snapshot_that_was_made_elsewhere(store: str) -> None:
    async with gate(store=store) as opened:
        row = await opened.kernel.find_session(opened.session.id)
        assert row is not None
        made_before = await evaluate(compose(STATIC), principal=NOBODY)
        assert "look" in made_before.tools
        assert dict(opened.kernel.resume(row, made_before).snapshot.tools) == {}


@pytest.mark.spec("G1", "G8")
async def test_tool_objects_are_no_way_around(store: str) -> None:
    async with gate(store=store) as opened:
        for called_tool in (look, unlock, make("stranger")):
            with pytest.raises(Unauthenticated):
                await opened.session.call(called_tool)
        async with opened.session.open("Work.Do") as room:
            await room.send({"to": 1})
            room.finish()
            assert [message.data["status"] async for message in room] == [401]
        assert {record.outcome for record in await opened.records()} == {"unauthenticated"}
        assert ran == []


@pytest.mark.spec("G1", "G8")
@pytest.mark.parametrize("kind", ["user", "agent", "org"])
async def test_whoever_is_known_is_let_in_and_dynamic_uses_are_asked_for_them(kind: Any) -> None:
    async with gate(Principal("anonymous", kind=kind), agent=DYNAMIC) as opened:
        assert await opened.session.call(look, 5) == 5
        assert ran == ["uses", "look"]


@pytest.mark.spec("G8")
async def test_where_nobody_must_be_known_the_anonymous_may_do_what_everybody_may() -> None:
    async with gate(require_auth=False) as opened:
        assert await opened.session.call(look, 5) == 5
        with pytest.raises(PermissionDenied):
            await opened.session.call(unlock)


ADA = Principal("ada", permissions={"notes:read"}, org="acme")
BOT = Principal("bot", kind="agent", permissions={"notes:read"}).acting_for(Principal("ada"))


@pytest.mark.spec("G8", "G9")
@pytest.mark.parametrize(
    ("principal", "permissions", "kind", "on_behalf_of"),
    [
        (NOBODY, {"vault:open"}, "anonymous", None),
        (ADA, {"notes:read", "vault:open"}, "user", None),
        (BOT, {"vault:open"}, "agent", "user:ada"),
    ],
)
async def test_default_permissions_are_everybody_s_beside_their_own(
    principal: Principal, permissions: set[str], kind: str, on_behalf_of: str | None
) -> None:
    async with gate(principal, default_permissions=["vault:open"]) as opened:
        assert await opened.session.call(unlock) == 1
        assert opened.session.snapshot.principal.permissions == permissions
        record = await opened.record()
        assert (record.principal_kind, record.on_behalf_of) == (kind, on_behalf_of)
        async with opened.kernel.open(STATIC, principal=principal, session_id=opened.session.id) as reopened:
            assert reopened.snapshot.runtime_hash == opened.session.snapshot.runtime_hash
    async with gate(principal, default_permissions=[]) as opened:
        assert "unlock" not in opened.session.snapshot.tools, "least privilege, unless it is said"


@pytest.mark.spec("G23")
async def test_silent_reads_are_those_that_were_let_through(store: str) -> None:
    @tool(effect="read")
    async def fail() -> int:
        """Fail."""
        raise RuntimeError("no")

    agent = Agent("tester", uses=[Capability("kit", tools=[look, unlock, fail])])
    ada = Principal("ada", permissions={"vault:open"})
    async with gate(ada, agent=agent, store=store, record_reads=False) as opened:
        assert await opened.session.call(look) == 0
        failed = await opened.session.try_call(fail)
        assert failed.error is not None
        assert failed.error.correlation == failed.record, "the log still says which"
        assert await opened.records() == []
        await opened.session.call(unlock)
        await read(opened.session.invoke(Message("query", "look", {"number": "x"})))
        await read(opened.session.invoke(Message("query", "nothing", {})))
        records = [(record.tool, record.outcome) for record in await opened.records()]
        assert records == [("unlock", "succeeded"), ("look", "invalid"), ("nothing", "not_found")]
    async with gate(ada, agent=agent, record_reads=True) as opened:
        await opened.session.call(look)
        assert (await opened.record()).tool == "look"
