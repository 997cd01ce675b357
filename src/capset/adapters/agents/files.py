"""Agent files: YAML, JSON or TOML with an agent's prompt and its capabilities (spec 5, P4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from pydantic import ValidationError

from capset.adapters.agents.entries import refer
from capset.adapters.plain_files import parse, read_text
from capset.definitions.agents import Agent
from capset.definitions.references import AnyRef
from capset.errors import DefinitionError, Field
from capset.kernel.registry import Registry
from capset.schemas.strict_json import checked_bounds
from capset.schemas.validation_errors import SchemaMismatch, validation_fields
from capset.wire.agents import AgentShape, CapabilityEntry

_HINT: Final = "the shortest agent file is, in YAML, the line: name: my-agent"


def read_agent_file(path: Path, registry: Registry) -> Agent:
    """Return the agent that a file describes.

    Raises ``DefinitionError`` for a file that cannot be read or parsed, and one that lists every invalid field, every
    capability that is not installed, and every invalid choice within one.
    """
    return build_agent(parse(path, read_text(path, "an agent file")), registry, str(path))


def build_agent(data: Any, registry: Registry, where: str) -> Agent:  # any value from a file
    """Return the agent that plain data describes; ``where`` is the prefix of every error message."""
    if not isinstance(data, dict):
        raise DefinitionError(f"{where}: not an agent file: it must hold a mapping with a name", hint=_HINT)
    try:
        shape = AgentShape.model_validate(data)
    except ValidationError as error:
        given = cast("dict[str, Any]", data)
        fields = [*validation_fields(error, list(AgentShape.model_fields), given), *_entry_misfits(given, registry)]
        raise DefinitionError(_listed(f"{where}: not an agent file:", fields), fields=fields) from None
    return make_agent(shape, registry, where)


def make_agent(shape: AgentShape, registry: Registry, where: str, *, is_new: bool = False) -> Agent:
    """Return the agent of a shape. Raises ``DefinitionError``, naming everything in it that is not available.

    With ``is_new``, that includes what is coming soon.
    """
    referred = refer(shape.entries(), registry, is_new=is_new)
    context, wrong = context_of(shape)
    fields = [*wrong, *(one.field for one in referred.misfits)]
    try:
        agent = agent_of(shape, referred.refs, context)
    except DefinitionError as error:
        if not fields:
            raise DefinitionError(f"{where}: {error.message}", hint=error.hint) from None
        raise DefinitionError(_listed(f"{where}:", [*fields, error.message]), fields=fields) from None
    if fields:
        raise DefinitionError(_listed(f"{where}:", fields), fields=fields)
    return agent


def agent_of(shape: AgentShape, refs: Iterable[AnyRef], context: Mapping[str, Any] | None) -> Agent:
    """Return the agent of a shape with these references and this static context. Raises ``DefinitionError``."""
    return Agent(
        shape.name,
        description=shape.description,
        system_prompt=shape.system_prompt,
        instructions=shape.instructions,
        uses=refs,
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
