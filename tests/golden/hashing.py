"""What a hash covers of each subject, and the hash that capset gives."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from capset import Composition, Principal, Tool, compose
from capset.definitions.tools.toolkits import AnyToolkit, DynamicToolkit, Member
from capset.evaluation.evaluate import evaluate
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.fingerprint.canonical import canonical, digest
from capset.fingerprint.hashes import (
    Ref,
    capability_hash,
    invocation_hash,
    prompt_hash,
    root_hash,
    runtime_hash,
    tool_hash,
    toolkit_hash,
)
from capset.fingerprint.invocations import normalize_invocation
from capset.fingerprint.payloads import (
    agent_payload,
    capability_payload,
    dynamic_toolkit_payload,
    invocation_payload,
    prompt_payload,
    root_payload,
    runtime_payload,
    tool_payload,
    toolkit_payload,
)
from tests.golden.numbers import MEASURES, NUMBERS, measured
from tests.golden.parts import WITH_PARTS, equipped
from tests.golden.processors import PROCESSORS, syscall
from tests.golden.subjects import TOOLS, bare, empty, files, full, instructed, payments, prompted, retired, versioned
from tests.golden.texts import LABELS, TEXTS, labelled, polyglot, storied
from tests.golden.toolkits import INVOCATION, TOOLKITS, send, shelf, stocked

LITTLE = Principal("user-1", permissions={"files:delete"}, org="acme")
MUCH = Principal("agent-1", permissions={"files:write", "files:delete", "pay:send"}, org="acme", kind="agent")
SNAPSHOTS: Final = {
    "bare": (bare, LITTLE, {}),
    "full, little": (full, LITTLE, {}),
    "full, much": (full, MUCH, {}),
    "full, much, late": (full, MUCH, {"hour": 22}),
    "equipped": (equipped, MUCH, {}),
    "stocked": (stocked, MUCH, {}),
    "stocked, without exports": (stocked, MUCH, {"exports": False}),
}


def _equipped_payload(composition: Composition, entries: dict[str, tuple[Mapping[str, Any], str]]) -> Mapping[str, Any]:
    """Build the agent's payload from those of its capabilities as they are used here, and keep those that differ."""
    hashes: dict[str, Ref] = {}
    for choice in composition.capability_uses:
        parts = [part for _, part in choice.parts]
        tools = dict.fromkeys(tool for part in parts for tool in part.tools)
        needed = dict.fromkeys(ref.base.name for ref in choice.capability.uses if not callable(ref))
        payload = capability_payload(
            choice.capability,
            [Ref(choice.names[tool.name], tool_hash(tool)).payload for tool in tools],
            presets=choice.presets,
            config=choice.config,
            uses=[hashes[name].payload for name in needed],
        )
        name = choice.capability.name
        hashes[name] = Ref(name, digest(payload))
        if hashes[name].hash != entries[f"capability {name}"][1]:
            entries[f"capability {name}, as used"] = payload, hashes[name].hash
    toolkit = root_hash(composition.block)
    return agent_payload(composition.block, [ref.payload for ref in hashes.values()], toolkit)


def _reference(member: Member, names: Mapping[str, str]) -> Mapping[str, Any]:
    if isinstance(member, Tool):
        return Ref(names.get(member.name, member.name), tool_hash(member)).payload
    return Ref(member.name, digest(_toolkit_payload(member, names))).payload


def _toolkit_payload(toolkit: AnyToolkit, names: Mapping[str, str]) -> Mapping[str, Any]:
    """Build a toolkit's payload from those of its members; ``names`` are its tools' names here, by their own."""
    if isinstance(toolkit, DynamicToolkit):
        return dynamic_toolkit_payload(toolkit)
    return toolkit_payload(toolkit, [_reference(member, names) for member in toolkit.members])


