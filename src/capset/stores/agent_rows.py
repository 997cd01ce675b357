"""Rows of stored agents as JSON text, shared by all stores so that they return equal rows."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from capset.stores.base import AGENT_FIELDS, AgentRow, CapabilityRow


def entry_of(row: CapabilityRow) -> str | None:
    """Return all but a row's id as JSON text, or ``None`` for a plain id. Raises ``ValueError`` if it is not JSON."""
    entry: dict[str, Any] = {}  # JSON of any kind
    if row.presets:
        entry["presets"] = dict(row.presets)
    if row.config is not None:
        entry["config"] = dict(row.config)
    if row.prefix is not None:
        entry["prefix"] = row.prefix
    if row.rename:
        entry["rename"] = dict(row.rename)
    return json.dumps(entry, allow_nan=False) if entry else None


def capability_row(id: str, entry: str | None) -> CapabilityRow:
    """Return the row of an id and its entry, as made by ``entry_of``."""
    return CapabilityRow(id, **json.loads(entry)) if entry else CapabilityRow(id)


_OPTIONAL: Final = [field.name for field in AGENT_FIELDS if field.is_optional]


def version_text(row: AgentRow) -> str:
    """Return the fields of a row that a version may change and that have no column of their own, as JSON text.

    Raises ``ValueError`` for values outside JSON.
    """
    kept: dict[str, Any] = {}
    for field in AGENT_FIELDS:
        value: Any = getattr(row, field.name)
        match field.kind:
            case "capabilities":
                kept[field.name] = [[one.id, entry_of(one)] for one in value]
            case "texts":
                kept[field.name] = list(value)
            case "text" | "object":
                kept[field.name] = value
    return json.dumps(kept, allow_nan=False)


def version_row(
    agent: AgentRow, text: str, *, version: int, static_hash: str, author: str | None, written_at: str
) -> AgentRow:
    """Return an agent as of the version that ``version_text`` made this text of."""
    kept: dict[str, Any] = dict.fromkeys(_OPTIONAL) | json.loads(text)  # older texts lack newer fields
    for field in AGENT_FIELDS:
        if field.kind == "capabilities":
            kept[field.name] = tuple(capability_row(name, entry) for name, entry in kept[field.name])
        elif field.kind == "texts":
            kept[field.name] = tuple(kept[field.name])
    return replace(agent, **kept, version=version, static_hash=static_hash, author=author, updated_at=written_at)


def copied(row: AgentRow) -> AgentRow:
    """Return a row that shares no mutable value with this one."""
    return version_row(
        row,
        version_text(row),
        version=row.version,
        static_hash=row.static_hash,
        author=row.author,
        written_at=row.updated_at,
    )
