"""What each hash covers: plain mappings that anybody can build again and hash (spec 2, F3–F9).

Hooks, handlers, timeouts, ids and times are never in a payload (F11). A key whose feature the definition does not use
stands with its empty value, so using the feature later moves only the hashes of those who use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from capset.definitions.agents import Agent
from capset.definitions.capabilities import AnyTool, Capability

Payload = Mapping[str, Any]
"""JSON data; its values are of every JSON type."""


def tool_payload(tool: AnyTool) -> Payload:
    """Spec 2, F3."""
    payload: dict[str, Any] = {
        "kind": "tool",
        "name": tool.name,
        "description": tool.description,
        "schema": tool.arguments.json_schema,
        "output": tool.output.json_schema,
        "instructions": [],
        "effect": tool.effect,
        "idempotent": False,
        "permissions": sorted(tool.permissions),
        "approval": "auto",
        "limits": [],
        "policies": sorted(policy.id for policy in tool.policies),
    }
    if tool.policies:
        payload["policyBindings"] = [
            {"id": policy.id, "executeBinding": "live", "phase": "both"}
            for policy in sorted(tool.policies, key=lambda policy: policy.id)
        ]
    return payload


def capability_payload(capability: Capability, tools: Sequence[Payload]) -> Payload:
    """Spec 2, F6; ``tools`` are the ``{name, hash}`` of its tools."""
    payload: dict[str, Any] = {
        "kind": "capability",
        "name": capability.name,
        "presets": [],
        "config": None,
        "instructions": list(capability.instructions),
        "context": [],
        "resources": [],
        "state": {},
        "files": [],
        "policies": [],
        "tools": _by_name(tools),
        "uses": [],
        "dynamicUses": 0,
    }
    if capability.version is not None:
        payload["version"] = capability.version
    return payload


def agent_payload(agent: Agent, capabilities: Sequence[Payload]) -> Payload:
    """Spec 2, F7; ``capabilities`` are the ``{name, hash}`` of what contributes, in order. Name and id stay out."""
    return {
        "kind": "agent",
        "root": None,
        "capabilities": list(capabilities),
        "systemPrompt": agent.system_prompt,
        "instructions": list(agent.instructions),
    }


def runtime_payload(tools: Iterable[Payload]) -> Payload:
    """Spec 2, F8; ``tools`` are the ``{name, hash}`` of exactly the tools in play."""
    return {"kind": "runtime", "tools": _by_name(tools)}


def prompt_payload(system_prompt: str, instructions: Iterable[str]) -> Payload:
    """Spec 2, F9; ``instructions`` are the capabilities' in their order, then the agent's."""
    return {"kind": "prompt", "systemPrompt": system_prompt, "instructions": list(instructions)}


def _by_name(references: Iterable[Payload]) -> list[Payload]:
    return sorted(references, key=lambda reference: reference["name"])