def _stocked(entries: dict[str, tuple[Mapping[str, Any], str]]) -> None:
    """Add toolkits, a capability and an agent that have some, and an invocation."""
    entries["tool send"] = tool_payload(send), tool_hash(send)
    for toolkit in TOOLKITS:
        payload = _toolkit_payload(toolkit, {})
        entries[f"{payload['kind']} {toolkit.name}"] = payload, toolkit_hash(toolkit)
    used = compose(stocked)
    (choice,) = used.capability_uses
    parts = [part for _, part in choice.parts]
    members = [_reference(member, choice.names) for part in parts for member in part.members]
    payload = capability_payload(shelf, members, presets=choice.presets, prefix="s_", rename={"send": "ship"})
    entries["capability shelf, as used"] = payload, digest(payload)
    root_members = [_reference(member, {}) for member in stocked.part.members]
    entries["toolkit stocked"] = root_payload(stocked, root_members), str(root_hash(stocked))
    references = [Ref("shelf", digest(payload)).payload]
    entries["agent stocked"] = agent_payload(stocked, references, str(root_hash(stocked))), used.static_hash
    for name, allowlist in (("all", ()), ("some", ("tenant", "at", "absent"))):
        context = invocation_payload(normalize_invocation(INVOCATION, allowlist))
        entries[f"invocation {name}"] = context, str(invocation_hash(INVOCATION, allowlist))


def payloads() -> dict[str, tuple[Mapping[str, Any], str]]:
    """Return, for every subject by its name, what its hash covers and the hash that capset gives."""
    entries: dict[str, tuple[Mapping[str, Any], str]] = {}
    for subject in (*TOOLS, *TEXTS, *NUMBERS, *PROCESSORS):
        entries[f"tool {subject.name}"] = tool_payload(subject), tool_hash(subject)
    for capability in (empty, versioned, instructed, files, payments, retired, labelled, storied, syscall, *WITH_PARTS):
        parts = (capability.part, *(capability.presets[name].part for name in capability.default))
        tools = dict.fromkeys(tool for part in parts for tool in part.tools)
        references = [Ref(tool.name, tool_hash(tool)).payload for tool in tools]
        entries[f"capability {capability.name}"] = (
            capability_payload(capability, references),
            capability_hash(capability),
        )
    configs = {"measured": (measured, MEASURES), "labelled": (labelled, {"labels": LABELS})}
    for name, (capability, variants) in configs.items():
        for key, config in variants.items():
            payload = capability_payload(capability, [], config=config)
            entries[f"capability {name} with {key}"] = payload, capability_hash(capability, config=config)
    used = compose(equipped)
    entries["agent equipped"] = _equipped_payload(used, entries), used.static_hash
    _stocked(entries)
    toolkit = root_payload(equipped, [Ref(tool.name, tool_hash(tool)).payload for tool in equipped.part.tools])
    entries["toolkit equipped"] = toolkit, str(root_hash(equipped))
    for agent in (bare, prompted, full, polyglot):
        composition = compose(agent)
        references = [{"name": member.name, "hash": capability_hash(member)} for member in composition.capabilities]
        entries[f"agent {agent.name}"] = agent_payload(agent, references), composition.static_hash
        prompt = prompt_payload(agent.system_prompt, composition.instructions)
        entries[f"prompt {agent.name}"] = prompt, prompt_hash(agent.system_prompt, composition.instructions)
    for name, (agent, principal, env) in SNAPSHOTS.items():
        snapshot: Snapshot = asyncio.run(evaluate(compose(agent), principal=principal, env=env))
        payload = runtime_payload(reference.payload for reference in snapshot.tool_refs)
        assert snapshot.runtime_hash == runtime_hash(snapshot.tool_refs)
        entries[f"runtime {name}"] = payload, snapshot.runtime_hash
        if agent is stocked:
            prompt = prompt_payload(agent.system_prompt, snapshot.instructions)
            entries[f"prompt {name}"] = prompt, snapshot.prompt_hash
    return entries


def fingerprints() -> dict[str, dict[str, str]]:
    """Return the same with the payloads as canonical text."""
    return {
        name: {"payload": canonical(payload).decode(), "hash": fingerprint}
        for name, (payload, fingerprint) in payloads().items()
    }
