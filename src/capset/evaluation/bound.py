"""What an envelope's tools are bound to: the agent of today, or single tools by their names (spec 2, F27)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from capset.composition.compose import Composition, compose
from capset.definitions.agents import Agent
from capset.definitions.blocks import Block
from capset.definitions.capabilities import Capability
from capset.definitions.names import AGENT
from capset.definitions.tools import AnyTool, Tool
from capset.errors import DefinitionError, Field, HydrationRefused, unknown
from capset.evaluation.envelope import SnapshotEnvelope

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
