"""A named definition of what one agent is: its prompt and its capabilities, in order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from capset.definitions.capabilities import Capability
from capset.definitions.names import AGENT, checked, checked_text, checked_texts
from capset.errors import DefinitionError


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True, init=False)
class Agent:
    """A system prompt, instructions and capabilities; the order of ``uses`` is their priority (spec 5, P4).

    Frozen, and told apart by identity; ``composition.static_hash`` says whether two are the same in substance.
    """

    name: str
    system_prompt: str
    instructions: tuple[str, ...]
    uses: tuple[Capability, ...]
    description: str

    def __init__(
        self,
        name: str,
        *,
        system_prompt: str = "",
        instructions: Iterable[str] = (),
        uses: Iterable[Capability] = (),
        description: str = "",
    ) -> None:
        """Check and freeze everything. Raises ``DefinitionError``, naming the agent."""
        owner = f"agent {name!r}"
        capabilities = tuple(uses)
        for capability in capabilities:
            if not isinstance(capability, Capability):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped callers
                raise DefinitionError(f"{owner}: uses takes Capability objects; got {capability!r}")
        store = object.__setattr__
        store(self, "name", checked("an agent's name", name, AGENT))
        store(self, "system_prompt", checked_text(f"{owner}: system_prompt", system_prompt))
        store(self, "instructions", checked_texts(f"{owner}: instructions", instructions))
        store(self, "uses", capabilities)
        store(self, "description", checked_text(f"{owner}: description", description))

    def __repr__(self) -> str:
        return f"Agent({self.name!r})"
