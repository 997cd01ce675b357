"""The stored definition of a session's agent, from which another process can reopen the session (spec 5, P4, P5)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Final

from capset.definitions.agents import Agent
from capset.definitions.blocks import Block
from capset.definitions.capabilities import config_data
from capset.definitions.parts import Part
from capset.definitions.references import AnyRef
from capset.schemas.strict_json import checked_bounds
from capset.schemas.validation_errors import SchemaMismatch

ONLY_IN_CODE: Final = "only_in_code"
"""The member of a definition that lists the parts it cannot express.

No agent file has it, so that an incomplete definition never passes for a complete one.
"""


def definition_of(block: Block) -> str:
    """Return an agent as the JSON text of an agent file, with ``only_in_code`` if parts of it cannot be expressed."""
    definition: dict[str, Any] = {
        "name": block.name,
        "description": block.description,
        "system_prompt": block.system_prompt,
        "instructions": list(block.instructions),
        "capabilities": [entry_of(one) for one in block.uses if not callable(one)],
    }
    if isinstance(block, Agent):
        definition |= own_of(block)
    if unsaid := list(_unsaid(block)):
        definition[ONLY_IN_CODE] = unsaid
    return json.dumps(definition, ensure_ascii=False)


def own_of(agent: Agent) -> dict[str, Any]:  # JSON
    """Return the model, the static context and the allowance of an agent, without those that are unset.

    A context that is not JSON data is left out too.
    """
    allowance = agent.allowance and agent.allowance.plain()
    said = {"model": agent.model, "static_context": _context(agent) or None, "allowance": allowance or None}
    return {name: value for name, value in said.items() if value is not None}


def entry_of(ref: AnyRef) -> str | dict[str, Any]:  # JSON
    """Return a reference as written in an agent file: a plain name, or an object with its options."""
    said = {
        "presets": dict(ref.presets) or None,
        "config": _config(ref),
        "prefix": ref.prefix,
        "rename": dict(ref.rename) if ref.rename else None,
    }
    chosen = {name: value for name, value in said.items() if value is not None}
    return {"id": ref.name, **chosen} if chosen else ref.name


def _unsaid(block: Block) -> Iterator[str]:
    """Yield the names of the parts that an agent file cannot express."""
    if type(block) is not Agent:
        yield f"a {block.kind} of its own"
    if isinstance(block, Agent) and _context(block) is None:
        yield "static_context"
    for surface in fields(Part):
        if surface.name not in ("instructions", "declared") and getattr(block.part, surface.name):
            yield surface.name
    if any(map(callable, block.uses)):
        yield "dynamic uses"
    for one in block.uses:
        if not callable(one) and one.base.origin is not None:
            yield f"the narrowed tools of {one.name}"
        if not callable(one) and one.config is not None and _config(one) is None:
            yield f"the config of {one.name}"


def _context(agent: Agent) -> dict[str, Any] | None:  # JSON
    try:
        return checked_bounds(dict(agent.static_context))
    except SchemaMismatch:
        return None


def _config(ref: AnyRef) -> dict[str, Any] | None:  # JSON
    try:
        return None if ref.config is None else config_data(ref.config)
    except ValueError:
        return None
