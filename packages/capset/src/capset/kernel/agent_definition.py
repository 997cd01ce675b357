"""The stored definition of a session's agent, from which another process can reopen the session (spec 5, P4, P5)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, cast

from pydantic_core import from_json

from capset.definitions.agents import Agent
from capset.definitions.blocks import Block
from capset.definitions.capabilities import dump_config
from capset.definitions.parts import Part
from capset.definitions.references import AnyRef
from capset.definitions.tools.definition import AnyTool, Tool
from capset.definitions.tools.options import CommonOptions
from capset.schemas.strict_json import copy_bounded
from capset.schemas.validation_errors import SchemaMismatch

ONLY_IN_CODE: Final = "only_in_code"
"""The member of a definition that lists the parts it cannot express.

No file may have it, so that an incomplete definition never passes for a complete one.
"""
_FILE_MEMBER: Final = "file"
"""The member with the path of the configuration file that declares what the agent needs beyond its definition."""


def definition_of(block: Block) -> str:
    """Return an agent as JSON text, with ``only_in_code`` if parts of it cannot be expressed."""
    definition: dict[str, Any] = {
        "name": block.name,
        "description": block.description,
        "system_prompt": block.system_prompt,
        "instructions": list(block.instructions),
        "capabilities": [entry_of(ref) for ref in block.uses if not callable(ref)],
    }
    if isinstance(block, Agent):
        definition |= agent_settings(block)
        if block.part.tools and all(map(_is_expressible, block.part.tools)):
            definition["agents"] = [_agent_entry(tool) for tool in block.part.tools]
    if inexpressible := list(_inexpressible_parts(block)):
        definition[ONLY_IN_CODE] = inexpressible
    return json.dumps(definition, ensure_ascii=False)


def with_file(definition: str, path: Path) -> str:
    """Return a definition that names the configuration file without which its sessions cannot be continued."""
    return json.dumps(json.loads(definition) | {_FILE_MEMBER: str(path)}, ensure_ascii=False)


def read_definition(definition: str) -> tuple[dict[str, Any], Path | None]:
    """Return a definition as the data of an agent, and the path of the configuration file that it names, if any."""
    data: dict[str, Any] = from_json(definition)
    file: str | None = data.pop(_FILE_MEMBER, None)
    return data, None if file is None else Path(file)


def agent_settings(agent: Agent) -> dict[str, Any]:  # JSON
    """Return the model, the static context and the allowance of an agent, as far as they are set.

    Omits a context that is not JSON data.
    """
    allowance = agent.allowance and agent.allowance.plain()
    settings = {"model": agent.model, "static_context": _context(agent) or None, "allowance": allowance or None}
    return {name: value for name, value in settings.items() if value is not None}


def entry_of(ref: AnyRef) -> str | dict[str, Any]:  # JSON
    """Return a reference as written in a file: a plain name, or an object with its options."""
    options = {
        "presets": dict(ref.presets) or None,
        "config": _config(ref),
        "prefix": ref.prefix,
        "rename": dict(ref.rename) if ref.rename else None,
    }
    chosen = {name: value for name, value in options.items() if value is not None}
    return {"id": ref.name, **chosen} if chosen else ref.name


def _is_expressible(member: object) -> bool:
    """Whether a tool is an agent, with no options but those that a definition can express."""
    if not isinstance(member, Tool) or not isinstance(member.block, Agent):
        return False
    defaults = {field.name: field.default for field in fields(Tool)}
    inexpressible_options = CommonOptions.__annotations__.keys() - {"permissions", "timeout"}
    is_plain = all(getattr(cast("object", member), name) == defaults[name] for name in inexpressible_options)
    return is_plain and not list(_inexpressible_parts(member.block))


def _agent_entry(tool: AnyTool) -> dict[str, Any]:  # JSON
    """Return the entry of a tool that is an agent, with the agent's whole definition."""
    assert tool.block is not None  # noqa: S101  # it is an agent's
    entry = {
        "agent": json.loads(definition_of(tool.block)),
        "name": tool.name,
        "description": tool.description,
        "effect": tool.effect,
        "permissions": sorted(tool.permissions) or None,
        "timeout": tool.timeout,
    }
    return {name: value for name, value in entry.items() if value is not None}


def _inexpressible_parts(block: Block) -> Iterator[str]:
    """Yield the names of the parts that a definition cannot express."""
    if type(block) is not Agent:
        yield f"a {block.kind} of its own"
    if isinstance(block, Agent) and _context(block) is None:
        yield "static_context"
    for surface in fields(Part):
        content: Any = getattr(block.part, surface.name)
        has_member = surface.name in ("instructions", "declared")
        has_agents = surface.name in ("tools", "members") and all(map(_is_expressible, content))
        if content and not has_member and not has_agents:
            yield surface.name
    if any(map(callable, block.uses)):
        yield "dynamic uses"
    for use in block.uses:
        if not callable(use) and use.base.origin is not None:
            yield f"the narrowed tools of {use.name}"
        if not callable(use) and use.config is not None and _config(use) is None:
            yield f"the config of {use.name}"


def _context(agent: Agent) -> dict[str, Any] | None:  # JSON
    try:
        return copy_bounded(dict(agent.static_context))
    except SchemaMismatch:
        return None


def _config(ref: AnyRef) -> dict[str, Any] | None:  # JSON
    try:
        return None if ref.config is None else dump_config(ref.config)
    except ValueError:
        return None
