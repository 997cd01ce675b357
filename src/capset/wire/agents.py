"""An agent on the wire and in an agent file (spec 5, P4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from capset.wire.shapes import Shape


class CapabilityEntry(Shape):
    """A capability that an agent uses; a plain id is short for it."""

    id: str


def _kind(entry: Any) -> str:  # whatever a file holds there
    return "an entry" if isinstance(entry, Mapping | CapabilityEntry) else "an id"


Entry = Annotated[
    Annotated[str, Tag("an id")] | Annotated[CapabilityEntry, Tag("an entry")],
    Discriminator(_kind),  # so that an error speaks of the one that was meant
]


class AgentShape(Shape):
    """What an agent file holds. The order of ``capabilities`` is their priority."""

    name: str
    description: str = ""
    system_prompt: str = ""
    instructions: list[str] = Field(default_factory=list)
    capabilities: list[Entry] = Field(default_factory=list[Entry])

    def capability_ids(self) -> list[str]:
        """Return the ids of the capabilities, in order."""
        return [entry if isinstance(entry, str) else entry.id for entry in self.capabilities]
