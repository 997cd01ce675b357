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
    found = await replay(envelope, agent)
    assert not found.differs
    assert found.now.envelope == envelope
    assert found.diff.notes == ()
    assert found.principal == ANYONE
    assert (found.refusal, found.gone, found.dropped, found.notes) == (None, (), (), ())


async def test_tools_of_then_and_now() -> None:
    then = agent_of(SAME, GONE, NEEDY, make("changed"))
    today = agent_of(SAME, NEW, NEEDY, make("changed", description="Do it otherwise."))
    found = await replay(await kept(then), today, principal=NOBODY)
    assert found.both == ("changed", "same")
    assert found.only_then == ("gone", "needy")
    assert found.only_now == ("new",)
    (changed,) = found.changed
    assert changed.changes is not None
    assert [(one.path, one.before, one.after) for one in changed.changes] == [
        ("description", "Do.", "Do it otherwise."),
    ]
    assert [(one.name, one.reason) for one in found.gone] == [
        ("gone", "the agent has no tool of that name"),
        ("needy", "ada lacks the permission notes:write"),
    ]
    assert [one.path for one in found.refused] == ["changed", "gone"]
    assert found.differs
    shown = [str(line) for line in replay_lines(found)]
    assert shown[0] == "librarian as seen by ada: 4 tools then, 3 now"
    for line in ("= same", "- needy  ada lacks the permission notes:write", "~ refuses the envelope"):
        assert line in shown
    assert '    ~ description  "Do." → "Do it otherwise."' in shown
    assert "= changed" not in shown


async def test_a_policy_that_flipped_says_so() -> None:
    gate = Counted("gate", allow())
    agent = agent_of(SAME, policies=[gate.policy])
    envelope = await kept(agent)
    gate.answer = deny("closed")
    found = await replay(envelope, agent)
    assert [one.id for one in found.flipped] == ["gate"]
    assert [(one.name, one.reason) for one in found.gone] == [("same", "closed")]
    assert found.refusal is None, "the tools are the same, and the results are those of then"
    assert found.differs
    assert "~ gate  allow → deny (closed)" in [str(line) for line in replay_lines(found)]


async def test_a_gate_that_is_gone_is_told_and_refused() -> None:
    found = await replay(await kept(agent_of(SAME, policies=[Counted("gate").policy])), agent_of(SAME))
    assert [(one.name, one.kind) for one in found.changed] == [("same", "gated")]
    assert [one.path for one in found.refused] == ["same"]


async def test_principal_and_env_are_those_of_then_unless_given() -> None:
    @policy
    def pro(request: Any) -> bool:
        return request.env.get("tier") == "pro" and "pool" in request.env

    agent = agent_of(SAME, policies=[pro])
    who = Principal("bot", permissions=["notes:read"], kind="agent", org="acme")
    env = {"tier": "pro", "pool": object()}
    envelope = await kept(agent, principal=who, env=env)
    found = await replay(envelope, agent)
    assert found.principal == who
    assert found.dropped == ("pool",), "which is why the policy answers otherwise"
    assert [one.id for one in found.flipped] == ["pro"]
    assert "  pool" in [str(line) for line in replay_lines(found)]
    found = await replay(envelope, agent, env={**envelope.runtime.toolkit_context.env, "pool": object()})
    assert (found.dropped, found.differs) == ((), False)
    found = await replay(envelope, agent, env={**envelope.runtime.toolkit_context.env, "more": 1})
    assert found.dropped == ("pool",)
    found = await replay(envelope, agent, principal=NOBODY, env=env)
    assert "permissions lost: notes:read" in found.diff.notes
    assert not found.differs, "whom it is for is no difference by itself"


async def test_no_tool_runs_and_dynamic_toolkits_are_made_anew() -> None:
    names = ["one"]

    @dynamic_toolkit
    def some(context: ToolkitContext) -> list[Any]:
        return [make(name) for name in names]

    agent = agent_of(some)
    envelope = await kept(agent)
    names[:] = ["two"]
    found = await replay(envelope, agent)
    assert (found.only_then, found.only_now) == (("one",), ("two",))


async def test_dynamic_uses_without_a_session_are_told() -> None:
    extra = Capability("extra", tools=[make("added")])

    def more(context: Any) -> list[Any]:
        return [extra]

    agent = Agent("a", uses=[more])
    see: Any = object()
    envelope = await kept(agent, context=see)
    found = await replay(envelope, agent)
    assert found.only_then == ("added",)
    assert found.notes == ("what dynamic uses add is left out, since they see the session: more",)
    assert not (await replay(envelope, agent, context=see)).differs


async def test_an_envelope_without_the_definition_is_compared_without() -> None:
    found = await replay(await kept(agent_of(SAME), include_static=False), agent_of(SAME, NEW))
    assert found.diff.definition is None
    assert found.now.envelope.static is None


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
