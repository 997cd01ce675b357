"""The stored and the written form of an agent (spec 5, P4, P7)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, cast

from pydantic import ValidationError

from capset.errors import InvalidArguments
from capset.schemas.validation_errors import validation_fields
from capset.stores.base import AgentRow, AgentStatus, CapabilityRow
from capset.wire.agents import AgentInput, CapabilityEntry, entry_of_row
from capset.wire.allowances import kept_allowance

_CHOSEN: Final = ("model", "static_context", "allowance")
"""The optional members of an agent."""


def filled(row: AgentRow, given: AgentInput) -> AgentRow:
    """Return a row with the given members, exactly as given."""
    return replace(
        row,
        name=given.name,
        description=given.description,
        system_prompt=given.system_prompt,
        instructions=tuple(given.instructions),
        capabilities=tuple(map(row_of, given.entries())),
        tags=tuple(dict.fromkeys(given.tags)),
        status=given.status,
        model=given.model,
        static_context=given.static_context or None,
        allowance=kept_allowance(given.allowance),
    )


def row_of(entry: CapabilityEntry) -> CapabilityRow:
    """Return the stored form of an entry."""
    return CapabilityRow(entry.id, entry.presets or {}, entry.config, entry.prefix, entry.rename or {})


def definition_of_row(row: AgentRow) -> dict[str, Any]:  # JSON
    """Return a stored agent in the form of an agent file."""
    texts = {name: getattr(row, name) for name in ("name", "description", "system_prompt")}
    capabilities = [one if isinstance(one, str) else one.plain() for one in map(entry_of_row, row.capabilities)]
    chosen = {name: value for name in _CHOSEN if (value := getattr(row, name)) is not None}
    return {**texts, "instructions": list(row.instructions), "capabilities": capabilities, **chosen}


def text_of(row: AgentRow) -> str:
    """Return a definition as text, for comparisons: to Python, 1 and true are equal."""
    return json.dumps(definition_of_row(row), sort_keys=True)


def plain_of(row: AgentRow) -> dict[str, Any]:  # JSON
    """Return the writable members of a stored agent."""
    return {**definition_of_row(row), "tags": list(row.tags), "status": row.status}


def restored(row: AgentRow, status: AgentStatus) -> AgentInput:
    """Return a version's content, to be written again with another status.

    Raises ``InvalidArguments`` if it is no longer valid.
    """
    return _input({**plain_of(row), "status": status})


def patched(row: AgentRow, patch: Mapping[str, Any]) -> AgentInput:
    """Return the result of applying a JSON merge patch to an agent (RFC 7396).

    Raises ``InvalidArguments`` for an invalid result, and for an unknown member, even where it is null.
    """
    there: dict[str, Any] = {**dict.fromkeys(_CHOSEN), **plain_of(row)}
    # Unknown members cannot be cleared either: the name may be a typo.
    unknown = {name: None for name, value in patch.items() if value is None and name not in there}
    merged = merge_patch(there, patch) | unknown
    return _input(merged)


def _input(given: Mapping[str, Any]) -> AgentInput:
    try:
        return AgentInput.model_validate(given)
    except ValidationError as error:
        fields = validation_fields(error, list(AgentInput.model_fields), given)
        raise InvalidArguments(f"Invalid agent: {'; '.join(map(str, fields))}", fields=fields) from None


def merge_patch(target: Any, patch: Any) -> Any:  # JSON of every type
    """Apply a merge patch to JSON data: null removes a member, objects are merged, all else is replaced."""
    if not isinstance(patch, dict):
        return patch
    merged: dict[str, Any] = dict(cast("dict[str, Any]", target)) if isinstance(target, dict) else {}
    for name, value in cast("dict[str, Any]", patch).items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged
