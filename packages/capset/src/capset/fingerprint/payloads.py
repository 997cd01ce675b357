"""The payloads behind each hash: plain mappings that anyone can rebuild and hash (spec 2, F3–F10, F35).

Hooks, handlers, timeouts, ids and times are never in a payload (F11). If a definition does not use a feature, the
feature's key is empty or absent, so a new feature changes only the hashes of definitions that use it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from capset.definitions.blocks import Block
from capset.definitions.capabilities import AnyCapability
from capset.definitions.governance.limits import Limit
from capset.definitions.governance.policies import Policy
from capset.definitions.model_context import ContextEntry, ContextMessage
from capset.definitions.parts import Part
from capset.definitions.resources import AnyResource, Documents, state_schema
from capset.definitions.tools.definition import AnyTool
from capset.definitions.tools.toolkits import AnyToolkit, DynamicToolkit, Toolkit, toolkits_in
from capset.errors import DefinitionError
from capset.fingerprint.canonical import canonical
from capset.fingerprint.sets import sorted_sets

Payload = Mapping[str, Any]
"""JSON data; its values have any JSON type."""


def tool_payload(tool: AnyTool) -> Payload:
    """Return the payload of a tool."""
    payload: dict[str, Any] = {
        "kind": "tool",
        "name": tool.name,
        "description": tool.description,
        "schema": tool.arguments.hash_input,
        "output": tool.output.hash_input,
        "instructions": sorted(tool.instructions),
        "effect": tool.effect,
        "idempotent": tool.idempotent,
        "permissions": sorted(tool.permissions),
        "approval": tool.approval if isinstance(tool.approval, str) else {"dynamic": _function_name(tool.approval)},
        "limits": _limits(tool.limits),
        "policies": _ids(tool.policies),
    }
    if tool.examples:
        payload["examples"] = [dict(example) for example in tool.examples]
    if tool.policies:
        payload["policyBindings"] = _bindings(tool.policies)
    if tool.version is not None:
        payload["version"] = tool.version
    if tool.cost is not None:
        payload["cost"] = tool.cost
    if tool.credential is not None:
        payload["credential"] = tool.credential
    if tool.contract is not None:
        payload["inbound"] = tool.contract.inbound.hash_input
        payload["outbound"] = tool.contract.outbound.hash_input
    return payload


def toolkit_payload(toolkit: Toolkit, members: Iterable[Payload]) -> Payload:
    """Return the payload of a toolkit. ``members`` are the ``{name, hash}`` of its tools (names here) and toolkits."""
    return _toolkit("toolkit", toolkit) | {"members": _by_name(members)}


def dynamic_toolkit_payload(toolkit: DynamicToolkit) -> Payload:
    """Return the payload of a dynamic toolkit, whose members are in no static hash."""
    return _toolkit("dynamicToolkit", toolkit)


def _toolkit(kind: str, toolkit: AnyToolkit) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": toolkit.name,
        "instructions": list(toolkit.instructions),
        "policies": _ids(toolkit.policies),
        "policyBindings": _bindings(toolkit.policies),
    }


def capability_payload(
    capability: AnyCapability,
    members: Iterable[Payload],
    *,
    presets: Sequence[str] | None = None,
    config: BaseModel | None = None,
    uses: Sequence[Payload] = (),
    with_base: bool = True,
    prefix: str = "",
    rename: Mapping[str, str] = MappingProxyType({}),
) -> Payload:
    """Return the payload of a capability with these presets on, by default its own.

    ``members`` are the ``{name, hash}`` of its toolkits and of its tools, under their names here; ``uses`` those of its
    dependencies. ``policyBindings`` has its own policies whose binding or phase is not the default. ``with_base`` is
    false if only presets are added to a capability already present. ``prefix`` and ``rename`` are those of the
    reference. They are included if tools are made at run time, whose names no member shows.
    """
    active_presets = list(capability.default if presets is None else presets)
    parts = ([capability.part] if with_base else []) + [capability.presets[name].part for name in active_presets]
    files = {path: content for part in parts for path, content in part.files.items()}
    payload: dict[str, Any] = {
        "kind": "capability",
        "name": capability.name,
        "presets": active_presets,
        "config": None if config is None else _config(capability, config),
        "instructions": [text for part in parts for text in part.instructions],
        "context": [_context(entry) for part in parts for entry in part.context],
        "resources": _resources(resource for part in parts for resource in part.resources),
        "state": _state(parts),
        "files": [
            {"path": path, "digest": hashlib.sha256(content).hexdigest()} for path, content in sorted(files.items())
        ],
        "policies": sorted({policy.id for part in parts for policy in part.policies}),
        "tools": _by_name(members),
        "uses": list(uses),
        "dynamicUses": len({use for use in capability.uses if callable(use)}),
    }
    if preset_policies := [
        _preset_policies(name, capability.presets[name].part)
        for name in active_presets
        if capability.presets[name].part.policies
    ]:
        payload["presetPolicies"] = preset_policies
    policies = {policy for part in parts for policy in part.policies}
    if unusual := [policy for policy in policies if (policy.binding, policy.phase) != ("live", "both")]:
        payload["policyBindings"] = _bindings(unusual)
    if capability.version is not None:
        payload["version"] = capability.version
    if capability.limits:
        payload["limits"] = _limits(capability.limits)
    if (prefix or rename) and any(
        isinstance(toolkit, DynamicToolkit) for part in parts for toolkit in toolkits_in(part.members)
    ):
        payload["names"] = {"prefix": prefix, "rename": dict(rename)}
    return payload


def root_payload(block: Block, members: Iterable[Payload]) -> Payload:
    """Return the payload of a block's own toolkit: the tools, toolkits and policies that it declares itself."""
    return {
        "kind": "toolkit",
        "name": "root",
        "instructions": [],
        "policies": _ids(block.part.policies),
        "policyBindings": _bindings(block.part.policies),
        "members": _by_name(members),
    }


