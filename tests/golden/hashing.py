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


def _equipped_payload(composition: Composition, found: dict[str, tuple[Mapping[str, Any], str]]) -> Mapping[str, Any]:
    """Build the agent's payload from those of its capabilities as they are used here, and keep those that differ."""
    hashes: dict[str, Ref] = {}
    for one in composition.chosen:
        parts = [part for _, part in one.parts]
        tools = dict.fromkeys(tool for part in parts for tool in part.tools)
        needed = dict.fromkeys(ref.base.name for ref in one.capability.uses if not callable(ref))
        payload = capability_payload(
            one.capability,
            [Ref(one.names[tool.name], tool_hash(tool)).payload for tool in tools],
            presets=one.presets,
            config=one.config,
            uses=[hashes[name].payload for name in needed],
        )
        name = one.capability.name
        hashes[name] = Ref(name, digest(payload))
        if hashes[name].hash != found[f"capability {name}"][1]:
            found[f"capability {name}, as used"] = payload, hashes[name].hash
    toolkit = root_hash(composition.block)
    return agent_payload(composition.block, [one.payload for one in hashes.values()], toolkit)


def _reference(member: Member, names: Mapping[str, str]) -> Mapping[str, Any]:
    if isinstance(member, Tool):
        return Ref(names.get(member.name, member.name), tool_hash(member)).payload
    return Ref(member.name, digest(_toolkit_payload(member, names))).payload


def _toolkit_payload(toolkit: AnyToolkit, names: Mapping[str, str]) -> Mapping[str, Any]:
    """Build a toolkit's payload from those of its members; ``names`` are its tools' names here, by their own."""
    if isinstance(toolkit, DynamicToolkit):
        return dynamic_toolkit_payload(toolkit)
    return toolkit_payload(toolkit, [_reference(one, names) for one in toolkit.members])


def _stocked(found: dict[str, tuple[Mapping[str, Any], str]]) -> None:
    """Add toolkits, a capability and an agent that have some, and an invocation."""
    found["tool send"] = tool_payload(send), tool_hash(send)
    for toolkit in TOOLKITS:
        payload = _toolkit_payload(toolkit, {})
        found[f"{payload['kind']} {toolkit.name}"] = payload, toolkit_hash(toolkit)
    used = compose(stocked)
    (one,) = used.chosen
    parts = [part for _, part in one.parts]
    members = [_reference(member, one.names) for part in parts for member in part.members]
    payload = capability_payload(shelf, members, presets=one.presets, prefix="s_", rename={"send": "ship"})
    found["capability shelf, as used"] = payload, digest(payload)
    own = [_reference(member, {}) for member in stocked.part.members]
    found["toolkit stocked"] = root_payload(stocked, own), str(root_hash(stocked))
    references = [Ref("shelf", digest(payload)).payload]
    found["agent stocked"] = agent_payload(stocked, references, str(root_hash(stocked))), used.static_hash
    for name, allowlist in (("all", ()), ("some", ("tenant", "at", "absent"))):
        context = invocation_payload(normalize_invocation(INVOCATION, allowlist))
        found[f"invocation {name}"] = context, str(invocation_hash(INVOCATION, allowlist))


def payloads() -> dict[str, tuple[Mapping[str, Any], str]]:
    """Return, for every subject by its name, what its hash covers and the hash that capset gives."""
    found: dict[str, tuple[Mapping[str, Any], str]] = {}
    for one in (*TOOLS, *TEXTS, *NUMBERS, *PROCESSORS):
        found[f"tool {one.name}"] = tool_payload(one), tool_hash(one)
    for capability in (empty, versioned, instructed, files, payments, retired, labelled, storied, syscall, *WITH_PARTS):
        parts = (capability.part, *(capability.presets[name].part for name in capability.default))
        tools = dict.fromkeys(tool for part in parts for tool in part.tools)
        references = [Ref(one.name, tool_hash(one)).payload for one in tools]
        found[f"capability {capability.name}"] = capability_payload(capability, references), capability_hash(capability)
    configs = {"measured": (measured, MEASURES), "labelled": (labelled, {"labels": LABELS})}
    for name, (capability, given) in configs.items():
        for key, config in given.items():
            payload = capability_payload(capability, [], config=config)
            found[f"capability {name} with {key}"] = payload, capability_hash(capability, config=config)
    used = compose(equipped)
    found["agent equipped"] = _equipped_payload(used, found), used.static_hash
    _stocked(found)
    toolkit = root_payload(equipped, [Ref(one.name, tool_hash(one)).payload for one in equipped.part.tools])
    found["toolkit equipped"] = toolkit, str(root_hash(equipped))
    for agent in (bare, prompted, full, polyglot):
        composition = compose(agent)
        references = [{"name": one.name, "hash": capability_hash(one)} for one in composition.capabilities]
        found[f"agent {agent.name}"] = agent_payload(agent, references), composition.static_hash
        prompt = prompt_payload(agent.system_prompt, composition.instructions)
        found[f"prompt {agent.name}"] = prompt, prompt_hash(agent.system_prompt, composition.instructions)
    for name, (agent, principal, env) in SNAPSHOTS.items():
        snapshot: Snapshot = asyncio.run(evaluate(compose(agent), principal=principal, env=env))
        payload = runtime_payload(reference.payload for reference in snapshot.tool_refs)
        assert snapshot.runtime_hash == runtime_hash(snapshot.tool_refs)
        found[f"runtime {name}"] = payload, snapshot.runtime_hash
        if agent is stocked:
            prompt = prompt_payload(agent.system_prompt, snapshot.instructions)
            found[f"prompt {name}"] = prompt, snapshot.prompt_hash
    return found


def fingerprints() -> dict[str, dict[str, str]]:
    """Return the same with the payloads as canonical text."""
    return {
        name: {"payload": canonical(payload).decode(), "hash": fingerprint}
        for name, (payload, fingerprint) in payloads().items()
    }
