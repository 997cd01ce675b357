"""Restoring callable tools from an envelope, if they are still the same (spec 2, F27)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, cast

from capset.composition.compose import Composition, compose
from capset.composition.installation import InstalledTool
from capset.definitions.agents import Agent
from capset.definitions.blocks import Block
from capset.definitions.calls.contexts import Context
from capset.definitions.capabilities import Capability
from capset.definitions.governance.hooks import Hooks
from capset.definitions.governance.policies import Decision
from capset.definitions.names import AGENT
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
    """Restore the snapshot of an envelope with today's definitions of its tools: all of them, unchanged, or none.

    No policy is evaluated: the policy results and the mode are the envelope's. No hash covers the results, so store
    envelopes where only those who may decide can write. Calls evaluate ``live`` policies as always. Dynamic toolkits
    are made again. Additions of dynamic ``uses`` are resolved if ``context`` is given, and then stay fixed. ``env``
    defaults to the stored part of the envelope's. A tool is not in play if ``principal`` no longer has its permissions.
    The principal must have the envelope's attributes, on which the results depend, including those of the principals it
    acts for. If ``bind`` provides single tools, the instructions are the envelope's. Tools with state or resources need
    the agent. ``kernel.resume`` opens a session on the snapshot.

    Raises ``HydrationRefused`` for an envelope whose hashes do not match its contents, for a principal with other
    attributes, and for tools that are missing, have another hash or have lost policies; its ``fields`` name all of
    them. Also raises ``ToolkitFailed`` and any error of ``compose``.
    """
    _check_envelope(envelope)
    _check_attributes(envelope.runtime.toolkit_context.principal, principal)
    wire_tools, toolkit_context = envelope.runtime.tools, envelope.runtime.toolkit_context
    composition = composition_of(bind, envelope)
    today = await evaluate(
        composition,
        principal=principal,
        env=toolkit_context.env if env is None else env,
        namespace=toolkit_context.namespace,
        agent_id=toolkit_context.agent_id,
        agent_name=toolkit_context.agent_name,
        context=context,
        hooks=hooks,
        results={
            policy_result.id: Decision(policy_result.kind, policy_result.reason)
            for policy_result in envelope.policy.results
        },
    )
    _check_tools(wire_tools, today.installed)
    tools = MappingProxyType({tool.name: today.installed[tool.name] for tool in wire_tools})
    # Later additions of its dynamic uses are not part of the envelope.
    static_composition = replace(today.composition, dynamic=()) if today.composition.dynamic else today.composition
    plan = Plan(static_composition, today.plan.members, tools)
    left_out = plan.left_out(principal.permissions, today.answers)
    member_instructions = (
        plan.instructions_in_play(left_out, today.answers) if is_agent(bind) else ()
    )  # else the agent has its own
    return replace(
        today,
        composition=static_composition,
        plan=plan,
        left_out=left_out,
        member_instructions=member_instructions,
        runtime_hash=plan.runtime_hash(left_out),
        prompt_hash=plan.prompt_hash(member_instructions),
        invocation_hash=envelope.link.invocation_hash,
        policy_mode=envelope.policy.mode,
    )


def _check_envelope(envelope: SnapshotEnvelope) -> None:
    """Raise ``HydrationRefused`` for an envelope that was changed or is inconsistent."""
    if envelope.link.profile != PROFILE:
        raise HydrationRefused(
            f"the envelope uses the hash profile {envelope.link.profile!r}; expected {PROFILE!r}",
            hint="capture it again",
        )
    try:
        side_of(envelope)
    except DefinitionError as error:
        raise HydrationRefused(error.message, hint="hydrate an unchanged envelope") from None
    names = [tool.name for tool in envelope.runtime.tools]
    if len(names) != len(envelope.link.tool_refs) or len(names) != len(set(names)):
        raise HydrationRefused("the envelope names a tool twice")
    ids = [policy_result.id for policy_result in envelope.policy.results]
    if len(ids) != len(set(ids)):
        raise HydrationRefused("the envelope has two results of one policy")


def _check_attributes(then: WirePrincipal | None, now: Principal) -> None:
    """Raise ``HydrationRefused`` if the principal's attributes differ from those that the policies decided on."""
    hint = "capture it again for this principal"
    then = then or WirePrincipal(id=now.id, kind=now.kind)
    if then.dropped:
        raise HydrationRefused(f"the envelope lacks attributes of its principal: {', '.join(then.dropped)}", hint=hint)
    ours = [(now.attributes, then.attributes), *zip_longest(now.on_behalf_of_attributes, then.on_behalf_of_attributes)]
    if any(Attributes(current) != Attributes(other) for current, other in ours):
        raise HydrationRefused("the principal has other attributes than the envelope's", hint=hint)


