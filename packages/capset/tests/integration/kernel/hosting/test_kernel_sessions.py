"""A session started by a host is a kernel session: governed, on record, and to be opened again (spec 2, F25)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from capset import Agent, Hooks, Policy, Principal, ToolkitContext, dynamic_toolkit
from capset.errors import NotFound, PermissionDenied
from capset.ext import SessionTurn
from capset_testing import Call, Say, ScriptedRunner
from tests.helpers.kernel.hosting.support import ADA, AGENT, Trace, add, hosted, hosting, kept_sessions
from tests.helpers.kernel.support import records_of


async def adding(turn: SessionTurn) -> int:
    return await turn.session.call(add, a=turn.input, b=1)


@pytest.mark.spec("F24", "F25")
async def test_calls_of_a_turn_are_on_record_with_the_hashes_of_its_snapshot(store: str) -> None:
    trace = Trace()
    async with hosting(store) as (kernel, host):
        session = await hosted(host, run=adding, hooks=trace.hooks())
        assert await kept_sessions(kernel) == [], "a session that never starts is not kept"
        assert [await session.start(1), await session.start(2)] == [2, 3]
        assert await kept_sessions(kernel) == [session.id]
        snapshot = trace.told[-1][1].session.snapshot
        assert kernel.compose(AGENT).static_hash == snapshot.static_hash
        records = await records_of(kernel.audit)
        assert [(record.session, record.principal, record.outcome) for record in records] == [
            (session.id, "ada", "succeeded")
        ] * 2
        for name in ("static_hash", "runtime_hash", "prompt_hash"):
            assert {getattr(record, name) for record in records} == {getattr(snapshot, name)}


@pytest.mark.spec("F25")
async def test_a_session_goes_on_in_another_kernel_on_the_same_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/capset.db"

    async def write(turn: SessionTurn) -> list[str]:
        files = turn.session.files
        await files.write(f"/{turn.input}.txt", b"kept")
        return [stat.path for stat in await files.list("/")]

    async with hosting(url) as (_, host):
        session = await hosted(host, run=write)
        assert await session.start("one") == ["/one.txt"]
    async with hosting(url) as (kernel, host):
        await host.register(AGENT, run=write)
        resumed = host.create_session("helper", principal=ADA, session_id=session.id)
        assert (resumed.id, await resumed.start("two")) == (session.id, ["/one.txt", "/two.txt"])
        async with kernel.open(AGENT, principal=ADA, session_id=session.id) as opened:
            assert (await opened.files.read("/one.txt"))[1] == b"kept"
        assert await kept_sessions(kernel) == [session.id]


@pytest.mark.spec("F25")
async def test_a_session_is_its_owners_and_its_agents_and_gone_when_it_is_deleted() -> None:
    async with hosting() as (kernel, host):
        session = await hosted(host, run=adding)
        await host.register(Agent("other"))
        assert await session.start(1) == 2
        for stranger in (
            host.create_session("helper", principal=Principal("eve"), session_id=session.id),
            host.create_session("other", principal=ADA, session_id=session.id),
        ):
            with pytest.raises(NotFound):
                await stranger.start(1)
        await kernel.store.sessions.delete(session.id)
        with pytest.raises(NotFound, match="there is no session"):
            await session.start(1)


@pytest.mark.spec("F25")
async def test_policies_are_asked_anew_in_every_turn() -> None:
    may_add = [False]
    agent = Agent("helper", tools=[add], policies=[Policy("may_add", lambda request: may_add[0])])
    async with hosting() as (_, host):
        session = await hosted(host, agent, run=adding)
        with pytest.raises(PermissionDenied):
            await session.start(1)
        may_add[0] = True
        assert await session.start(1) == 2


async def test_env_and_invocation_are_those_of_the_time_of_creation() -> None:
    env, invocation = {"tier": "pro"}, {"tenant": {"id": "acme"}}

    def run(turn: SessionTurn) -> tuple[Mapping[str, Any], str | None]:
        return turn.session.snapshot.env, turn.session.snapshot.invocation_hash

    async with hosting() as (_, host):
        await host.register(AGENT, run=run)
        session = host.create_session("helper", principal=ADA, env=env, invocation=invocation)
        first = await session.start()
        env["tier"] = invocation["tenant"]["id"] = "changed"
        assert first[1] is not None
        assert await session.start() == first == ({"tier": "pro"}, first[1])
        more: Any = {"invocation": {"tenant": {"id": "acme"}, "at": 1}, "invocation_allowlist": ["tenant"]}
        narrowed = host.create_session("helper", principal=ADA, **more)
        assert (await narrowed.start())[1] == first[1]


@pytest.mark.spec("F24", "F23")
async def test_labels_and_tool_hooks_reach_the_kernel_session() -> None:
    trace, labels = Trace(), list[tuple[Any, ...]]()

    @dynamic_toolkit
    async def tenant(context: ToolkitContext) -> list[Any]:
        labels.append((context.namespace, context.agent_id, context.agent_name))
        return []

    agent = Agent("helper", tools=[add, tenant])
    async with hosting() as (_, host):
        await host.register(agent, agent_id="support", run=adding)
        hooks = Hooks(on_tool_executed=trace.hook("executed"))
        session = host.create_session("support", principal=ADA, namespace="acme", tool_hooks=hooks)
        assert await session.start(1) == 2
    assert labels == [("acme", "support", "helper")]
    assert [(name, event.result, event.session) for name, event in trace.told] == [("executed", 2, session.id)]


@pytest.mark.spec("F25")
async def test_without_a_run_the_agent_itself_runs() -> None:
    runner = ScriptedRunner({"helper": [Call("add", a=1, b=2), Say("three")]})
    async with hosting(generator=runner) as (kernel, host):
        session = await hosted(host)
        assert await session.start("what is 1 + 2?") == "three"
        (record,) = await records_of(kernel.audit)
        assert (record.tool, record.session) == ("add", session.id)


@pytest.mark.spec("F24", "F25")
async def test_turns_of_one_session_may_overlap_and_keep_apart(store: str) -> None:
    count = 6
    running, release = asyncio.Semaphore(0), asyncio.Event()

    async def run(turn: SessionTurn) -> tuple[int, int]:
        running.release()
        await release.wait()
        return turn.context["number"], await adding(turn)

    async with hosting(store) as (kernel, host):
        session = await hosted(host, context=lambda number, so_far: {"number": number}, run=run)
        turns = [asyncio.create_task(session.start(number)) for number in range(count)]
        for _ in turns:
            await running.acquire()
        release.set()
        assert await asyncio.gather(*turns) == [(number, number + 1) for number in range(count)]
        assert await kept_sessions(kernel) == [session.id]
        assert {record.session for record in await records_of(kernel.audit)} == {session.id}


async def test_a_turn_may_start_turns_of_its_own_session() -> None:
    async with hosting() as (_, host):

        async def run(turn: SessionTurn) -> int:
            return turn.input and turn.input + await session.start(turn.input - 1)

        session = await hosted(host, run=run)
        assert await session.start(4) == 10
