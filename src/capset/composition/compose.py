"""From an agent to everything that it could ever be given: the first arrow of the straight way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from capset.composition.merge import Installed, merge_tools
from capset.composition.render import render_system
from capset.composition.resolve import resolve
from capset.definitions.agents import Agent
from capset.definitions.capabilities import Capability
from capset.fingerprint.hashes import static_hash


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Composition:
    """An agent with everything merged and every conflict settled; made by ``compose()``.

    ``capabilities`` are those that contribute, in order; ``notices`` say what is deprecated or contributes nothing.
    ``static_hash`` covers what a model or a gate could see of the definition, 64 hexadecimal digits.
    """

    agent: Agent
    capabilities: tuple[Capability, ...]
    tools: Mapping[str, Installed]
    notices: tuple[str, ...]
    static_hash: str

    @property
    def instructions(self) -> tuple[str, ...]:
        """The capabilities' instructions in order, then the agent's own."""
        contributed = (text for capability in self.capabilities for text in capability.instructions)
        return (*contributed, *self.agent.instructions)

    @property
    def system_text(self) -> str:
        """The whole text that a model gets as its system prompt."""
        return render_system(self.agent, self.capabilities)


def compose(agent: Agent) -> Composition:
    """Merge an agent's capabilities. Pure: equal definitions give equal results in every process.

    Raises ``CapabilityConflict``, ``ToolNameConflict`` or ``PolicyConflict``, each naming both contributors.
    """
    capabilities, notices = resolve(agent)
    tools = merge_tools(capabilities)
    return Composition(agent, capabilities, tools, notices, static_hash(agent, capabilities))
