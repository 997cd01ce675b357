"""Agent files: an agent's prompt and capabilities in YAML, JSON or TOML (spec 5, P4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from os.path import realpath
from pathlib import Path
from typing import Any, Final, cast

from pydantic import ValidationError

from capset.definitions.agents import Agent
from capset.definitions.capabilities import AnyCapability
from capset.definitions.references import AnyRef
from capset.definitions.tools.definition import AnyTool
from capset.definitions.tools.options import BlockToolOptions
from capset.errors import DefinitionError, Field
from capset.flows import as_tool
from capset.kernel.registry import Registry
from capset.schemas.strict_json import copy_bounded
from capset.schemas.validation_errors import SchemaMismatch, validation_fields
from capset.wire.agents import AgentFileShape, AgentShape, CapabilityEntry, SubAgentEntry
from capset_connect.agent_files.entries import refer
from capset_connect.pins import capability_with
from capset_connect.plain_files import parse, read_text
from capset_connect.sources import KEYS, Source, Upstream, declarations

_HINT: Final = "a minimal agent file in YAML is the line: name: my-agent"


def read_agent_file(path: Path, registry: Registry, *, upstream: Upstream | None = None) -> Agent:
    """Return the agent that a file defines.

    ``upstream`` creates the capabilities of the MCP servers and APIs that the file declares. Raises ``DefinitionError``
    if the file cannot be read or parsed. For an invalid file, the error lists every invalid field, every capability
    that is not installed, and every invalid option of a capability.
    """
    return _read(path, registry, (), upstream)


def read_agent_sources(path: Path) -> list[Source]:
    """Return the MCP servers and APIs that an agent file declares, without those of its sub-agents' files.

    Raises the errors of ``read_agent_file``.
    """
    shape = _shape(parse(path, read_text(path, "an agent file")), str(path), None)
    return [make() for _, make in declarations(shape, path.parent)]


def read_all_sources(path: Path, registry: Registry) -> list[Source]:
    """Return the MCP servers and APIs that an agent file and its sub-agents' files declare, without duplicates.

    Raises the errors of ``read_agent_file``, and ``DefinitionError`` for a name with two different declarations.
    """
    sources: dict[str, Source] = {}

    def make(source: Source) -> AnyCapability:
        if sources.setdefault(source.capability, source) != source:
            raise DefinitionError(f"{path}: two of its agents declare {source.label} differently")
        return capability_with(source)

    read_agent_file(path, registry, upstream=lambda _: make)
    return list(sources.values())


def sub_agent_files(path: Path, registry: Registry) -> Iterator[Path]:
    """Yield the files of the sub-agents of an agent file, at every depth.

    Call it only for a file that ``read_agent_file`` has accepted, because that guarantees that there is no cycle.
    """
    yield from _files_in(_shape(parse(path, read_text(path, "an agent file")), str(path), None), path, registry)


def _files_in(shape: AgentFileShape, path: Path, registry: Registry) -> Iterator[Path]:
    for entry in shape.agents:
        inner = entry if isinstance(entry, str) else entry.agent
        if not isinstance(inner, str):
            yield from _files_in(inner, path, registry)
        elif _is_file(inner, registry):
            yield path.parent / inner
            yield from sub_agent_files(path.parent / inner, registry)


def _is_file(name: str, registry: Registry) -> bool:
    return name not in registry.agents and bool(Path(name).suffix)


def _read(path: Path, registry: Registry, within: tuple[Path, ...], upstream: Upstream | None) -> Agent:
    """Return the agent of a file. ``within`` are the files that reference it, the outermost first."""
    try:
        real_path = Path(realpath(path))  # unlike resolve(), it accepts a loop of symlinks
    except ValueError:  # a NUL, a lone surrogate
        raise DefinitionError(f"{str(path)!r:.200} is not a valid file path") from None
    if real_path in within:
        raise DefinitionError(f"{path}: an agent cannot be its own tool, directly or through other agents")
    data = parse(path, read_text(path, "an agent file"))
    return build_agent(data, registry, str(path), within=(*within, real_path), upstream=upstream)


def build_agent(
    data: Any,  # any value from a file
    registry: Registry,
    where: str,
    *,
    within: tuple[Path, ...] = (),
    upstream: Upstream | None = None,
) -> Agent:
    """Return the agent that plain data defines. ``where`` is the prefix of every error message.

    ``within`` ends with the path of the file that the data comes from, if any, after the paths of the files that
    reference it. ``upstream`` creates the capabilities of its MCP servers and APIs.
    """
    return _made(_shape(data, where, registry), registry, where, within, upstream)


def _shape(data: Any, where: str, registry: Registry | None) -> AgentFileShape:
    """Validate the data of a file. With a registry, errors include the capabilities that it lacks."""
    if not isinstance(data, dict):
        raise DefinitionError(f"{where}: not an agent file: expected a mapping with a name", hint=_HINT)
    document = cast("dict[str, Any]", data)
    try:
        return AgentFileShape.model_validate(document)
    except ValidationError as error:
        fields = validation_fields(error, list(AgentFileShape.model_fields), document)
        fields += [] if registry is None else _entry_misfits(document, registry)
        raise DefinitionError(_listed(f"{where}: not an agent file:", fields), fields=fields) from None


def _made(
    shape: AgentFileShape, registry: Registry, where: str, within: tuple[Path, ...], upstream: Upstream | None
) -> Agent:
    registry = _with_sources(shape, registry, where, within, upstream)
    tools = agent_tools(shape, registry, where, within=within, upstream=upstream)
    return make_agent(shape, registry, where, tools=tools)


def _with_sources(
    shape: AgentFileShape, registry: Registry, where: str, within: tuple[Path, ...], upstream: Upstream | None
) -> Registry:
    """Return the registry, extended with the capabilities of the MCP servers and APIs that an agent file declares."""
    declared = [key for key in KEYS if getattr(shape, key)]
    if not declared:
        return registry
    if upstream is None or not within:
        raise DefinitionError(f"{where}: {declared[0]}: can only be declared in an agent file that a command reads")
    try:
        sources = [declare() for _, declare in declarations(shape, within[-1].parent)]
        make = upstream(sources)
        return registry.extended([make(source) for source in sources])
    except DefinitionError as error:
        raise DefinitionError(f"{where}: {', '.join(declared)}: {error.message}", hint=error.hint) from None


def agent_tools(
    shape: AgentFileShape,
    registry: Registry,
    where: str,
    *,
    within: tuple[Path, ...] = (),
    upstream: Upstream | None = None,
) -> list[AnyTool]:
    """Return the sub-agents of an agent as tools. Raises ``DefinitionError`` and ``NotFound``."""
    tools: list[AnyTool] = []
    for position, sub_agent in enumerate(shape.agents):
        entry = SubAgentEntry(agent=sub_agent) if isinstance(sub_agent, str) else sub_agent
        place = f"{where}: agents.{position}"
        if not isinstance(entry.agent, str):
            inner = _made(entry.agent, registry, place, within, upstream)
        elif _is_file(entry.agent, registry):
            if not within:
                raise DefinitionError(f"{place}: only an agent file can reference other files; got {entry.agent!r}")
            inner = _read(within[-1].parent / entry.agent, registry, within, upstream)
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
    """Return the agent of a shape. Raises ``DefinitionError``, listing everything in it that is not available.

    With ``is_new``, that includes capabilities with the status ``coming_soon``. ``tools`` are the agent's own tools.
    """
    referred = refer(shape.entries(), registry, is_new=is_new)
    context, wrong = context_of(shape)
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


def context_of(shape: AgentShape) -> tuple[dict[str, Any] | None, list[Field]]:  # JSON
    """Return the static context of a shape, and its validation errors."""
    if shape.static_context is None:
        return None, []
    try:
        return copy_bounded(shape.static_context), []
    except SchemaMismatch as error:
        places = [(field, "" if field.path == "(arguments)" else f".{field.path}") for field in error.fields]
        return None, [replace(field, path=f"static_context{inside}") for field, inside in places]


def _listed(heading: str, problems: Iterable[Field | str]) -> str:
    return "\n".join([heading, *(f"  {problem}" for problem in problems)])


def _entry_misfits(data: Mapping[str, Any], registry: Registry) -> list[Field]:
    """Return the mismatches of the well-formed capability entries in data that is otherwise invalid."""
    entries = data.get("capabilities")
    if not isinstance(entries, list):
        return []
    formed: dict[int, CapabilityEntry] = {}
    for position, entry in enumerate(cast("list[Any]", entries)):
        with suppress(ValidationError):
            formed[position] = CapabilityEntry.model_validate({"id": entry} if isinstance(entry, str) else entry)
    places = list(formed)
    referred = refer(formed.values(), registry)
    return [replace(misfit, position=places[misfit.position]).field for misfit in referred.misfits]