def _check_tools(wire_tools: tuple[WireTool, ...], installed: Mapping[str, InstalledTool]) -> None:
    """Raise ``HydrationRefused``, naming every tool that differs from the envelope's."""
    changed_tools = list(_changed_tools(wire_tools, installed))
    if not changed_tools:
        return
    hints = [hint for _, hint in changed_tools if hint]
    fields = [field for field, _ in changed_tools]
    reasons = [field.expected for field in fields]
    heading = [f"{len(reasons)} tools have changed or are missing:"] if len(reasons) > 1 else []
    raise HydrationRefused("\n".join([*heading, *reasons]), hint=hints[0] if hints else None, fields=fields)


def _changed_tools(
    wire_tools: tuple[WireTool, ...], installed: Mapping[str, InstalledTool]
) -> Iterator[tuple[Field, str | None]]:
    """Yield the reason and a hint for each tool that is missing, has changed, or has lost policies."""
    for wire_tool in wire_tools:
        today = installed.get(wire_tool.name)
        if today is None:
            yield Field(wire_tool.name, unknown("tool", wire_tool.name, installed)), None
        elif (current_hash := tool_hash(today.tool)) != wire_tool.hash:
            message = f"its hash is now {current_hash[:12]}… and was {wire_tool.hash[:12]}…"
            yield (
                Field(wire_tool.name, f"the tool {wire_tool.name!r} has changed: {message}"),
                "capset diff A B shows what changed",
            )
        elif lost := [name for name in wire_tool.policies if name not in {policy.id for policy in today.policies}]:
            message = f"the tool {wire_tool.name!r} has lost the policy {lost[0]!r}"
            hint = "bind the agent, which has the policies of its capabilities and toolkits"
            yield Field(wire_tool.name, message), hint


Bind = Block | Composition | Mapping[str, AnyTool] | Callable[[str], AnyTool]
"""The source of the tools: today's agent, or a tool for each name."""


def is_agent(bind: Bind) -> bool:
    """Whether ``bind`` is an agent or another block, which has its own instructions."""
    return isinstance(bind, Block | Composition)


def composition_of(bind: Bind, envelope: SnapshotEnvelope) -> Composition:
    """Return the composition in which to look for an envelope's tools.

    For single tools, it is that of an agent with the envelope's prompt and instructions. Raises ``HydrationRefused``,
    naming every missing tool, and ``DefinitionError`` for an invalid ``bind``.
    """
    if isinstance(bind, Composition):
        return bind
    if isinstance(bind, Block):
        return compose(bind)
    if isinstance(bind, Mapping):
        tools = cast("Mapping[str, AnyTool]", bind)
        return compose(_agent(_bound_tools(tools.__getitem__, envelope, tools), envelope))
    if callable(bind):
        return compose(_agent(_bound_tools(bind, envelope, ()), envelope))
    raise DefinitionError(f"bind must be an agent, or provide a tool for each name; got {bind!r:.80}")


def _agent(tools: Mapping[str, AnyTool], envelope: SnapshotEnvelope) -> Agent:
    # Tool names are unique within a capability; usually one capability is enough.
    groups: list[dict[str, tuple[AnyTool, str]]] = []
    for name, tool in tools.items():
        group = next((candidate for candidate in groups if tool.name not in candidate), None)
        if group is None:
            groups.append(group := {})
        group[tool.name] = tool, name
    uses: list[Any] = []
    for number, group in enumerate(groups):
        capability = Capability(f"bound_{number}", tools=[tool for tool, _ in group.values()])
        renamed = {tool_name: name for tool_name, (_, name) in group.items() if tool_name != name}
        uses.append(capability.with_names(rename=renamed) if renamed else capability)
    name, runtime = envelope.link.agent_name, envelope.runtime
    return Agent(
        name if AGENT.fullmatch(name) else "hydrated",  # a label of the host's may be any text
        system_prompt=runtime.system_prompt,
        instructions=runtime.instructions,
        uses=uses,
    )


def _bound_tools(
    find: Callable[[str], AnyTool], envelope: SnapshotEnvelope, names: Collection[str]
) -> Mapping[str, AnyTool]:
    tools: dict[str, AnyTool] = {}
    missing: list[Field] = []
    for wire_tool in envelope.runtime.tools:
        try:
            tool = cast("object", find(wire_tool.name))
        except KeyError:
            missing.append(Field(wire_tool.name, unknown("tool", wire_tool.name, names)))
            continue
        if isinstance(tool, Tool):
            tools[wire_tool.name] = cast("AnyTool", tool)
        else:
            missing.append(Field(wire_tool.name, f"expected a Tool for {wire_tool.name!r}; got {tool!r:.80}"))
    if missing:
        raise HydrationRefused("\n".join(field.expected for field in missing), fields=missing)
    return tools
