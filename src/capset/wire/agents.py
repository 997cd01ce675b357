"""An agent on the wire and in an agent file (spec 5, P4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Discriminator, Field, StrictBool, Tag

from capset.composition.compose import Composition
from capset.composition.resolve import MAX_CAPABILITIES
from capset.definitions.agents import MAX_MODEL, Agent
from capset.definitions.names import AGENT
from capset.kernel.agent_definition import entry_of, own_of
from capset.stores.base import AgentRow, AgentStatus, CapabilityRow
from capset.wire.allowances import AllowanceShape, allowance_shape
from capset.wire.shapes import Shape

Text = Annotated[str, Field(pattern=r"^[^\u0000]*$")]
"""Text that every database takes: without NUL."""


class CapabilityEntry(Shape):
    """A capability that an agent uses, and how (spec 1, C1); a plain id is short for one that is used as it is.

    ``presets`` are switched on (true) or off, beside those that are on anyway. ``config`` is what the capability's own
    model takes. ``prefix`` stands before the name of each of its tools; ``rename`` gives a tool, by its own name,
    another one.
    """

    id: str
    presets: dict[str, StrictBool] | None = None
    config: dict[str, Any] | None = None
    prefix: str | None = None
    rename: dict[str, str] | None = None

    def short(self) -> str | CapabilityEntry:
        """Return the shortest entry that says the same: a plain id where nothing is chosen."""
        entry = self.model_copy(update={"presets": self.presets or None, "rename": self.rename or None})
        return self.id if entry == CapabilityEntry(id=self.id) else entry


def _kind(entry: Any) -> str:  # whatever a file holds there
    return "an entry" if isinstance(entry, Mapping | CapabilityEntry) else "an id"


Entry = Annotated[
    Annotated[str, Tag("an id")] | Annotated[CapabilityEntry, Tag("an entry")],
    Discriminator(_kind),  # so that an error speaks of the one that was meant
]


class AgentShape(Shape):
    """What an agent file holds. The order of ``capabilities`` is their priority.

    ``model`` names the model that whoever runs the agent is to use; ``static_context`` is data for hosts, which no
    model sees; ``allowance`` is what its sessions and runs may use. No hash covers the three.
    """

    name: Annotated[str, Field(json_schema_extra={"pattern": f"^{AGENT.pattern}$"})]
    description: str = ""
    system_prompt: str = ""
    instructions: list[str] = Field(default_factory=list)
    capabilities: list[Entry] = Field(default_factory=list[Entry])
    model: Annotated[Text, Field(min_length=1, max_length=MAX_MODEL)] | None = None
    static_context: dict[str, Any] | None = None
    allowance: AllowanceShape | None = None

    def entries(self) -> list[CapabilityEntry]:
        """Return the capabilities in order, each as an entry."""
        return _entries(self.capabilities)


class AgentInput(AgentShape):
    """What can be written of a stored agent."""

    model_config = ConfigDict(strict=True)

    name: Annotated[str, Field(pattern=f"^{AGENT.pattern}$")]
    description: Annotated[Text, Field(max_length=4_000)] = ""
    system_prompt: Annotated[Text, Field(max_length=200_000)] = ""
    instructions: list[Annotated[Text, Field(max_length=20_000)]] = Field(default_factory=list[str], max_length=100)
    capabilities: list[Entry] = Field(default_factory=list[Entry], max_length=MAX_CAPABILITIES)
    tags: list[Annotated[Text, Field(min_length=1, max_length=100)]] = Field(default_factory=list[str], max_length=50)
    status: AgentStatus = "active"


class AgentDetail(Shape):
    """An agent as it is kept. One that is defined in code is ``read_only``, has its name as its id, and no times.

    ``capabilities`` can be written again as they are: a plain id where nothing is chosen, else an entry.
    ``version`` counts its changes; ``author`` is who made this one, such as ``user:ada``, where that is known.
    ``notices`` say which of its capabilities are gone, deprecated or give nothing.
    """

    id: str
    name: str
    description: str
    system_prompt: str
    instructions: list[str]
    capabilities: list[Entry]
    tags: list[str]
    status: AgentStatus
    version: int
    static_hash: str
    model: str | None = None
    static_context: dict[str, Any] | None = None
    allowance: AllowanceShape | None = None
    created_at: str | None = None
    updated_at: str | None = None
    author: str | None = None
    read_only: bool = False
    notices: list[str] = Field(default_factory=list)

    @property
    def capability_entries(self) -> list[CapabilityEntry]:
        """The capabilities in order, each as an entry."""
        return _entries(self.capabilities)


class AgentPageShape(Shape):
    """Some agents, how many there are on all pages, and the cursor of the next page, if there is one."""

    items: list[AgentDetail]
    total: int
    next: str | None = None


def _entries(given: Iterable[str | CapabilityEntry]) -> list[CapabilityEntry]:
    return [CapabilityEntry(id=entry) if isinstance(entry, str) else entry for entry in given]


def entry_of_row(row: CapabilityRow) -> str | CapabilityEntry:
    """Return how a stored agent uses a capability, as it is written."""
    config = None if row.config is None else dict(row.config)
    entry = CapabilityEntry(
        id=row.id, presets=dict(row.presets), config=config, prefix=row.prefix, rename=dict(row.rename)
    )
    return entry.short()


def agent_detail(row: AgentRow, notices: Iterable[str] = ()) -> AgentDetail:
    """Return the wire shape of a stored agent."""
    return AgentDetail(
        id=row.id,
        name=row.name,
        description=row.description,
        system_prompt=row.system_prompt,
        instructions=list(row.instructions),
        capabilities=[entry_of_row(one) for one in row.capabilities],
        tags=list(row.tags),
        status=row.status,
        version=row.version,
        static_hash=row.static_hash,
        model=row.model,
        static_context=None if row.static_context is None else dict(row.static_context),
        allowance=allowance_shape(row.allowance),
        author=row.author,
        created_at=row.created_at,
        updated_at=row.updated_at,
        notices=list(notices),
    )


def defined_agent_detail(composition: Composition) -> AgentDetail:
    """Return the wire shape of an agent that is defined in code."""
    agent = composition.block
    return AgentDetail(
        id=agent.name,
        name=agent.name,
        description=agent.description,
        system_prompt=agent.system_prompt,
        instructions=list(agent.instructions),
        capabilities=[_entry(entry_of(one)) for one in agent.uses if not callable(one)],
        tags=[],
        status="active",
        version=1,
        static_hash=composition.static_hash,
        read_only=True,
        **(own_of(agent) if isinstance(agent, Agent) else {}),
        notices=list(composition.notices),
    )


def _entry(plain: str | dict[str, Any]) -> str | CapabilityEntry:  # JSON
    return plain if isinstance(plain, str) else CapabilityEntry.model_validate(plain)
