"""What an agent could do when a snapshot was kept, and what it can do now."""

from __future__ import annotations

import json
from typing import Any

import pytest

from capset import Agent, Capability, Principal, allow, deny, policy
from capset.definitions.tools.toolkits import DynamicToolkit
from capset.errors import DefinitionError
from capset.evaluation.replay.evaluation import MissingTool, replay, replay_lines
from capset.evaluation.snapshot.capture import capture
from capset.evaluation.snapshot.envelope import SnapshotEnvelope, read_envelope
from capset.fingerprint.changes import Change
from tests.helpers.evaluation.agents import ANYONE, NOBODY, Counted, everything, make

pytestmark = pytest.mark.spec("F33")


def agent_of(*tools: Any, **more: Any) -> Agent:
    return Agent("librarian", uses=[Capability("notes", tools=tools, **more)])


async def stored(agent: Agent, **more: Any) -> SnapshotEnvelope:
    more.setdefault("principal", ANYONE)
    return read_envelope((await capture(agent, **more)).envelope.to_json())


SAME, GONE, NEW = make("same"), make("gone"), make("new")
NEEDY = make("needy", permissions=["notes:write"])


async def test_where_nothing_changed_nothing_differs() -> None:
    agent = everything(Counted("gate").policy)
    more: dict[str, Any] = {"env": {"tier": "pro"}, "namespace": "ns", "agent_id": "a-7", "agent_name": "Support"}
    envelope = await stored(agent, **more, invocation={"tenant": "t"}, session_context={"n": 1}, policy_mode="hint")
    replayed = await replay(envelope, agent)
    assert not replayed.differs
    assert (replayed.now.envelope, replayed.principal, replayed.diff.notes) == (envelope, ANYONE, ())
    assert (replayed.refusal, replayed.missing, replayed.dropped, replayed.notes) == (None, (), (), ())


async def test_tools_of_then_and_now() -> None:
    then = agent_of(SAME, GONE, NEEDY, make("changed"))
    today = agent_of(SAME, NEW, NEEDY, make("changed", description="Do it otherwise."))
    replayed = await replay(await stored(then), today, principal=NOBODY)
    assert (replayed.both, replayed.only_then) == (("changed", "same"), ("gone", "needy"))
    assert replayed.only_now == ("new",)
    (changed,) = replayed.changed
    assert changed.changes == (Change("description", "changed", "Do.", "Do it otherwise."),)
    missing = MissingTool("gone", "the agent has no tool of that name")
    assert replayed.missing == (missing, MissingTool("needy", "ada lacks the permission notes:write"))
    assert [misfit.path for misfit in replayed.refused] == ["changed", "gone"]
    assert replayed.differs
    lines = [str(line) for line in replay_lines(replayed)]
    assert lines[0] == "librarian as seen by ada: 4 tools then, 3 now"
    assert {
        "= same",
        "- needy  ada lacks the permission notes:write",
        "~ refuses the envelope",
        '    ~ description  "Do." → "Do it otherwise."',
    } <= {*lines}
    assert "= changed" not in lines


async def test_a_policy_that_flipped_says_so() -> None:
    gate = Counted("gate", allow())
    agent = agent_of(SAME, policies=[gate.policy])
    envelope = await stored(agent)
    gate.answer = deny("closed")
    replayed = await replay(envelope, agent)
    assert ([flip.id for flip in replayed.flipped], replayed.missing) == (["gate"], (MissingTool("same", "closed"),))
    assert replayed.refusal is None, "the tools are the same, and the results are those of then"
    assert replayed.differs
    assert "~ gate  allow → deny (closed)" in [str(line) for line in replay_lines(replayed)]


async def test_a_gate_that_is_gone_is_told_and_refused() -> None:
    replayed = await replay(await stored(agent_of(SAME, policies=[Counted("gate").policy])), agent_of(SAME))
    assert [(change.name, change.kind) for change in replayed.changed] == [("same", "gated")]
    assert [misfit.path for misfit in replayed.refused] == ["same"]


async def test_principal_and_env_are_those_of_then_unless_given() -> None:
    @policy
    def pro(request: Any) -> bool:
        return request.env.get("tier") == "pro" and "pool" in request.env

    agent = agent_of(SAME, policies=[pro])
    principal = Principal("bot", permissions=["notes:read"], kind="agent", org="acme")
    env = {"tier": "pro", "pool": object()}
    envelope = await stored(agent, principal=principal, env=env)
    replayed = await replay(envelope, agent)
    assert replayed.principal == principal
    assert replayed.dropped == ("pool",), "which is why the policy answers otherwise"
    assert [flip.id for flip in replayed.flipped] == ["pro"]
    assert "  pool" in [str(line) for line in replay_lines(replayed)]
    stored_env = envelope.runtime.toolkit_context.env
    replayed = await replay(envelope, agent, env={**stored_env, "pool": object()})
    assert (replayed.dropped, replayed.differs) == ((), False)
    assert (await replay(envelope, agent, env={**stored_env, "more": 1})).dropped == ("pool",)
    replayed = await replay(envelope, agent, principal=NOBODY, env=env)
    assert "permissions lost: notes:read" in replayed.diff.notes
    assert not replayed.differs, "whom it is for is no difference by itself"


async def test_dynamic_toolkits_are_made_anew() -> None:
    names = iter(["old", "new", "new"])
    agent = agent_of(DynamicToolkit("some", lambda context: [make(next(names))]))
    replayed = await replay(await stored(agent), agent)
    assert (replayed.only_then, replayed.only_now) == (("old",), ("new",))


async def test_dynamic_uses_without_a_session_are_told() -> None:
    extra = Capability("extra", tools=[make("added")])
    agent = Agent("a", uses=[lambda context: [extra]])
    see: Any = object()
    envelope = await stored(agent, context=see)
    replayed = await replay(envelope, agent)
    assert replayed.only_then == ("added",)
    assert replayed.notes == ("additions of dynamic uses are left out, since they need a session: <lambda>",)
    assert not (await replay(envelope, agent, context=see)).differs


async def test_an_envelope_without_the_definition_is_compared_without() -> None:
    replayed = await replay(await stored(agent_of(SAME), include_static=False), agent_of(SAME, NEW))
    assert (replayed.diff.definition, replayed.now.envelope.static) == (None, None)


async def test_a_forged_envelope_and_one_of_nobody_are_refused() -> None:
    text = (await stored(agent_of(SAME))).to_json()
    with pytest.raises(DefinitionError, match="does not match its hash"):
        await replay(read_envelope(text.replace('"Do."', '"Do harm."')), agent_of(SAME))
    data = json.loads(text)
    del data["runtime"]["toolkit_context"]["principal"]
    anonymous = read_envelope(json.dumps(data))
    with pytest.raises(DefinitionError, match="the envelope has no principal"):
        await replay(anonymous, agent_of(SAME))
    assert not (await replay(anonymous, agent_of(SAME), principal=ANYONE)).differs
