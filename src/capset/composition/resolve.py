"""Which capabilities an agent really has, in which order (spec 1, C7, C8; spec 5, P2)."""

from __future__ import annotations

from collections.abc import Sequence

from capset.definitions.agents import Agent
from capset.definitions.capabilities import Capability
from capset.errors import CapabilityConflict, DefinitionError

MAX_CAPABILITIES = 100
"""Spec 1, C11."""


def resolve(agent: Agent) -> tuple[tuple[Capability, ...], tuple[str, ...]]:
    """Return the capabilities that contribute, each once and in the agent's order, and what is worth telling.

    Raises ``CapabilityConflict`` for two capabilities under one name, however alike, and ``DefinitionError`` for more
    than 100.
    """
    if len(agent.uses) > MAX_CAPABILITIES:
        raise DefinitionError(
            f"agent {agent.name!r} uses {len(agent.uses)} capabilities; at most {MAX_CAPABILITIES} are allowed"
        )
    found: dict[str, Capability] = {}
    for capability in agent.uses:
        if found.setdefault(capability.name, capability) is not capability:
            raise CapabilityConflict(
                f"agent {agent.name!r} uses two different capabilities named {capability.name!r}",
                hint="use the same object twice, or give one of them another name",
            )
    return tuple(one for one in found.values() if one.contributes), _notices(tuple(found.values()))


def _notices(capabilities: Sequence[Capability]) -> tuple[str, ...]:
    sayings = {
        "deprecated": "is deprecated: it still contributes, but plan to replace it",
        "coming_soon": "is coming soon: it contributes nothing yet",
        "retired": "is retired: it contributes nothing any more",
    }
    return tuple(f"capability {one.name!r} {sayings[one.status]}" for one in capabilities if one.status in sayings)
