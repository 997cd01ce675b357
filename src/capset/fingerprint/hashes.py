"""The hashes themselves, each computed once for an immutable definition (spec 2, F13)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from capset.definitions.agents import Agent
from capset.definitions.capabilities import AnyTool, Capability
from capset.fingerprint.canonical import digest
from capset.fingerprint.payloads import (
    Payload,
    agent_payload,
    capability_payload,
    prompt_payload,
    runtime_payload,
    tool_payload,
)

# A memo over frozen values, not a registry: nothing can be looked up in it that the caller does not hold.
_TOOLS: WeakKeyDictionary[AnyTool, str] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class ToolRef:
    """A tool's name and hash: what a record, a link or a runtime hash says of a tool."""

    name: str
    hash: str

    @property
    def payload(self) -> Payload:
        """The reference as it stands inside another payload."""
        return {"name": self.name, "hash": self.hash}


def tool_hash(tool: AnyTool) -> str:
    """Return the hash of one tool, computed at first use."""
    known = _TOOLS.get(tool)
    if known is None:
        known = _TOOLS[tool] = digest(tool_payload(tool))
    return known


def capability_hash(capability: Capability) -> str:
    """Return the hash of one capability with its tools."""
    tools = [ToolRef(tool.name, tool_hash(tool)).payload for tool in capability.tools]
    return digest(capability_payload(capability, tools))


def static_hash(agent: Agent, capabilities: Sequence[Capability]) -> str:
    """Return the hash of an agent's definition; ``capabilities`` are those that contribute, in order."""
    references = [{"name": one.name, "hash": capability_hash(one)} for one in capabilities]
    return digest(agent_payload(agent, references))


def runtime_hash(tools: Iterable[ToolRef]) -> str:
    """Return the hash of exactly the tools in play."""
    return digest(runtime_payload(tool.payload for tool in tools))


def prompt_hash(system_prompt: str, instructions: Iterable[str]) -> str:
    """Return the hash of what the model is told, without rendered context."""
    return digest(prompt_payload(system_prompt, instructions))
