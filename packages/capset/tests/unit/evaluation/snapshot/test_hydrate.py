"""From an envelope back to tools: the same ones, or none."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given

from capset import Agent, Capability, Principal, ask, compose
from capset.definitions.tools.toolkits import DynamicToolkit, Toolkit, ToolkitContext
from capset.errors import DefinitionError, HydrationRefused
from capset.evaluation.snapshot.capture import capture, envelope_of
from capset.evaluation.snapshot.envelope import SnapshotEnvelope, read_envelope
from capset.evaluation.snapshot.hydrate import hydrate
from tests.examples import examples
from tests.helpers.evaluation.agents import ANYONE, NOBODY, Counted, agents, everything, make

pytestmark = pytest.mark.spec("F27")


def agent_of(*tools: Any, **more: Any) -> Agent:
    return Agent("librarian", uses=[Capability("notes", tools=tools, **more)])


async def stored(agent: Agent, **more: Any) -> SnapshotEnvelope:
    more.setdefault("principal", ANYONE)
    return read_envelope((await capture(agent, **more)).envelope.to_json())


ONE = make("one")


@examples(15, 60)
@given(agents())
def test_a_hydrated_snapshot_has_the_hashes_of_the_captured(agent: Agent) -> None:
    async def check() -> None:
        captured = await capture(agent, principal=ANYONE)
        envelope = read_envelope(captured.envelope.to_json())
        link = captured.link
        for bind in (agent, compose(agent)):
            assert envelope_of(await hydrate(envelope, bind, principal=ANYONE)) == envelope
        outer = {policy.id for installed in captured.tools.values() for policy in installed.policies}
        live = {name: installed.tool for name, installed in captured.tools.items()}
        for bind in (live, live.__getitem__):
            if outer:
                with pytest.raises(HydrationRefused, match="has lost the policy"):
                    await hydrate(envelope, bind, principal=ANYONE)
            else:
                hydrated = await hydrate(envelope, bind, principal=ANYONE)
                assert (hydrated.runtime_hash, hydrated.prompt_hash) == (link.runtime_hash, link.prompt_hash)

    asyncio.run(check())


async def test_no_policy_is_asked_and_the_results_are_the_envelopes() -> None:
    gate, other = Counted("gate", ask("sure?")), Counted("other")
    agent = agent_of(make("one", gate.policy), policies=[other.policy])
    envelope = await stored(agent, policy_mode="hint", invocation={"tenant": "t"})
    hydrated = await hydrate(envelope, agent, principal=ANYONE)
    assert (gate.asked, other.asked) == (1, 1)
    assert (hydrated.decisions["gate"], hydrated.policy_mode) == (ask("sure?"), "hint")
    assert hydrated.invocation_hash == envelope.link.invocation_hash


async def test_what_was_not_in_play_stays_out() -> None:
    agent = agent_of(ONE, make("two", permissions=["notes:write"]), make("new", Counted("no", False).policy))
    hydrated = await hydrate(await stored(agent, principal=NOBODY), agent, principal=ANYONE)
    assert set(hydrated.tools) == set(hydrated.installed) == {"one"}


async def test_a_permission_that_is_gone_takes_its_tool_along() -> None:
    agent = agent_of(ONE, Toolkit("kit", [make("two", permissions=["notes:write"])], instructions=["Write."]))
    hydrated = await hydrate(await stored(agent), agent, principal=NOBODY)
    assert (set(hydrated.tools), hydrated.instructions) == ({"one"}, ())
    assert "lacks the permission notes:write" in hydrated.explain("two").reason


async def test_dynamic_toolkits_are_made_again_of_the_env_that_was_kept() -> None:
    contexts: list[ToolkitContext] = []

    def tools_for(context: ToolkitContext) -> list[Any]:
        contexts.append(context)
        return [make(f"for_{context.env['tier']}")]

    agent = agent_of(DynamicToolkit("some", tools_for))
    envelope = await stored(agent, env={"tier": "pro"}, namespace="ns", agent_id="agent-7")
    assert set((await hydrate(envelope, agent, principal=ANYONE)).tools) == {"for_pro"}
    assert contexts[1] == contexts[0]
    with pytest.raises(HydrationRefused, match="for_pro"):
        await hydrate(envelope, agent, principal=ANYONE, env={"tier": "free"})


async def test_what_dynamic_uses_added_is_there_again_and_nothing_more() -> None:
    extra = Capability("extra", tools=[make("added")])
    agent = Agent("a", uses=[lambda context: [extra]])
    see: Any = object()  # the function looks at nothing
    envelope = await stored(agent, context=see)
    with pytest.raises(HydrationRefused, match="added"):
        await hydrate(envelope, agent, principal=ANYONE)
    hydrated = await hydrate(envelope, agent, principal=ANYONE, context=see)
    assert set(hydrated.tools) == {"added"}
    assert hydrated.composition.dynamic == (), "a step adds nothing to what is kept"
    assert hydrated.static_hash == envelope.link.static_hash


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        (make("other"), "one"),
        (make("one", description="Do it otherwise."), "the tool 'one' has changed"),
        (make("one", Counted("more").policy), "the tool 'one' has changed"),
        (ONE, "the tool 'one' has lost the policy 'gate'"),
    ],
)
async def test_a_tool_that_is_not_the_same_is_refused_and_named(tool: Any, message: str) -> None:
    envelope = await stored(agent_of(ONE, policies=[Counted("gate").policy]))
    with pytest.raises(HydrationRefused, match=message) as refused:
        await hydrate(envelope, agent_of(tool), principal=ANYONE)
    assert [field.path for field in refused.value.fields] == ["one"]
    assert (refused.value.code, refused.value.status) == ("hydration_refused", 422)


async def test_all_tools_that_are_refused_are_named_at_once() -> None:
    envelope = await stored(agent_of(ONE, make("two"), make("three")))
    binds: dict[str, Any] = {"2 tools have": agent_of(ONE, make("two", effect="read")), "unknown tool": {"one": ONE}}
    for message, bind in binds.items():
        with pytest.raises(HydrationRefused, match=message) as refused:
            await hydrate(envelope, bind, principal=ANYONE)
        assert [field.path for field in refused.value.fields] == ["three", "two"]


async def test_a_new_gate_is_not_asked_before_the_call() -> None:
    gated = agent_of(ONE, policies=[Counted("new", False).policy])
    hydrated = await hydrate(await stored(agent_of(ONE)), gated, principal=ANYONE)
    assert (set(hydrated.tools), dict(hydrated.decisions)) == ({"one"}, {})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data["runtime"]["tools"].pop(), "the tools are not those of the link"),
        (lambda data: data["runtime"]["link"]["tool_refs"].pop(), "the tools are not those of the link"),
        (lambda data: data["runtime"]["link"].update(runtime_hash="0" * 64), "do not match its runtime hash"),
        (lambda data: data["runtime"]["tools"][0]["payload"].update(description="x"), "does not match its hash"),
        (lambda data: data["runtime"]["instructions"].append("Obey."), "does not match its hash"),
        (lambda data: data["runtime"].update(system_prompt="Obey."), "does not match its hash"),
        (lambda data: data["static"]["payload"].update(systemPrompt="Obey."), "does not match its hash"),
        (lambda data: data["static"].update(hash="0" * 64), "the static part is not that of the link"),
        (lambda data: data["policy"]["results"].append({"id": "gate", "kind": "allow"}), "two results of one policy"),
        (lambda data: data["runtime"]["tools"].append(data["runtime"]["tools"][0]), "names a tool twice"),
        (lambda data: data.update(profile="jcs-2"), "the profile is not that of the link"),
        (lambda data: data["runtime"]["link"].update(profile="jcs-2"), "uses the hash profile 'jcs-2'"),
    ],
)
async def test_an_envelope_that_was_changed_is_refused(change: Any, message: str) -> None:
    agent = agent_of(ONE, make("two"), policies=[Counted("gate", ask("?")).policy])
    data = json.loads((await stored(agent)).to_json())
    change(data)
    with pytest.raises(HydrationRefused, match=message):
        await hydrate(read_envelope(json.dumps(data)), agent, principal=ANYONE)


async def test_many_tools_are_bound_by_their_names() -> None:
    """More than an agent can have capabilities, under other names than their own, one tool under two."""
    many = Capability("many", tools=[make(f"tool_{number}", instructions=["Once."]) for number in range(130)])
    other, twin = Capability("other", tools=[ONE]), Capability("again", tools=[ONE])
    agent = Agent("a", uses=[many.with_names(prefix="x_"), other, twin.with_names(rename={"one": "twice"})])
    captured = await capture(agent, principal=ANYONE, agent_name="Support, Zürich")
    tools = {name: installed.tool for name, installed in captured.tools.items()}
    bound = await hydrate(captured.envelope, tools, principal=ANYONE)
    assert (bound.runtime_hash, bound.prompt_hash) == (captured.link.runtime_hash, captured.link.prompt_hash)
    assert (bound.instructions, bound.agent_name) == (captured.instructions, "Support, Zürich")


@pytest.mark.parametrize("bind", [None, 3, "agent"])
async def test_what_binds_nothing_is_refused(bind: Any) -> None:
    with pytest.raises(DefinitionError, match="bind must be an agent"):
        await hydrate(await stored(agent_of(ONE)), bind, principal=ANYONE)
    with pytest.raises(HydrationRefused, match="expected a Tool for 'one'"):
        await hydrate(await stored(agent_of(ONE)), {"one": bind}, principal=ANYONE)


async def test_an_agent_with_everything_comes_back() -> None:
    agent = everything(Counted("gate").policy)
    envelope = await stored(agent, env={"tier": "pro"})
    hydrated = await hydrate(envelope, agent, principal=Principal("bob", permissions=ANYONE.permissions))
    assert (hydrated.runtime_hash, hydrated.prompt_hash) == (envelope.link.runtime_hash, envelope.link.prompt_hash)
    assert hydrated.decisions["gate"].kind == "allow"
