"""Conversions between stored rows of agents, their input and their files (spec 5, P4, P7)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from pydantic import ValidationError
from pydantic_core import to_json

from capset.definitions.agents import Agent
from capset.errors import InvalidArguments
from capset.kernel.registry import Registry
from capset.schemas.validation_errors import validation_fields
from capset.stores.base import AGENT_FIELDS, AgentField, AgentRow, AgentStatus, CapabilityRow
from capset.wire.agents import AgentInput, CapabilityEntry, wire_value
from capset.wire.allowances import stored_allowance
from capset.wire.tool_sources import stored_servers
from capset_connect.agents.mcp_servers import Servers, servers_of

_OPTIONAL: Final = [field.name for field in AGENT_FIELDS if field.is_optional]
_STORED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "tags": lambda tags: tuple(dict.fromkeys(tags)),
    "allowance": stored_allowance,
    "mcp_servers": stored_servers,
}
"""Converters for fields with a special stored form. For all other fields, the kind determines the stored form."""


@dataclass(frozen=True, eq=False, slots=True)
class Loaded:
    """An agent that is ready for use. ``row`` is its stored form, or ``None`` if it is defined in code.

    ``notices`` name capabilities that are no longer installed, are deprecated, or contribute nothing.
    """

    id: str
    agent: Agent
    row: AgentRow | None
    notices: tuple[str, ...]

    @property
    def servers(self) -> Servers:
        """The agent's own MCP servers."""
        return {} if self.row is None else servers_of(self.row.mcp_servers)


def filled(row: AgentRow, agent_input: AgentInput) -> AgentRow:
    """Return the row with the fields of ``agent_input``."""
    values: dict[str, Any] = {field.name: _stored_value(field, agent_input) for field in AGENT_FIELDS}
    return replace(row, **values)


def _stored_value(field: AgentField, agent_input: AgentInput) -> Any:  # of the field's own type
    value = getattr(agent_input, field.name)
    if (stored := _STORED.get(field.name)) is not None:
        return stored(value)
    match field.kind:
        case "capabilities":
            return tuple(map(row_of, agent_input.entries()))
        case "texts":
            return tuple(value)
        case "object":
            return value or None
        case "text":
            return value


def row_of(entry: CapabilityEntry) -> CapabilityRow:
    """Return the stored form of an entry."""
    return CapabilityRow(entry.id, entry.presets or {}, entry.config, entry.prefix, entry.rename or {})


def as_stored(row: AgentRow, agent: Agent, registry: Registry) -> AgentRow:
    """Return the row of an agent with normalised instructions, and with capabilities by name instead of alias."""
    capabilities = tuple(replace(entry, id=registry.get(entry.id).name) for entry in row.capabilities)
    return replace(row, instructions=agent.instructions, capabilities=capabilities)


def definition_of_row(row: AgentRow) -> dict[str, Any]:  # JSON
    """Return a stored agent as the data of a file."""
    return _plain(row, [field for field in AGENT_FIELDS if field.in_file])


def _plain(row: AgentRow, fields: Iterable[AgentField]) -> dict[str, Any]:  # JSON
    plain: dict[str, Any] = {}
    for field in fields:
        if (value := wire_value(row, field)) is not None:
            is_list = field.kind == "capabilities"
            plain[field.name] = (
                [entry if isinstance(entry, str) else entry.plain() for entry in value] if is_list else value
            )
    return plain


def text_of(row: AgentRow) -> str:
    """Return a definition as JSON text for comparisons, because Python treats 1 and ``True`` as equal."""
    return json.dumps(definition_of_row(row), sort_keys=True)


def is_same(row: AgentRow, other: AgentRow) -> bool:
    """Return whether two stored agents have the same writable fields."""
    return json.dumps(plain_of(row), sort_keys=True) == json.dumps(plain_of(other), sort_keys=True)


def size_of(row: AgentRow) -> int:
    """Return the size of a definition as JSON, in bytes."""
    return len(to_json(definition_of_row(row)))


def plain_of(row: AgentRow) -> dict[str, Any]:  # JSON
    """Return the writable fields of a stored agent."""
    return _plain(row, AGENT_FIELDS)


def restored(row: AgentRow, status: AgentStatus) -> AgentInput:
    """Return the content of a version as input with the given status.

    Raises ``InvalidArguments`` if the content is no longer valid.
    """
    return _input({**plain_of(row), "status": status})


def patched(row: AgentRow, patch: Mapping[str, Any]) -> AgentInput:
    """Apply a JSON merge patch (RFC 7396) to an agent, and return the result.

    Raises ``InvalidArguments`` for an invalid result, and for an unknown member, even if its value is null.
    """
    current: dict[str, Any] = {**dict.fromkeys(_OPTIONAL), **plain_of(row)}
    # Clearing an unknown member is also an error: the name may be a typo.
    unknown = {name: None for name, value in patch.items() if value is None and name not in current}
    merged = merge_patch(current, patch) | unknown
    return _input(merged)


def _input(members: Mapping[str, Any]) -> AgentInput:
    try:
        return AgentInput.model_validate(members)
    except ValidationError as error:
        fields = validation_fields(error, list(AgentInput.model_fields), members)
        raise InvalidArguments(f"Invalid agent: {'; '.join(map(str, fields))}", fields=fields) from None


def merge_patch(target: Any, patch: Any) -> Any:  # JSON of every type
    """Apply a merge patch to JSON data: null removes a member, objects are merged, other values are replaced."""
    if not isinstance(patch, dict):
        return patch
    merged: dict[str, Any] = dict(cast("dict[str, Any]", target)) if isinstance(target, dict) else {}
    for name, value in cast("dict[str, Any]", patch).items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged
