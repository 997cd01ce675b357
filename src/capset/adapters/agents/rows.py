"""A stored agent as it is kept, and as it is written (spec 5, P4, P7)."""

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
"""The members that an agent may leave out."""


def filled(row: AgentRow, given: AgentInput) -> AgentRow:
    """Return a row with everything that is given, as it is given."""
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
    """Return how an entry is kept."""
    return CapabilityRow(entry.id, entry.presets or {}, entry.config, entry.prefix, entry.rename or {})


def definition_of_row(row: AgentRow) -> dict[str, Any]:  # JSON
    """Return a stored agent as an agent file says it."""
    texts = {name: getattr(row, name) for name in ("name", "description", "system_prompt")}
    capabilities = [one if isinstance(one, str) else one.plain() for one in map(entry_of_row, row.capabilities)]
    chosen = {name: value for name in _CHOSEN if (value := getattr(row, name)) is not None}
    return {**texts, "instructions": list(row.instructions), "capabilities": capabilities, **chosen}


def text_of(row: AgentRow) -> str:
    """Return a definition as text, by which two are told apart: to Python, 1 and true are equal."""
    return json.dumps(definition_of_row(row), sort_keys=True)


def plain_of(row: AgentRow) -> dict[str, Any]:  # JSON
    """Return all that can be written of a stored agent."""
    return {**definition_of_row(row), "tags": list(row.tags), "status": row.status}


def restored(row: AgentRow, status: AgentStatus) -> AgentInput:
    """Return what was written of a version, to be written again with another status.

    Raises ``InvalidArguments`` for what does not fit any more.
    """
    return _input({**plain_of(row), "status": status})


def patched(row: AgentRow, patch: Mapping[str, Any]) -> AgentInput:
    """Return what a JSON merge patch makes of an agent (RFC 7396).

    Raises ``InvalidArguments`` for what does not fit, and for a member that an agent has not, even where it is null.
    """
    there: dict[str, Any] = {**dict.fromkeys(_CHOSEN), **plain_of(row)}
    # What there is not cannot be cleared either: it may be a slip of the pen.
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
    """Return what a merge patch makes of JSON data: null removes a member, an object is merged, all else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged: dict[str, Any] = dict(cast("dict[str, Any]", target)) if isinstance(target, dict) else {}
    for name, value in cast("dict[str, Any]", patch).items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged
