"""From an envelope back to tools that can be called, if they are still the same (spec 2, F27)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

from capset.composition.compose import Composition, compose
from capset.composition.installing import Installed
from capset.definitions.agents import Agent
from capset.definitions.blocks import Block
from capset.definitions.capabilities import Capability
from capset.definitions.hooks import Hooks
from capset.definitions.policies import Decision
from capset.definitions.principals import Principal
from capset.definitions.tools import AnyTool, Tool
from capset.errors import DefinitionError, HydrationRefused, unknown
from capset.evaluation.envelope import SnapshotEnvelope, WireTool
from capset.evaluation.evaluate import evaluate
from capset.evaluation.plan import Plan
from capset.evaluation.snapshot import Snapshot
from capset.fingerprint.hashes import runtime_hash, tool_hash

Bind = Block | Composition | Mapping[str, AnyTool] | Callable[[str], AnyTool]
"""Where the tools are found: the agent of today, or a tool for each name."""


async def hydrate(
    envelope: SnapshotEnvelope,
    bind: Bind,
    *,
    principal: Principal,
    env: Mapping[str, Any] | None = None,
    hooks: Hooks | None = None,
) -> Snapshot:
    """Return the snapshot that an envelope keeps, with its tools as they are defined today: exactly those, or none.

    No policy is asked: their results are those of the envelope, and so is the mode. At a call ``live`` policies are
    asked, as ever. Dynamic toolkits are made again. ``env`` is the envelope's, as far as it was kept, unless given. A
    tool for which ``principal`` has no permission any more is not in play. ``kernel.resume`` opens a session on it.

    Raises ``HydrationRefused`` for an envelope whose hashes do not agree with what it says, for a tool that is not
    there, and for one whose hash is another or whose gates are fewer than then; ``ToolkitFailed`` and what ``compose``
    raises.
    """
    _verify(envelope)
    wire, kept = envelope.runtime.tools, envelope.runtime.toolkit_context
    composition = _composition(bind, envelope)
    results = {one.id: Decision(one.kind, one.reason) for one in envelope.policy.results}
    today = await evaluate(
        composition,
        principal=principal,
        env=kept.env if env is None else env,
        namespace=kept.namespace,
        agent_id=kept.agent_id,
        agent_name=kept.agent_name,
        hooks=hooks,
        results=results,
    )
    tools = MappingProxyType({one.name: _bound(one, today.installed) for one in wire})
    plan = Plan(today.composition, today.plan.members, tools)
    passed = plan.passing(principal.permissions, today.answers)
    told = plan.told(passed, today.answers)
    return replace(
        today,
        plan=plan,
        passed=passed,
        told=told,
        runtime_hash=plan.runtime_hash(passed),
        prompt_hash=plan.prompt_hash(told),
        invocation_hash=envelope.link.invocation_hash,
        policy_mode=envelope.policy.mode,
    )


def _verify(envelope: SnapshotEnvelope) -> None:
    """Refuse an envelope that was changed, or put together wrongly."""
    link = envelope.link
    named = {one.name: one.hash for one in envelope.runtime.tools}
    if named != {ref.name: ref.hash for ref in link.tool_refs} or len(named) != len(envelope.runtime.tools):
        raise HydrationRefused("the envelope's tools are not those that its link names")
    if runtime_hash(link.tool_refs) != link.runtime_hash:
        raise HydrationRefused("the envelope's runtime hash is not that of the tools that it names")


def _composition(bind: Bind, envelope: SnapshotEnvelope) -> Composition:
    if isinstance(bind, Composition):
        return bind
    if isinstance(bind, Block):
        return compose(bind)
    if callable(bind):
        find, known = bind, frozenset[str]()
    elif isinstance(bind, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not be typed
        find, known = bind.__getitem__, frozenset(bind)
    else:
        raise DefinitionError(f"bind is an agent, or a tool for each name; got {bind!r:.80}")
    uses: list[Any] = []
    for number, one in enumerate(envelope.runtime.tools):
        found = _found(find, one.name, known)
        capability = Capability(f"bound_{number}", tools=[found])
        uses.append(capability if found.name == one.name else capability.with_names(rename={found.name: one.name}))
    link, runtime = envelope.link, envelope.runtime
    return compose(
        Agent(
            link.agent_name or "hydrated",
            system_prompt=runtime.system_prompt,
            instructions=runtime.instructions,
            uses=uses,
        )
    )


def _found(find: Callable[[str], AnyTool], name: str, known: Collection[str]) -> AnyTool:
    try:
        found = cast("object", find(name))
    except KeyError:
        raise HydrationRefused(unknown("tool", name, known)) from None
    if not isinstance(found, Tool):
        raise HydrationRefused(f"what is bound to {name!r} is no Tool: {found!r:.80}")
    return cast("AnyTool", found)


def _bound(wire: WireTool, installed: Mapping[str, Installed]) -> Installed:
    """Return today's tool. Raises ``HydrationRefused`` unless it is the same, behind every gate that it had."""
    if (today := installed.get(wire.name)) is None:
        raise HydrationRefused(unknown("tool", wire.name, installed))
    if (shown := tool_hash(today.tool)) != wire.hash:
        raise HydrationRefused(
            f"the tool {wire.name!r} is not what it was: its hash is {shown[:12]}… now, and was {wire.hash[:12]}…",
            hint="capset diff says what changed in it",
        )
    gates = {policy.id for policy in today.gates}
    if lost := [name for name in wire.policies if name not in gates]:
        raise HydrationRefused(
            f"the tool {wire.name!r} was behind the policy {lost[0]!r}, and is not any more",
            hint="bind the agent, which has the policies of its capabilities and toolkits",
        )
    return today
