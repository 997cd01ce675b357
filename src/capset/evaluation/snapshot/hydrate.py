"""From an envelope back to tools that can be called, if they are still the same (spec 2, F27)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, cast

from capset.composition.compose import Composition, compose
from capset.composition.installation import Installed
from capset.definitions.agents import Agent
from capset.definitions.blocks import Block
from capset.definitions.capabilities import Capability
from capset.definitions.contexts import Context
from capset.definitions.hooks import Hooks
from capset.definitions.names import AGENT
from capset.definitions.policies import Decision
from capset.definitions.principals import Attributes, Principal
from capset.definitions.tools.definition import AnyTool, Tool
from capset.errors import DefinitionError, Field, HydrationRefused, unknown
from capset.evaluation.compare.sides import side_of
from capset.evaluation.evaluate import evaluate
from capset.evaluation.plan import Plan
from capset.evaluation.snapshot.envelope import SnapshotEnvelope, WirePrincipal, WireTool
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.fingerprint.canonical import PROFILE
from capset.fingerprint.hashes import tool_hash


async def hydrate(
    envelope: SnapshotEnvelope,
    bind: Bind,
    *,
    principal: Principal,
    env: Mapping[str, Any] | None = None,
    context: Context | None = None,
    hooks: Hooks | None = None,
) -> Snapshot:
    """Return the snapshot that an envelope keeps, with its tools as they are defined today: exactly those, or none.

    No policy is asked: their results are those of the envelope, and so is the mode. No hash covers the results, so an
    envelope is kept where only those write who may decide. At a call ``live`` policies are asked, as ever. Dynamic
    toolkits are made again; what dynamic ``uses`` add is found if ``context`` is given, and does not change any more.
    ``env`` is the envelope's, as far as it was kept, unless given. A tool for which ``principal`` has no permission any
    more is not in play. The principal has the attributes that the results were given for: the envelope's, of whom it
    acts for too. Where ``bind`` gives single tools, the model is told what the envelope says; tools with state or
    resources need the agent. ``kernel.resume`` opens a session on it.

    Raises ``HydrationRefused`` for an envelope whose hashes do not agree with what it says, for a principal with other
    attributes, and for tools that are not there, whose hash is another or whose gates are fewer than then: its
    ``fields`` name every one of them; ``ToolkitFailed`` and what ``compose`` raises.
    """
    _verify(envelope)
    _check_attributes(envelope.runtime.toolkit_context.principal, principal)
    wire, kept = envelope.runtime.tools, envelope.runtime.toolkit_context
    composition = composition_of(bind, envelope)
    today = await evaluate(
        composition,
        principal=principal,
        env=kept.env if env is None else env,
        namespace=kept.namespace,
        agent_id=kept.agent_id,
        agent_name=kept.agent_name,
        context=context,
        hooks=hooks,
        results={one.id: Decision(one.kind, one.reason) for one in envelope.policy.results},
    )
    _refuse(wire, today.installed)
    tools = MappingProxyType({one.name: today.installed[one.name] for one in wire})
    # What its dynamic uses would add at a step is not of the envelope.
    fixed = replace(today.composition, dynamic=()) if today.composition.dynamic else today.composition
    plan = Plan(fixed, today.plan.members, tools)
    left_out = plan.left_out(principal.permissions, today.answers)
    told = plan.told(left_out, today.answers) if is_agent(bind) else ()  # else the agent's own say it all
    return replace(
        today,
        composition=fixed,
        plan=plan,
        left_out=left_out,
        told=told,
        runtime_hash=plan.runtime_hash(left_out),
        prompt_hash=plan.prompt_hash(told),
        invocation_hash=envelope.link.invocation_hash,
        policy_mode=envelope.policy.mode,
    )


def _verify(envelope: SnapshotEnvelope) -> None:
    """Refuse an envelope that was changed, or put together wrongly."""
    if envelope.link.profile != PROFILE:
        raise HydrationRefused(
            f"the envelope is hashed by the profile {envelope.link.profile!r}, and here it is {PROFILE!r}",
            hint="capture it anew",
        )
    try:
        side_of(envelope)
    except DefinitionError as error:
        raise HydrationRefused(error.message, hint="hydrate what was captured as it is") from None
    names = [one.name for one in envelope.runtime.tools]
    if len(names) != len(envelope.link.tool_refs) or len(names) != len(set(names)):
        raise HydrationRefused("the envelope names a tool twice")
    ids = [one.id for one in envelope.policy.results]
    if len(ids) != len(set(ids)):
        raise HydrationRefused("the envelope has two results of one policy")


def _check_attributes(then: WirePrincipal | None, now: Principal) -> None:
    """Refuse a principal with other attributes than when the policies gave their results."""
    hint = "capture it again for this principal"
    then = then or WirePrincipal(id=now.id, kind=now.kind)
    if then.dropped:
        raise HydrationRefused(f"the envelope does not keep all of its principal: {', '.join(then.dropped)}", hint=hint)
    ours = [(now.attributes, then.attributes), *zip_longest(now.on_behalf_of_attributes, then.on_behalf_of_attributes)]
    if any(Attributes(one) != Attributes(other) for one, other in ours):
        raise HydrationRefused("the principal has other attributes than the envelope's", hint=hint)


def _refuse(wire: tuple[WireTool, ...], installed: Mapping[str, Installed]) -> None:
    """Raise ``HydrationRefused``, naming every tool that is not what it was."""
    found = list(_misfits(wire, installed))
    if not found:
        return
    hints = [hint for _, hint in found if hint]
    fields = [field for field, _ in found]
    reasons = [field.expected for field in fields]
    heading = [f"{len(reasons)} tools are not what they were:"] if len(reasons) > 1 else []
    raise HydrationRefused("\n".join([*heading, *reasons]), hint=hints[0] if hints else None, fields=fields)


def _misfits(wire: tuple[WireTool, ...], installed: Mapping[str, Installed]) -> Iterator[tuple[Field, str | None]]:
    """Yield each tool that is not the same, behind every gate that it had: why, and what to do."""
    for one in wire:
        today = installed.get(one.name)
        if today is None:
            yield Field(one.name, unknown("tool", one.name, installed)), None
        elif (shown := tool_hash(today.tool)) != one.hash:
            told = f"its hash is {shown[:12]}… now, and was {one.hash[:12]}…"
            yield Field(one.name, f"the tool {one.name!r} is not what it was: {told}"), "capset diff says what changed"
        elif lost := [name for name in one.policies if name not in {policy.id for policy in today.gates}]:
            told = f"the tool {one.name!r} was behind the policy {lost[0]!r}, and is not any more"
            hint = "bind the agent, which has the policies of its capabilities and toolkits"
            yield Field(one.name, told), hint


Bind = Block | Composition | Mapping[str, AnyTool] | Callable[[str], AnyTool]
"""Where the tools are found: the agent of today, or a tool for each name."""


def is_agent(bind: Bind) -> bool:
    """Whether tools are bound to an agent, or another block, with all that it says beside them."""
    return isinstance(bind, Block | Composition)


def composition_of(bind: Bind, envelope: SnapshotEnvelope) -> Composition:
    """Return the composition that an envelope's tools are looked for in.

    Of single tools it is that of an agent that says what the envelope says. Raises ``HydrationRefused``, naming every
    tool that there is not, and ``DefinitionError`` for what binds nothing.
    """
    if isinstance(bind, Composition):
        return bind
    if isinstance(bind, Block):
        return compose(bind)
    if isinstance(bind, Mapping):
        tools = cast("Mapping[str, AnyTool]", bind)
        return compose(_agent(_found_in(tools.__getitem__, envelope, tools), envelope))
    if callable(bind):
        return compose(_agent(_found_in(bind, envelope, ()), envelope))
    raise DefinitionError(f"bind is an agent, or a tool for each name; got {bind!r:.80}")


def _agent(found: Mapping[str, AnyTool], envelope: SnapshotEnvelope) -> Agent:
    # One capability has one tool of a name; as a rule one is enough.
    groups: list[dict[str, tuple[AnyTool, str]]] = []
    for name, tool in found.items():
        group = next((one for one in groups if tool.name not in one), None)
        if group is None:
            groups.append(group := {})
        group[tool.name] = tool, name
    uses: list[Any] = []
    for number, group in enumerate(groups):
        capability = Capability(f"bound_{number}", tools=[tool for tool, _ in group.values()])
        renamed = {own: name for own, (_, name) in group.items() if own != name}
        uses.append(capability.with_names(rename=renamed) if renamed else capability)
    name, runtime = envelope.link.agent_name, envelope.runtime
    return Agent(
        name if AGENT.fullmatch(name) else "hydrated",  # a label of the host's may be any text
        system_prompt=runtime.system_prompt,
        instructions=runtime.instructions,
        uses=uses,
    )


def _found_in(
    find: Callable[[str], AnyTool], envelope: SnapshotEnvelope, known: Collection[str]
) -> Mapping[str, AnyTool]:
    found: dict[str, AnyTool] = {}
    missing: list[Field] = []
    for one in envelope.runtime.tools:
        try:
            tool = cast("object", find(one.name))
        except KeyError:
            missing.append(Field(one.name, unknown("tool", one.name, known)))
            continue
        if isinstance(tool, Tool):
            found[one.name] = cast("AnyTool", tool)
        else:
            missing.append(Field(one.name, f"what is bound to {one.name!r} is no Tool: {tool!r:.80}"))
    if missing:
        raise HydrationRefused("\n".join(field.expected for field in missing), fields=missing)
    return found
