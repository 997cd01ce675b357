"""The protocol of stored agents, which are created through capset instead of in code (spec 5, P4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from capset.stores.base.audit import Entry
from capset.stores.base.pages import Page, Query

AgentStatus = Literal["active", "archived"]


@dataclass(frozen=True, slots=True)
class CapabilityRow:
    """A capability that an agent uses, by id, with its presets, its config and the naming of its tools."""

    id: str
    presets: Mapping[str, bool] = field(default_factory=dict[str, bool])
    config: Mapping[str, Any] | None = None
    """JSON data, as the capability's config model accepts it."""
    prefix: str | None = None
    rename: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class AgentRow:
    """One agent. ``capabilities`` are in order of priority; ``version`` counts its changes from 1.

    ``static_hash`` is the hash of its composition when this version was written, and ``author`` the one who wrote it,
    such as ``user:ada``. ``static_context`` and ``allowance`` are JSON data. Times are ISO 8601 UTC.
    """

    id: str
    org: str | None
    name: str
    description: str
    system_prompt: str
    instructions: tuple[str, ...]
    capabilities: tuple[CapabilityRow, ...]
    tags: tuple[str, ...]
    status: AgentStatus
    version: int
    static_hash: str
    created_at: str
    updated_at: str
    model: str | None = None
    static_context: Mapping[str, Any] | None = None
    author: str | None = None
    allowance: Mapping[str, Any] | None = None
    """Limits for its sessions and runs, as serialised by ``definitions.allowances.Allowance``."""
    mcp_servers: Mapping[str, Any] | None = None
    """Its own MCP servers, by name, as serialised by ``wire.tool_sources.AgentServerShape``."""


@dataclass(frozen=True, slots=True)
class AgentField:
    """A writable field of a stored agent: its kind, whether it is optional, and whether files include it."""

    name: str
    kind: Literal["text", "texts", "object", "capabilities"]
    is_optional: bool = False
    in_file: bool = True


AGENT_FIELDS: Final = (
    AgentField("name", "text"),
    AgentField("description", "text"),
    AgentField("system_prompt", "text"),
    AgentField("instructions", "texts"),
    AgentField("capabilities", "capabilities"),
    AgentField("tags", "texts", in_file=False),
    AgentField("status", "text", in_file=False),
    AgentField("model", "text", is_optional=True),
    AgentField("static_context", "object", is_optional=True),
    AgentField("allowance", "object", is_optional=True),
    AgentField("mcp_servers", "object", is_optional=True),
)
"""The writable fields of a stored agent, for stores, versions, the wire, merge patches, diffs and the command line."""


@dataclass(frozen=True, slots=True)
class AgentQuery(Query):
    """A query for agents of one org, newest first."""

    org: str | None
    status: AgentStatus | None = None
    name: str | None = None
    text: str | None = None
    """Only agents with this in their name; the case of ASCII letters does not matter."""
    capabilities: tuple[str, ...] = ()
    """Only agents that use at least one of these capabilities, by id."""
    has_servers: bool = False
    """Only agents with their own MCP servers."""


@dataclass(frozen=True, slots=True)
class AgentPage(Page[AgentRow]):
    """A page of agents, and the number of agents on all pages."""

    total: int


@dataclass(frozen=True, slots=True)
class VersionQuery(Query[int]):
    """A query for versions of one agent, newest first."""

    org: str | None
    agent_id: str


class AgentStore(Protocol):
    """The stored agents with all their versions. Agents of other orgs are invisible."""

    async def create(self, row: AgentRow, *, act: Entry | None = None) -> None:
        """Store a new agent with its first version. Raises ``StoreError`` if its id is taken."""
        ...

    async def get(self, org: str | None, id: str) -> AgentRow | None:
        """Return an agent, or ``None``."""
        ...

    async def list(self, query: AgentQuery) -> AgentPage:
        """Return agents, newest first."""
        ...

    async def replace(self, row: AgentRow, *, act: Entry | None = None) -> bool:
        """Write the next version of an agent if it follows the current one; return whether it did.

        The current one is stored as a version too, by any writer.
        """
        ...

    async def version(self, org: str | None, id: str, version: int) -> AgentRow | None:
        """Return one version of an agent, or ``None``; ``updated_at`` is the time it was written."""
        ...

    async def versions(self, query: VersionQuery) -> Page[AgentRow, int]:
        """Return the versions of an agent, newest first, the current one included; none for a missing agent."""
        ...

    async def by_hash(self, org: str | None, static_hash: str) -> AgentRow | None:
        """Return the newest version with a static hash, of the newest agent that had it, or ``None``."""
        ...
