"""How an agent uses a capability, as JSON text: once for every store, so that all give back the same."""

from __future__ import annotations

import json
from typing import Any

from capset.stores.base import CapabilityRow


def entry_of(row: CapabilityRow) -> str | None:
    """Return all but a row's id as JSON text, or ``None`` for a plain id. Raises ``ValueError`` for what is no JSON."""
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
    """Return the row of an id and its entry, as ``entry_of`` made it."""
    return CapabilityRow(id, **json.loads(entry)) if entry else CapabilityRow(id)