def agent_payload(
    agent: Block, capabilities: Sequence[Payload], root: str | None = None, children: Sequence[Payload] = ()
) -> Payload:
    """Return the payload of an agent. ``capabilities`` are the ``{name, hash}`` of the contributing ones, in order.

    Name and id are left out. ``root`` is the hash of the agent's own toolkit, if it declares any tool or policy itself.
    ``children`` are the ``{name, hash}`` of the blocks that its tools run; without any, the key is absent.
    """
    payload: dict[str, Any] = {
        "kind": "agent",
        "root": root,
        "capabilities": list(capabilities),
        "systemPrompt": agent.system_prompt,
        "instructions": list(agent.instructions),
    }
    return {**payload, "children": _by_name(children)} if children else payload


def block_payload(
    block: Block, capabilities: Sequence[Payload], root: str | None, children: Sequence[Payload]
) -> Payload:
    """Return the payload of a block that is not an agent. ``children`` are the ``{name, hash}`` of every block it runs.

    ``plan`` says in which order and how it runs them.
    """
    return {
        **agent_payload(block, capabilities, root),
        "kind": "block",
        "type": block.kind,
        "name": block.name,
        "input": block.input and block.input.hash_input,
        "output": block.output and block.output.hash_input,
        "plan": block.plan,
        "children": _by_name(children),
    }


def runtime_payload(tools: Iterable[Payload]) -> Payload:
    """Return the payload of a runtime. ``tools`` are the ``{name, hash}`` of exactly the tools in play."""
    return {"kind": "runtime", "tools": _by_name(tools)}


def prompt_payload(system_prompt: str, instructions: Iterable[str]) -> Payload:
    """Return the payload of a prompt. ``instructions`` are, in order, the capabilities', the agent's, the toolkits'."""
    return {"kind": "prompt", "systemPrompt": system_prompt, "instructions": list(instructions)}


def invocation_payload(invocation: Mapping[str, Any]) -> Payload:
    """Return the payload of an invocation, which must be normalised; see ``normalize_invocation``."""
    return {"kind": "invocation", "context": dict(invocation)}


def code_payload(files: Mapping[str, str]) -> Payload:
    """Return the payload of code. ``files`` has the SHA-256 of each file's bytes, by its path below the root."""
    return {"kind": "code", "files": [{"path": path, "digest": digest} for path, digest in sorted(files.items())]}


def _function_name(function: object) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _by_name(references: Iterable[Payload]) -> list[Payload]:
    return sorted(references, key=lambda reference: (reference["name"], reference["hash"]))


def _limits(limits: Iterable[Limit]) -> list[Payload]:
    payloads = (
        {"requests": limit.requests, "window": limit.window, "per": limit.per}
        | ({} if limit.scope == "shared" else {"scope": limit.scope})
        for limit in limits
    )
    return sorted(payloads, key=canonical)


def _ids(policies: Iterable[Policy]) -> list[str]:
    return sorted(policy.id for policy in policies)


def _bindings(policies: Iterable[Policy]) -> list[Payload]:
    ordered = sorted(policies, key=lambda policy: policy.id)
    return [{"id": policy.id, "executeBinding": policy.binding, "phase": policy.phase} for policy in ordered]


def _preset_policies(preset: str, part: Part) -> Payload:
    """Return a preset's own policies and the tools that they apply to, which are not all tools of the capability."""
    return {"preset": preset, "policies": _ids(part.policies), "tools": sorted(member.name for member in part.members)}


def _context(entry: ContextEntry) -> Any:  # of any JSON type
    if entry.function is None:
        return _static(entry.value)
    payload: Any = {"dynamic": entry.name}
    for key in reversed(entry.keys):
        payload = {"tags": [[key, payload]]}
    return payload


def _static(value: Any) -> Any:
    match value:
        case ContextMessage():
            return {"role": value.role, "content": value.content}
        case Mapping():
            # As pairs, since the model sees their order.
            return {"tags": [[key, _static(member)] for key, member in cast("Mapping[Any, Any]", value).items()]}
        case list() | tuple():
            return [_static(member) for member in cast("Sequence[Any]", value)]
        case _:
            return value


def _resources(resources: Iterable[AnyResource | Documents]) -> list[Payload]:
    """Return each resource once, by scope and name: their order is irrelevant."""
    return [
        {
            "name": resource.name,
            "scope": resource.scope,
            "schema": None if isinstance(resource, Documents) else resource.schema.hash_input,
        }
        for resource in sorted(dict.fromkeys(resources), key=lambda resource: (resource.scope, resource.name))
    ]


def _state(parts: Iterable[Part]) -> Mapping[str, Any]:
    schemas: dict[str, list[Any]] = {}
    for part in parts:
        for scope, model in part.state.items():
            schemas.setdefault(scope, []).append(state_schema(model).hash_input)
    return schemas


def _config(capability: AnyCapability, config: BaseModel) -> Any:
    """Return a config as JSON data with its sets sorted, since their order differs from process to process."""
    try:
        data = sorted_sets(config, config.model_dump(mode="json", warnings="error"))
        canonical(data)
    except (PydanticSerializationError, ValueError) as error:
        raise DefinitionError(f"capability {capability.name!r}: its config has no JSON form to hash: {error}") from None
    return data
