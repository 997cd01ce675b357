"""Agent files: YAML, JSON or TOML with an agent's prompt and its capabilities (spec 5, P4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from os.path import realpath
from pathlib import Path
from typing import Any, Final, cast

from pydantic import ValidationError

from capset.adapters.agents.entries import refer
from capset.adapters.plain_files import parse, read_text
from capset.definitions.agents import Agent
from capset.definitions.references import AnyRef
from capset.definitions.tools.definition import AnyTool
from capset.definitions.tools.options import BlockToolOptions
from capset.errors import DefinitionError, Field
from capset.flows import as_tool
from capset.kernel.registry import Registry
from capset.schemas.strict_json import checked_bounds
from capset.schemas.validation_errors import SchemaMismatch, validation_fields
from capset.wire.agents import AgentFileShape, AgentShape, CapabilityEntry, SubAgentEntry

_HINT: Final = "the shortest agent file is, in YAML, the line: name: my-agent"


def read_agent_file(path: Path, registry: Registry) -> Agent:
    """Return the agent that a file describes.

    Raises ``DefinitionError`` for a file that cannot be read or parsed, and one that lists every invalid field, every
    capability that is not installed, and every invalid choice within one.
    """
    return _read(path, registry, ())


def _read(path: Path, registry: Registry, within: tuple[Path, ...]) -> Agent:
    """Return the agent of a file that other files name, the outermost first."""
    here = Path(realpath(path))  # which, unlike resolve(), takes a loop of links as it is
    if here in within:
        raise DefinitionError(f"{path}: an agent cannot be a tool of itself, nor of those that it has as tools")
    return build_agent(parse(path, read_text(path, "an agent file")), registry, str(path), within=(*within, here))


def build_agent(
    data: Any,  # any value from a file
    registry: Registry,
    where: str,
    *,
    within: tuple[Path, ...] = (),
) -> Agent:
    """Return the agent that plain data describes; ``where`` is the prefix of every error message.

    ``within`` has the path of its file, if it is from one, behind those of the files that name it.
    """
    if not isinstance(data, dict):
        raise DefinitionError(f"{where}: not an agent file: it must hold a mapping with a name", hint=_HINT)
    try:
        shape = AgentFileShape.model_validate(data)
    except ValidationError as error:
        given = cast("dict[str, Any]", data)
        fields = [*validation_fields(error, list(AgentFileShape.model_fields), given), *_entry_misfits(given, registry)]
        raise DefinitionError(_listed(f"{where}: not an agent file:", fields), fields=fields) from None
    return make_agent(shape, registry, where, tools=agent_tools(shape, registry, where, within=within))


def agent_tools(
    shape: AgentFileShape, registry: Registry, where: str, *, within: tuple[Path, ...] = ()
) -> list[AnyTool]:
    """Return the tools of an agent that are other agents. Raises ``DefinitionError`` and ``NotFound``."""
    tools: list[AnyTool] = []
    for position, given in enumerate(shape.agents):
        entry = SubAgentEntry(agent=given) if isinstance(given, str) else given
        place = f"{where}: agents.{position}"
        if not isinstance(entry.agent, str):
            own = agent_tools(entry.agent, registry, place, within=within)
            inner = make_agent(entry.agent, registry, place, tools=own)
        elif entry.agent not in registry.agents and Path(entry.agent).suffix:
            if not within:
                raise DefinitionError(f"{place}: a file cannot be named here; got {entry.agent!r}")
            inner = _read(within[-1].parent / entry.agent, registry, within)
        else:
            inner = registry.get_agent(entry.agent)
        chosen = {name: getattr(entry, name) for name in BlockToolOptions.__annotations__ if hasattr(entry, name)}
        options = cast("BlockToolOptions", {name: value for name, value in chosen.items() if value is not None})
        try:
            tools.append(as_tool(inner, name=entry.name, description=entry.description, **options))
        except DefinitionError as error:
            raise DefinitionError(f"{place}: {error.message}", hint=error.hint) from None
    return tools


def make_agent(
    shape: AgentShape, registry: Registry, where: str, *, tools: Iterable[AnyTool] = (), is_new: bool = False
) -> Agent:
    """Return the agent of a shape. Raises ``DefinitionError``, naming everything in it that is not available.

    With ``is_new``, that includes what is coming soon. ``tools`` are those of its own.
    """
    referred = refer(shape.entries(), registry, is_new=is_new)
    context, wrong = context_of(shape)
    fields = [*wrong, *(one.field for one in referred.misfits)]
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


def context_of(shape: AgentShape) -> tuple[dict[str, Any] | None, list[Field]]:  # JSON
    """Return the static context of a shape, and its validation errors."""
    if shape.static_context is None:
        return None, []
    try:
        return checked_bounds(shape.static_context), []
    except SchemaMismatch as error:
        places = [(one, "" if one.path == "(arguments)" else f".{one.path}") for one in error.fields]
        return None, [replace(one, path=f"static_context{inside}") for one, inside in places]


def _listed(heading: str, problems: Iterable[Field | str]) -> str:
    return "\n".join([heading, *(f"  {one}" for one in problems)])


def _entry_misfits(data: Mapping[str, Any], registry: Registry) -> list[Field]:
    """Return the mismatches of the well-formed entries of data that is invalid elsewhere."""
    entries = data.get("capabilities")
    if not isinstance(entries, list):
        return []
    formed: dict[int, CapabilityEntry] = {}
    for position, one in enumerate(cast("list[Any]", entries)):
        with suppress(ValidationError):
            formed[position] = CapabilityEntry.model_validate({"id": one} if isinstance(one, str) else one)
    places = list(formed)
    referred = refer(formed.values(), registry)
    return [replace(one, position=places[one.position]).field for one in referred.misfits]
