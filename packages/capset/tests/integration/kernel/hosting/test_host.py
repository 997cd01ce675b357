"""Declaring agents: what is kept, what replaces what, and what cannot be (spec 2, F25, F29)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from capset import Agent, Capability, CapsetError, DefinitionError, Kernel, Principal
from capset.errors import InvalidArguments, NotFound, StateError
from capset.ext import SessionHost
from capset.flows import handler
from capset.stores.base import RegistrationRow
from tests.helpers.kernel.hosting.support import ADA, AGENT, STEPS, Trace, add, hosting, kept_sessions
from tests.helpers.kernel.support import turns


@pytest.mark.spec("F25", "F29")
async def test_to_register_again_keeps_one_registration_and_the_latest_is_what_was_declared_last(store: str) -> None:
    changed = Agent("helper", tools=[add], instructions=["Be brief."])
    async with hosting(store) as (kernel, host):
        first = await host.register(AGENT, agent_id="support")
        assert first.static_hash == kernel.compose(AGENT).static_hash
        assert (first.agent_id, first.agent_name, first.org, first.profile) == ("support", "helper", None, "jcs-1")
        assert await host.register(AGENT, agent_id="support") == first
        second = await host.register(changed, agent_id="support")
        assert second.static_hash == kernel.compose(changed).static_hash != first.static_hash
        assert await kernel.store.lineage.latest_registration(None, "support") == second
        assert await SessionHost(kernel).register(AGENT, agent_id="support") == first
        assert await kernel.store.lineage.latest_registration(None, "support") == first


@pytest.mark.spec("F25")
async def test_what_is_registered_later_is_for_sessions_that_are_created_later() -> None:
    trace = Trace()
    async with hosting() as (_, host):
        await host.register(AGENT, agent_id="support", hooks=trace.hooks("old "), run=lambda turn: "old")
        old = host.create_session("support", principal=ADA)
        await host.register(other := Agent("other"), agent_id="support", run=lambda turn: "new")
        new = host.create_session("support", principal=ADA)
        assert (await old.start(), await new.start()) == ("old", "new")
        assert (old.agent, new.agent, new.agent_id) == (AGENT, other, "support")
        assert trace.names == [f"old {step}" for step in STEPS if step != "on_error"]


@pytest.mark.spec("F25")
async def test_the_run_of_a_session_replaces_the_registered_one() -> None:
    async with hosting() as (_, host):
        await host.register(AGENT, run=lambda turn: "registered")
        assert await host.create_session("helper", principal=ADA, run=lambda turn: "own").start() == "own"
        assert await host.create_session("helper", principal=ADA).start() == "registered"


async def test_registrations_at_once_leave_the_same_latest_in_store_and_host(monkeypatch: pytest.MonkeyPatch) -> None:
    stored, answer = asyncio.Event(), asyncio.Event()
    async with hosting() as (kernel, host):
        lineage = kernel.store.lineage
        register = lineage.register

        async def answer_late(row: RegistrationRow) -> RegistrationRow:
            result = await register(row)
            if not stored.is_set():
                stored.set()
                await answer.wait()
            return result

        monkeypatch.setattr(lineage, "register", answer_late)
        first = asyncio.create_task(host.register(AGENT))
        await stored.wait()
        second = asyncio.create_task(host.register(Agent("helper", instructions=["Be brief."])))
        await turns(5)
        answer.set()
        await asyncio.gather(first, second)
        latest = await lineage.latest_registration(None, "helper")
        assert latest is not None
        assert latest.static_hash == kernel.compose(host.create_session("helper", principal=ADA).agent).static_hash


async def test_what_cannot_be_kept_is_not_declared() -> None:
    async with hosting() as (_, host):
        with pytest.raises(StateError):
            await host.register(AGENT, org="a\0b")
        with pytest.raises(NotFound):
            host.create_session("helper", principal=Principal("ada", org="a\0b"))


@pytest.mark.spec("F25")
async def test_an_agent_that_is_not_registered_is_told_with_what_was_perhaps_meant() -> None:
    async with hosting() as (_, host):
        with pytest.raises(NotFound, match="unknown agent 'support'; available: none"):
            host.create_session("support", principal=ADA)
        await host.register(AGENT, agent_id="support")
        with pytest.raises(NotFound, match=r"unknown agent 'suport'; did you mean 'support'\?"):
            host.create_session("suport", principal=ADA)


async def test_an_agent_of_an_org_is_its_members_alone_and_comes_before_that_of_everybody() -> None:
    mine = Agent("mine")
    async with hosting() as (kernel, host):
        row = await host.register(mine, agent_id="support", org="acme")
        assert await kernel.store.lineage.latest_registration("acme", "support") == row
        for stranger in (ADA, Principal("eve", org="other")):
            with pytest.raises(NotFound, match="unknown agent 'support'; available: none"):
                host.create_session("support", principal=stranger)
        await host.register(AGENT, agent_id="support")
        assert host.create_session("support", principal=Principal("bob", org="acme")).agent is mine
        assert host.create_session("support", principal=ADA).agent is AGENT


@pytest.mark.spec("F25")
async def test_another_block_is_hosted_as_an_agent_is() -> None:
    @handler()
    async def double(input: int) -> int:
        return input * 2

    async with hosting() as (_, host):
        await host.register(double)
        assert await host.create_session("double", principal=ADA).start(21) == 42


@pytest.mark.spec("F25")
@pytest.mark.parametrize(
    ("agent", "options", "message"),
    [
        (Capability("kit"), {}, "register takes an Agent, a Flow or another block; got Capability"),
        ("helper", {}, "register takes an Agent, a Flow or another block; got 'helper'"),
        (AGENT, {"agent_id": 5}, "register: agent_id must be text; got int"),
        (AGENT, {"agent_id": " "}, "register: agent_id must be printable text; got ' '"),
        (AGENT, {"agent_id": "a\n"}, r"register: agent_id must be printable text; got 'a\\n'"),
        (AGENT, {"org": 5}, "register: org must be text; got int"),
        (AGENT, {"run": "run"}, "register 'helper': run must be a function of a turn that returns its output"),
        (AGENT, {"run": lambda: None}, r"register 'helper': run is called with the turn; got a function of \(\)"),
    ],
)
async def test_what_cannot_be_declared_is_refused_and_not_kept(agent: Any, options: Any, message: str) -> None:
    async with hosting() as (kernel, host):
        with pytest.raises(DefinitionError, match=message):
            await host.register(agent, **options)
        assert await kernel.store.lineage.latest_registration(None, "helper") is None


@pytest.mark.spec("F25")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"principal": "ada"}, r"principal must be a Principal, such as Principal\('ada'\); got 'ada'"),
        ({"env": 5}, "env must be a mapping of names to values; got 5"),
        ({"session_id": 5}, "create_session 'helper': session_id must be text; got int"),
        ({"session_id": ""}, "create_session 'helper': session_id must be printable text; got ''"),
        ({"namespace": 5}, "create_session 'helper': namespace must be text; got int"),
        ({"run": 5}, "create_session 'helper': run must be a function of a turn that returns its output; got 5"),
        ({"agent_id": None}, "create_session: agent_id must be text; got NoneType"),
    ],
)
async def test_what_no_session_is_created_with_is_refused(options: dict[str, Any], message: str) -> None:
    async with hosting() as (kernel, host):
        await host.register(AGENT)
        create: Any = host.create_session
        with pytest.raises(DefinitionError, match=message):
            create(**{"agent_id": "helper", "principal": ADA, **options})
        with pytest.raises(InvalidArguments, match="the invocation cannot be hashed"):
            host.create_session("helper", principal=ADA, invocation={"at": object()})
        assert await kept_sessions(kernel) == []


async def test_a_host_needs_its_kernel_open() -> None:
    host = SessionHost(Kernel("memory://"))
    with pytest.raises(CapsetError, match="the kernel is not open"):
        await host.register(AGENT)


@pytest.mark.spec("F7")
async def test_static_context_is_in_no_hash_and_no_prompt() -> None:
    async with hosting() as (kernel, _):
        plain = Agent("helper", tools=[add])
        assert kernel.compose(plain).static_hash == kernel.compose(AGENT).static_hash
        async with kernel.open(AGENT, principal=ADA) as session:
            assert "kind" not in await session.system_text()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [(5, "must be a mapping; got 5"), ("", "must be a mapping; got ''"), ({1: 2}, ": a key must be text; got int")],
)
def test_static_context_is_a_mapping_of_text_keys(wrong: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=f"agent 'a': static_context ?{message}"):
        Agent("a", static_context=wrong)
    with pytest.raises(TypeError):
        AGENT.static_context["tone"] = "rude"  # pyright: ignore[reportIndexIssue]
