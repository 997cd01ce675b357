"""Who must be known, and what everybody may do (spec 4, G1, G8)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from capset import Agent, Capability, Context, Json, Kernel, Message, Meta, Principal, compose, evaluate, tool
from capset.definitions.governance.settings import Governance
from capset.errors import PermissionDenied, Unauthenticated
from tests.helpers.kernel.streams.support import Done, made
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


async def _process(messages: Any, emit: Any, ctx: Any) -> None:
    async for _ in messages:
        ran.append("process")
        await emit(Done(data=1))


KIT = Capability("kit", tools=[look, unlock, made(lambda: _process, name="work")])
STATIC = Agent("tester", uses=[KIT])


def uses(ctx: Context) -> list[Capability]:
    """Say what the agent uses, with each call."""
    ran.append("uses")
    return [KIT]


DYNAMIC = Agent("tester", uses=uses)


@asynccontextmanager
async def gate(
    principal: Principal | None = None, *, agent: Agent = STATIC, store: str = "memory://", **settings: Any
) -> AsyncGenerator[Desk]:
    """Open a session: of an anonymous principal, where nobody may be anonymous, unless it is said."""
    ran.clear()
    governance = Governance(**(settings or {"require_auth": True}))
    someone = principal or Principal.anonymous()
    async with Kernel(store, governance=governance) as kernel, kernel.open(agent, principal=someone) as session:
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
        Message("event", "look", {}),
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
        correlation = error.data.pop("correlation")
        assert error.data == {
            "code": "unauthenticated",
            "status": 401,
            "message": "Unauthenticated: only known principals may call tools here.",
            "retryable": False,
        }
        assert ran == []
        record = await opened.record()
        assert (record.outcome, record.code, record.decision) == ("unauthenticated", "unauthenticated", "deny")
        assert (record.principal, record.principal_kind) == ("anonymous", "anonymous")
        assert record.reason == "anonymous principals are refused"
        assert record.correlation == correlation


@pytest.mark.spec("G1")
async def test_dynamic_uses_are_asked_for_whoever_is_known(store: str) -> None:
    async with gate(Principal("ada"), agent=DYNAMIC, store=store) as opened:
        assert await opened.session.call(look, 5) == 5
        assert ran == ["uses", "look"]


@pytest.mark.spec("G1", "G8", "T2")
@pytest.mark.parametrize("agent", [STATIC, DYNAMIC], ids=["static", "dynamic"])
async def test_anonymous_principals_see_no_tool(agent: Agent, store: str) -> None:
    async with gate(agent=agent, store=store) as opened:
        for snapshot in (opened.session.snapshot, await opened.session.current()):
            assert dict(snapshot.tools) == {}
            assert snapshot.tool_refs == ()
            assert snapshot.decisions == {}
            assert snapshot.runtime_hash == (await evaluate(compose(Agent("empty")), principal=NOBODY)).runtime_hash
            assert not [verdict for verdict in snapshot.verdicts.values() if verdict.in_play]
            reasons = {verdict.reason for verdict in snapshot.verdicts.values()}
            assert reasons <= {"anonymous principals are refused"}
            assert "Be careful." not in snapshot.system_text
        assert ran == []


@pytest.mark.spec("G1", "G8")
async def test_nor_do_they_by_a_snapshot_that_was_made_elsewhere(store: str) -> None:
    async with gate(store=store) as opened:
        row = await opened.kernel.find_session(opened.session.id)
        assert row is not None
        made_before = await evaluate(compose(STATIC), principal=NOBODY)
        assert "look" in made_before.tools
        assert dict(opened.kernel.resume(row, made_before).snapshot.tools) == {}


@pytest.mark.spec("G1", "G8")
async def test_tool_objects_are_no_way_around(store: str) -> None:
    @tool
    async def stranger() -> int:
        """Belong to nobody."""
        return 1

    async with gate(store=store) as opened:
        for called_tool in (look, unlock, stranger):
            with pytest.raises(Unauthenticated):
                await opened.session.call(called_tool)
        async with opened.session.open("Work.Do") as room:
            await room.send({"to": 1})
            room.finish()
            assert [message.data["status"] async for message in room] == [401]
        assert {record.outcome for record in await opened.records()} == {"unauthenticated"}
        assert ran == []


@pytest.mark.spec("G8")
@pytest.mark.parametrize("kind", ["user", "agent", "org"])
async def test_whoever_is_known_is_let_in(kind: Any) -> None:
    async with gate(Principal("anonymous", kind=kind)) as opened:
        assert await opened.session.call(look, 5) == 5


@pytest.mark.spec("G8")
async def test_where_nobody_must_be_known_the_anonymous_may_do_what_everybody_may() -> None:
    async with gate(require_auth=False) as opened:
        assert await opened.session.call(look, 5) == 5
        with pytest.raises(PermissionDenied):
            await opened.session.call(unlock)
    async with gate(default_permissions={"vault:open"}) as opened:
        assert await opened.session.call(unlock) == 1
        assert (await opened.record()).principal_kind == "anonymous"


@pytest.mark.spec("G8")
async def test_default_permissions_are_everybody_s_beside_their_own() -> None:
    principal = Principal("ada", permissions={"notes:read"}, org="acme")
    async with gate(principal, default_permissions=["vault:open"]) as opened:
        assert await opened.session.call(unlock) == 1
        effective = opened.session.snapshot.principal
        assert effective == Principal("ada", permissions={"notes:read", "vault:open"}, org="acme")
        async with opened.kernel.open(STATIC, principal=principal, session_id=opened.session.id) as reopened:
            assert reopened.snapshot.runtime_hash == opened.session.snapshot.runtime_hash
    async with gate(principal, default_permissions=[]) as opened:
        assert "unlock" not in opened.session.snapshot.tools, "least privilege, unless it is said"


@pytest.mark.spec("G8", "G9")
async def test_default_permissions_are_those_of_whoever_acts_for_somebody_too() -> None:
    bot = Principal("bot", kind="agent", permissions={"notes:read"}).acting_for(Principal("ada"))
    async with gate(bot, default_permissions=["vault:open"]) as opened:
        assert opened.session.snapshot.principal.permissions == {"vault:open"}
        assert await opened.session.call(unlock) == 1
        assert (await opened.record()).on_behalf_of == "user:ada"


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
