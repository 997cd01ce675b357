"""An agent on the wire and in an agent file (spec 5, P4)."""

from __future__ import annotations

from pydantic import Field

from capset.wire.shapes import Shape


class CapabilityEntry(Shape):
    """A capability that an agent uses; a plain id is short for it."""

    id: str


class AgentShape(Shape):
    """What an agent file holds. The order of ``capabilities`` is their priority."""

    name: str
    description: str = ""
    system_prompt: str = ""
    instructions: list[str] = Field(default_factory=list)
    capabilities: list[str | CapabilityEntry] = Field(default_factory=list[str | CapabilityEntry])

    def capability_ids(self) -> list[str]:
        """Return the ids of the capabilities, in order."""
        return [entry if isinstance(entry, str) else entry.id for entry in self.capabilities]
