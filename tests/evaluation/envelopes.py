"""Envelopes of small agents, put together by hand of what ``evaluate`` gives."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from capset import Agent, Capability, Policy, Principal, Request, Tool, compose, evaluate
from capset.evaluation.envelope import (
    PolicyPart,
    PolicyResult,
    RuntimePart,
    SnapshotEnvelope,
    StaticPart,
    WireContext,
    WirePayload,
    WireTool,
)
from capset.evaluation.policies import ask_each
from capset.fingerprint.hashes import Ref, capability_hash, root_hash, tool_hash
from capset.fingerprint.links import create_link
from capset.fingerprint.payloads import agent_payload, capability_payload, root_payload, tool_payload

ANYONE = Principal("user-1", permissions=["notes:read", "notes:write"])


def envelope_of(
    agent: Agent,
    *,
    principal: Principal = ANYONE,
    env: Mapping[str, Any] | None = None,
    agent_id: str = "agent-1",
    has_static: bool = True,
    context: Mapping[str, Any] | None = None,
    invocation_hash: str | None = None,
    **policy: Any,
) -> SnapshotEnvelope:
    """Return the envelope of an agent that uses plain capabilities, with nothing chosen of them."""
    composition = compose(agent)
    snapshot = asyncio.run(evaluate(composition, principal=principal, env=env or {}))
    gates = {name: one.gates for name, one in composition.tools.items()}
    link = create_link(
        agent_id=agent_id,
        agent_name=agent.name,
        static_hash=snapshot.static_hash,
        prompt_hash=snapshot.prompt_hash,
        tool_refs=snapshot.tool_refs,
        invocation_hash=invocation_hash,
    )
    tools = tuple(
        WireTool(
            name=ref.name,
            hash=ref.hash,
            payload=tool_payload(snapshot.tools[ref.name].tool),
            policies=tuple(gate.id for gate in gates[ref.name]),
        )
        for ref in snapshot.tool_refs
    )
    return SnapshotEnvelope(
        static=_static(agent, composition.capabilities) if has_static else None,
        policy=PolicyPart(
            results=_results({gate for some in gates.values() for gate in some}, Request(env or {}, principal)),
            **policy,
        ),
        runtime=RuntimePart(
            link=link,
            tools=tools,
            system_prompt=agent.system_prompt,
            instructions=composition.instructions,
            toolkit_context=WireContext(agent_id=agent_id, agent_name=agent.name, env=env or {}),
        ),
        context=context,
    )


def _results(policies: Iterable[Policy], request: Request) -> tuple[PolicyResult, ...]:
    answers = asyncio.run(ask_each(sorted(policies, key=lambda one: one.id), request))
    return tuple(
        PolicyResult(id=policy.id, kind=decision.kind, reason=decision.reason or None) for policy, decision in answers
    )


def _refs(tools: Iterable[Tool[..., Any]]) -> list[Any]:
    return [Ref(tool.name, tool_hash(tool)).payload for tool in tools]


def _static(agent: Agent, capabilities: Iterable[Capability]) -> StaticPart:
    parts = [
        WirePayload(name=one.name, hash=capability_hash(one), payload=capability_payload(one, _refs(one.part.tools)))
        for one in capabilities
    ]
    root = root_hash(agent)
    payload = agent_payload(agent, [Ref(one.name, one.hash).payload for one in parts], root)
    if root is not None:
        parts.append(WirePayload(name="root", hash=root, payload=root_payload(agent, _refs(agent.part.tools))))
    return StaticPart(hash=compose(agent).static_hash, payload=payload, parts=tuple(parts))
