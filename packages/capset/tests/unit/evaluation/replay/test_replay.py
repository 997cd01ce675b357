"""What an agent could do when a snapshot was kept, and what it can do now."""

from __future__ import annotations

from typing import Any

import pytest

from capset import Agent, Capability, Principal, allow, deny, policy
from capset.definitions.tools.toolkits import ToolkitContext, dynamic_toolkit
from capset.errors import DefinitionError
from capset.evaluation.replay.evaluation import replay, replay_lines
from capset.evaluation.snapshot.capture import capture
from capset.evaluation.snapshot.envelope import SnapshotEnvelope, read_envelope
from tests.helpers.evaluation.agents import ANYONE, NOBODY, Counted, everything, make

pytestmark = pytest.mark.spec("F33")


def agent_of(*tools: Any, **more: Any) -> Agent:
    return Agent("librarian", uses=[Capability("notes", tools=tools, **more)])


async def kept(agent: Agent, **more: Any) -> SnapshotEnvelope:
    more.setdefault("principal", ANYONE)
    return read_envelope((await capture(agent, **more)).envelope.to_json())


SAME, GONE, NEW = make("same"), make("gone"), make("new")
NEEDY = make("needy", permissions=["notes:write"])


async def test_where_nothing_changed_nothing_differs() -> None:
    agent = everything(Counted("gate").policy)
    more: dict[str, Any] = {"env": {"tier": "pro"}, "namespace": "ns", "agent_id": "a-7", "agent_name": "Support"}
    envelope = await kept(agent, **more, invocation={"tenant": "t"}, session_context={"n": 1}, policy_mode="hint")
    replayed = await replay(envelope, agent)
    assert not replayed.differs
    assert replayed.now.envelope == envelope
    assert replayed.diff.notes == ()
    assert replayed.principal == ANYONE
    assert (replayed.refusal, replayed.gone, replayed.dropped, replayed.notes) == (None, (), (), ())


async def test_tools_of_then_and_now() -> None:
    then = agent_of(SAME, GONE, NEEDY, make("changed"))
    today = agent_of(SAME, NEW, NEEDY, make("changed", description="Do it otherwise."))
    replayed = await replay(await kept(then), today, principal=NOBODY)
    assert replayed.both == ("changed", "same")
    assert replayed.only_then == ("gone", "needy")
    assert replayed.only_now == ("new",)
    (changed,) = replayed.changed
    assert changed.changes is not None
    assert [(change.path, change.before, change.after) for change in changed.changes] == [
        ("description", "Do.", "Do it otherwise."),
    ]
    assert [(gone_tool.name, gone_tool.reason) for gone_tool in replayed.gone] == [
        ("gone", "the agent has no tool of that name"),
        ("needy", "ada lacks the permission notes:write"),
    ]
    assert [misfit.path for misfit in replayed.refused] == ["changed", "gone"]
    assert replayed.differs
    lines = [str(line) for line in replay_lines(replayed)]
    assert lines[0] == "librarian as seen by ada: 4 tools then, 3 now"
    for line in ("= same", "- needy  ada lacks the permission notes:write", "~ refuses the envelope"):
        assert line in lines
    assert '    ~ description  "Do." → "Do it otherwise."' in lines
    assert "= changed" not in lines


async def test_a_policy_that_flipped_says_so() -> None:
    gate = Counted("gate", allow())
    agent = agent_of(SAME, policies=[gate.policy])
    envelope = await kept(agent)
    gate.answer = deny("closed")
    replayed = await replay(envelope, agent)
    assert [flip.id for flip in replayed.flipped] == ["gate"]
    assert [(gone_tool.name, gone_tool.reason) for gone_tool in replayed.gone] == [("same", "closed")]
    assert replayed.refusal is None, "the tools are the same, and the results are those of then"
    assert replayed.differs
    assert "~ gate  allow → deny (closed)" in [str(line) for line in replay_lines(replayed)]


async def test_a_gate_that_is_gone_is_told_and_refused() -> None:
    replayed = await replay(await kept(agent_of(SAME, policies=[Counted("gate").policy])), agent_of(SAME))
    assert [(change.name, change.kind) for change in replayed.changed] == [("same", "gated")]
    assert [misfit.path for misfit in replayed.refused] == ["same"]


async def test_principal_and_env_are_those_of_then_unless_given() -> None:
    @policy
    def pro(request: Any) -> bool:
        return request.env.get("tier") == "pro" and "pool" in request.env

    agent = agent_of(SAME, policies=[pro])
    principal = Principal("bot", permissions=["notes:read"], kind="agent", org="acme")
    env = {"tier": "pro", "pool": object()}
    envelope = await kept(agent, principal=principal, env=env)
    replayed = await replay(envelope, agent)
    assert replayed.principal == principal
    assert replayed.dropped == ("pool",), "which is why the policy answers otherwise"
    assert [flip.id for flip in replayed.flipped] == ["pro"]
    assert "  pool" in [str(line) for line in replay_lines(replayed)]
    replayed = await replay(envelope, agent, env={**envelope.runtime.toolkit_context.env, "pool": object()})
    assert (replayed.dropped, replayed.differs) == ((), False)
    replayed = await replay(envelope, agent, env={**envelope.runtime.toolkit_context.env, "more": 1})
    assert replayed.dropped == ("pool",)
    replayed = await replay(envelope, agent, principal=NOBODY, env=env)
    assert "permissions lost: notes:read" in replayed.diff.notes
    assert not replayed.differs, "whom it is for is no difference by itself"


async def test_no_tool_runs_and_dynamic_toolkits_are_made_anew() -> None:
    names = ["one"]

    @dynamic_toolkit
    def some(context: ToolkitContext) -> list[Any]:
        return [make(name) for name in names]

    agent = agent_of(some)
    envelope = await kept(agent)
    names[:] = ["two"]
    replayed = await replay(envelope, agent)
    assert (replayed.only_then, replayed.only_now) == (("one",), ("two",))


async def test_dynamic_uses_without_a_session_are_told() -> None:
    extra = Capability("extra", tools=[make("added")])

    def more(context: Any) -> list[Any]:
        return [extra]

    agent = Agent("a", uses=[more])
    see: Any = object()
    envelope = await kept(agent, context=see)
    replayed = await replay(envelope, agent)
    assert replayed.only_then == ("added",)
    assert replayed.notes == ("what dynamic uses add is left out, since they see the session: more",)
    assert not (await replay(envelope, agent, context=see)).differs


async def test_an_envelope_without_the_definition_is_compared_without() -> None:
    replayed = await replay(await kept(agent_of(SAME), include_static=False), agent_of(SAME, NEW))
    assert replayed.diff.definition is None
    assert replayed.now.envelope.static is None


async def test_a_forged_envelope_and_one_of_nobody_are_refused() -> None:
    envelope = await kept(agent_of(SAME))
    forged = read_envelope(envelope.to_json().replace('"Do."', '"Do harm."'))
    with pytest.raises(DefinitionError, match="does not give its hash"):
        await replay(forged, agent_of(SAME))
    context = envelope.runtime.toolkit_context.model_copy(update={"principal": None})
    runtime = envelope.runtime.model_copy(update={"toolkit_context": context})
    anonymous = envelope.model_copy(update={"runtime": runtime})
    with pytest.raises(DefinitionError, match="does not say who acted"):
        await replay(anonymous, agent_of(SAME))
    assert not (await replay(anonymous, agent_of(SAME), principal=ANYONE)).differs
