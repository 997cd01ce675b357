"""Sessions on snapshots that are there already, such as hydrated ones."""

from __future__ import annotations

from typing import Any

import pytest

from capset import Agent, Capability, Kernel, Principal, Session, Tool, ask, deny, tool
from capset.definitions.tools.toolkits import Toolkit
from capset.errors import ApprovalRequired, InvalidArguments, NotFound, PermissionDenied
from capset.evaluation.snapshot.capture import capture
from capset.evaluation.snapshot.envelope import SnapshotEnvelope, read_envelope
from capset.evaluation.snapshot.hydrate import hydrate
from tests.helpers.evaluation.agents import ANYONE, NOBODY, Counted
from tests.helpers.kernel.support import records_of

pytestmark = pytest.mark.spec("F27")


def make(name: str, **more: Any) -> Tool[..., Any]:
    @tool(name=name, effect="read", **more)
    async def handler(number: int = 1) -> int:
        """Double."""
        return 2 * number

    return handler


ONE, TWO = make("one"), make("two", permissions=["notes:write"])


def agent_of(*tools: Any, **more: Any) -> Agent:
    return Agent("librarian", uses=[Capability("notes", tools=tools, **more)])


async def kept(agent: Agent, **more: Any) -> SnapshotEnvelope:
    more.setdefault("principal", ANYONE)
    return read_envelope((await capture(agent, **more)).envelope.to_json())


async def resumed(kernel: Kernel, agent: Agent, envelope: SnapshotEnvelope, **more: Any) -> Session:
    """Return a session of an agent that goes on with what an envelope keeps."""
    more.setdefault("principal", ANYONE)
    row = kernel.new_session(agent, more["principal"])
    await kernel.store.sessions.create(row)
    return kernel.resume(row, await hydrate(envelope, more.pop("bind", agent), **more))


async def test_calls_go_by_the_envelope_and_are_on_record(store: str) -> None:
    agent = agent_of(ONE, Toolkit("kit", [TWO]))
    envelope = await kept(agent, invocation={"tenant": "t"})
    async with Kernel(store=store) as kernel:
        session = await resumed(kernel, agent, envelope)
        assert await session.call(ONE, number=3) == 6
        assert await session.call(TWO) == 2
        assert (await session.try_message(session.message("notes.one", {"number": 2}))).data == 4
        for record in await records_of(kernel.audit):
            for name in ("runtime_hash", "prompt_hash", "static_hash"):
                assert getattr(record, name) == getattr(envelope.link, name)


async def test_what_was_not_in_play_then_is_not_there(store: str) -> None:
    agent = agent_of(ONE, TWO)
    async with Kernel(store=store) as kernel:
        session = await resumed(kernel, agent, await kept(agent, principal=NOBODY))
        assert await session.call(ONE) == 2
        for name in ("two", "notes.two"):
            assert isinstance((await session.try_message(session.message(name, {}))).error, NotFound)


async def test_a_permission_that_is_gone_refuses_the_call(store: str) -> None:
    agent = agent_of(ONE, TWO)
    async with Kernel(store=store) as kernel:
        session = await resumed(kernel, agent, await kept(agent), principal=NOBODY)
        assert await session.call(ONE) == 2
        with pytest.raises(PermissionDenied, match="lacks the permission notes:write"):
            await session.call(TWO)


async def test_a_policy_of_the_snapshot_holds_to_what_it_said_then(store: str) -> None:
    bound, live = Counted("held", ask("sure?"), binding="snapshot"), Counted("live")
    agent = agent_of(ONE, policies=[bound.policy, live.policy])
    envelope = await kept(agent)
    bound.answer = True
    async with Kernel(store=store) as kernel:
        session = (await resumed(kernel, agent, envelope)).options(approvals="defer")
        with pytest.raises(ApprovalRequired, match=r"sure\?"):
            await session.call(ONE)
        assert (bound.asked, live.asked) == (1, 2)
        live.answer = deny("closed")
        with pytest.raises(PermissionDenied, match="closed"):
            await session.call(ONE)
    bound, live = Counted("held", binding="snapshot"), Counted("live")
    agent = agent_of(ONE, policies=[bound.policy, live.policy])
    envelope = await kept(agent)
    bound.answer = deny("no")
    async with Kernel(store=store) as kernel:
        session = await resumed(kernel, agent, envelope)
        assert await session.call(ONE) == 2, "what it would say today is not asked"
        assert bound.asked == 1


@pytest.mark.spec("F19")
@pytest.mark.parametrize(
    ("mode", "answer", "is_allowed", "asked"),
    [("authoritative", True, False, 0), ("hint", True, True, 1), ("hint", False, False, 1)],
)
async def test_a_result_that_is_missing_denies_or_is_asked_for(
    store: str, mode: Any, answer: bool, is_allowed: bool, asked: int
) -> None:
    new = Counted("new", answer, binding="snapshot")
    envelope = await kept(agent_of(ONE), policy_mode=mode)
    agent = agent_of(ONE, policies=[new.policy])
    async with Kernel(store=store) as kernel:
        session = await resumed(kernel, agent, envelope)
        result = await session.try_call(ONE)
        assert result.success is is_allowed
        assert isinstance(result.error, PermissionDenied) is not is_allowed
        assert new.asked == asked


async def test_single_tools_are_called_through_the_same_road(store: str) -> None:
    agent = Agent("librarian", uses=[Capability("notes", tools=[ONE]).with_names(prefix="n_")])
    async with Kernel(store=store) as kernel:
        session = await resumed(kernel, agent, await kept(agent), bind={"n_one": ONE})
        refused = await session.try_message(session.message("n_one", {"number": "x"}))
        assert isinstance(refused.error, InvalidArguments)
        assert await session.call(ONE, number=5) == 10
        assert [record.tool for record in await records_of(kernel.audit, outcome="succeeded")] == ["n_one"]


async def test_dynamic_uses_add_nothing_to_what_is_kept(store: str) -> None:
    extra, later = Capability("extra", tools=[ONE]), Capability("later", tools=[TWO])
    added = [extra]
    agent = Agent("a", uses=[lambda context: added])
    see: Any = object()
    envelope = await kept(agent, context=see)
    async with Kernel(store=store) as kernel:
        session = await resumed(kernel, agent, envelope, context=see)
        added[:] = [extra, later]
        assert await session.call(ONE) == 2
        assert isinstance((await session.try_message(session.message("two", {}))).error, NotFound)
        assert (await session.current()).runtime_hash == envelope.link.runtime_hash


@pytest.mark.parametrize(
    "principal",
    [Principal("bob"), Principal("ada", org="acme"), Principal("ada", kind="agent")],
    ids=["id", "org", "kind"],
)
async def test_nobody_resumes_the_session_of_another(principal: Principal) -> None:
    agent = agent_of(ONE)
    envelope = await kept(agent)
    async with Kernel(store="memory://") as kernel:
        snapshot = await hydrate(envelope, agent, principal=principal)
        with pytest.raises(NotFound, match="there is no session"):
            kernel.resume(kernel.new_session(agent, ANYONE), snapshot)
