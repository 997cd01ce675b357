"""Agents from plain data: stored agents, and the stored definitions of sessions (spec 5, P4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from pydantic import ValidationError

from capset.definitions.agents import Agent
from capset.definitions.references import AnyRef
from capset.definitions.tools.definition import AnyTool
from capset.definitions.tools.options import BlockToolOptions
from capset.errors import DefinitionError, Field
from capset.flows import as_tool
from capset.kernel.registry import Registry
from capset.schemas.strict_json import copy_bounded
from capset.schemas.validation_errors import SchemaMismatch, validation_fields
from capset.wire.agents import AgentDefinitionShape, AgentShape, SubAgentEntry
from capset_connect.agents.entries import refer, well_formed_entries


def build_agent(data: Any, registry: Registry, where: str) -> Agent:  # any JSON
    """Return the agent that plain data defines. ``where`` is the prefix of every error message.

    Raises ``DefinitionError`` with every invalid field, every capability that is not installed, and every invalid
    option of a capability.
    """
    if not isinstance(data, dict):
        raise DefinitionError(f"{where}: not an agent: expected a mapping with a name")
    document = cast("dict[str, Any]", data)
    try:
        shape = AgentDefinitionShape.model_validate(document)
    except ValidationError as error:
        fields = validation_fields(error, list(AgentDefinitionShape.model_fields), document)
        fields += _entry_mismatches(document, registry)
        raise DefinitionError(_listed(f"{where}: not an agent:", fields), fields=fields) from None
    return agent_of_definition(shape, registry, where)


def agent_of_definition(
    shape: AgentDefinitionShape, registry: Registry, where: str, find_agent: Callable[[str], Agent] | None = None
) -> Agent:
    """Return the agent of a definition, with its sub-agents as tools.

    ``find_agent`` returns the agents that it names; by default, these are installed. Raises ``DefinitionError`` and
    ``NotFound``.
    """
    return make_agent(shape, registry, where, tools=sub_agents(shape, registry, where, find_agent))


def sub_agents(
    shape: AgentDefinitionShape, registry: Registry, where: str, find_agent: Callable[[str], Agent] | None = None
) -> list[AnyTool]:
    """Return the sub-agents of a definition as tools. Raises ``DefinitionError`` and ``NotFound``."""
    find_agent = find_agent or registry.get_agent
    tools: list[AnyTool] = []
    for position, sub_agent in enumerate(shape.agents):
        entry = SubAgentEntry(agent=sub_agent) if isinstance(sub_agent, str) else sub_agent
        place = f"{where}: agents.{position}"
        if not isinstance(entry.agent, str):
            agent = agent_of_definition(entry.agent, registry, place, find_agent)
        else:
            agent = find_agent(entry.agent)
        try:
            tools.append(as_agent_tool(agent, entry))
        except DefinitionError as error:
            raise DefinitionError(f"{place}: {error.message}", hint=error.hint) from None
    return tools


def as_agent_tool(agent: Agent, entry: SubAgentEntry) -> AnyTool:
    """Return an agent as a tool with the options of an entry. Raises ``DefinitionError``."""
    chosen = {name: getattr(entry, name) for name in BlockToolOptions.__annotations__ if hasattr(entry, name)}
    options = cast("BlockToolOptions", {name: value for name, value in chosen.items() if value is not None})
    return as_tool(agent, name=entry.name, description=entry.description, **options)


def make_agent(
    shape: AgentShape, registry: Registry, where: str, *, tools: Iterable[AnyTool] = (), is_new: bool = False
) -> Agent:
    """Return the agent of a shape. Raises ``DefinitionError``, listing everything in it that is not available.

    With ``is_new``, that includes capabilities with the status ``coming_soon``. ``tools`` are the agent's own tools.
    """
    referred = refer(shape.entries(), registry, is_new=is_new)
    context, wrong = context_of(shape.static_context)
    fields = [*wrong, *(misfit.field for misfit in referred.misfits)]
    try:
        agent = agent_of(shape, referred.refs, context, tools)
    except DefinitionError as error:
        if not fields:
            raise DefinitionError(f"{where}: {error.message}", hint=error.hint) from None
        raise DefinitionError(_listed(f"{where}:", [*fields, error.message]), fields=fields) from None
    if fields:
        raise DefinitionError(_listed(f"{where}:", fields), fields=fields)
    return agent


def agent_of(
    shape: AgentShape, refs: Iterable[AnyRef], context: Mapping[str, Any] | None, tools: Iterable[AnyTool] = ()
) -> Agent:
    """Return the agent of a shape with these references, static context and tools. Raises ``DefinitionError``."""
    return Agent(
        shape.name,
        description=shape.description,
        system_prompt=shape.system_prompt,
        instructions=shape.instructions,
        uses=refs,
        tools=tools,
        model=shape.model,
        static_context=context,
        allowance=shape.allowance and shape.allowance.allowance(),
    )


def context_of(context: Mapping[str, Any] | None) -> tuple[dict[str, Any] | None, list[Field]]:  # JSON
    """Return a copy of the static context of an agent, and its validation errors."""
    if context is None:
        return None, []
    try:
        return copy_bounded(dict(context)), []
    except SchemaMismatch as error:
        places = [(field, "" if field.path == "(arguments)" else f".{field.path}") for field in error.fields]
        return None, [replace(field, path=f"static_context{inside}") for field, inside in places]


def _listed(heading: str, problems: Iterable[Field | str]) -> str:
    return "\n".join([heading, *(f"  {problem}" for problem in problems)])


def _entry_mismatches(data: Mapping[str, Any], registry: Registry) -> list[Field]:
    """Return the mismatches of the well-formed capability entries in data that is otherwise invalid."""
    entries = well_formed_entries(data)
    positions = list(entries)
    referred = refer(entries.values(), registry)
    return [replace(misfit, position=positions[misfit.position]).field for misfit in referred.misfits]
