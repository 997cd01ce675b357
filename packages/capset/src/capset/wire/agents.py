"""An agent on the wire and in an agent file (spec 5, P4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Discriminator, Field, StrictBool, Tag

from capset.composition.compose import Composition
from capset.composition.conflicts import CompositionConflict
from capset.composition.resolve import MAX_CAPABILITIES
from capset.definitions.agents import MAX_MODEL, Agent
from capset.definitions.names import AGENT
from capset.definitions.tools.options import Effect
from capset.errors import Field as Misfit
from capset.evaluation.compare.differences import Diff
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.fingerprint.changes import Change
from capset.kernel.agent_definition import entry_of, own_of
from capset.stores.base import AGENT_FIELDS, AgentField, AgentRow, AgentStatus, CapabilityRow
from capset.wire.allowances import AllowanceShape
from capset.wire.diffs import ChangeShape, DiffShape, change_shapes, diff_shape
from capset.wire.errors import FieldShape
from capset.wire.shapes import Shape, Whole
from capset.wire.snapshots import SnapshotShape, snapshot_shape
from capset.wire.tool_sources import AgentServerShape, ApiShape, McpServerShape

Text = Annotated[str, Field(pattern=r"^[^\u0000]*$")]
"""Text that every database accepts: without NUL."""
MAX_SERVERS: Final = 8
"""The maximum number of MCP servers of one stored agent."""


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
        """Return the shortest equivalent entry: a plain id if nothing is chosen."""
        entry = self.model_copy(update={"presets": self.presets or None, "rename": self.rename or None})
        return self.id if entry == CapabilityEntry(id=self.id) else entry


def _kind(entry: Any) -> str:  # any value from a file
    return "an entry" if isinstance(entry, Mapping | CapabilityEntry) else "an id"


Entry = Annotated[
    Annotated[str, Tag("an id")] | Annotated[CapabilityEntry, Tag("an entry")],
    Discriminator(_kind),  # so that an error is about the intended form
]


class AgentShape(Shape):
    """The written form of an agent. The order of ``capabilities`` is their priority.

    ``model`` names the model to run the agent with; ``static_context`` is data for hosts, which no
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


class AgentFileShape(AgentShape):
    """An agent as a file describes it: the fields of stored agents, and ``agents``, others that it has as tools.

    One is the name of an installed agent, a path of another agent file as seen from this one, or an entry.
    ``mcp_servers`` declares MCP servers, ``apis`` APIs by their OpenAPI documents; ``mcp:NAME`` and ``api:NAME`` are
    the capabilities of their approved tools.
    """

    agents: list[str | SubAgentEntry] = Field(default_factory=list["str | SubAgentEntry"], max_length=MAX_CAPABILITIES)
    mcp_servers: dict[str, McpServerShape] = Field(default_factory=dict[str, McpServerShape])
    apis: dict[str, ApiShape] = Field(default_factory=dict[str, ApiShape])


class SubAgentEntry(Shape):
    """An agent that is a tool of another: an installed one, a file, or an agent that is written here.

    ``name`` and ``description`` are the agent's own if left out; ``effect`` is ``write``.
    """

    agent: str | AgentFileShape
    name: str | None = None
    description: str | None = None
    effect: Effect | None = None
    permissions: list[str] | None = None
    timeout: float | None = None


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
    mcp_servers: dict[str, AgentServerShape] | None = Field(
        default=None,
        max_length=MAX_SERVERS,
        description="MCP servers of its own, at URLs, by name: `mcp:NAME` among its capabilities. Only administrators "
        "add or change them.",
    )


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
    mcp_servers: dict[str, AgentServerShape] | None = None
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


def _entries(entries: Iterable[str | CapabilityEntry]) -> list[CapabilityEntry]:
    return [CapabilityEntry(id=entry) if isinstance(entry, str) else entry for entry in entries]


def entry_of_row(row: CapabilityRow) -> str | CapabilityEntry:
    """Return the written form of a stored agent's use of a capability."""
    config = None if row.config is None else dict(row.config)
    entry = CapabilityEntry(
        id=row.id, presets=dict(row.presets), config=config, prefix=row.prefix, rename=dict(row.rename)
    )
    return entry.short()


def agent_detail(row: AgentRow, notices: Iterable[str] = ()) -> AgentDetail:
    """Return the wire shape of a stored agent."""
    return AgentDetail(
        **{field.name: wire_value(row, field) for field in AGENT_FIELDS},
        id=row.id,
        version=row.version,
        static_hash=row.static_hash,
        author=row.author,
        created_at=row.created_at,
        updated_at=row.updated_at,
        notices=list(notices),
    )


def wire_value(row: AgentRow, field: AgentField) -> Any:  # of the field's own type
    """Return the value of a field of a stored agent, as it is written."""
    value = getattr(row, field.name)
    match field.kind:
        case "capabilities":
            return [entry_of_row(entry) for entry in row.capabilities]
        case "texts":
            return list(value)
        case "object":
            return None if value is None else dict(value)
        case "text":
            return value


def defined_agent_detail(composition: Composition) -> AgentDetail:
    """Return the wire shape of an agent defined in code."""
    agent = composition.block
    return AgentDetail(
        id=agent.name,
        name=agent.name,
        description=agent.description,
        system_prompt=agent.system_prompt,
        instructions=list(agent.instructions),
        capabilities=[_entry(entry_of(use)) for use in agent.uses if not callable(use)],
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


LAST: Final = 2**31 - 1
"""The highest possible version number."""


Version = Annotated[int, Field(ge=1, le=LAST), Whole]


class VersionShape(Shape):
    """One version of an agent: its number, from 1, what it was called, and its hash.

    ``created_at`` is when it was written, and ``author`` who wrote it, such as ``user:ada``, where that is known.
    """

    version: int
    name: str
    static_hash: str
    status: AgentStatus
    author: str | None = None
    created_at: str | None = None


class VersionPageShape(Shape):
    """Some versions of an agent, newest first, and the cursor of the next page, if there is one."""

    items: list[VersionShape]
    next: str | None = None


class RollbackInput(Shape):
    """The version whose content is to be written again, as the next version."""

    model_config = ConfigDict(strict=True)

    version: Version


class AgentDiffShape(Shape):
    """Two versions of an agent compared.

    ``fields`` are those that were written otherwise, whether a hash covers them or not; ``composition`` is what comes
    of it for the caller, ``null`` where one of the two cannot be composed any more, or has something of high risk
    that the present version has not and an administrator does not ask. ``notices`` say why, and what has gone of each.
    """

    before: int
    after: int
    fields: list[ChangeShape]
    composition: DiffShape | None
    notices: list[str]

    def plain(self) -> dict[str, Any]:
        """Return plain JSON data; unknown members are omitted, and a null is data."""
        return self.model_dump(mode="json", exclude_unset=True)


def version_shape(row: AgentRow) -> VersionShape:
    """Return the wire shape of one version of a stored agent."""
    return VersionShape(
        version=row.version,
        name=row.name,
        static_hash=row.static_hash,
        status=row.status,
        author=row.author,
        created_at=row.updated_at,
    )


def defined_version_shape(composition: Composition) -> VersionShape:
    """Return the wire shape of the single version of an agent defined in code."""
    return VersionShape(version=1, name=composition.block.name, static_hash=composition.static_hash, status="active")


def agent_diff_shape(
    before: int, after: int, changes: Iterable[Change], composed: Diff | None, notices: Iterable[str]
) -> AgentDiffShape:
    """Return the wire shape of a comparison of two versions."""
    return AgentDiffShape(
        before=before,
        after=after,
        fields=change_shapes(changes),
        composition=None if composed is None else diff_shape(composed),
        notices=list(notices),
    )


class ConflictShape(Shape):
    """Why two things that an agent would have do not go together, naming both, and how to mend it.

    ``capability`` is the one that does not go together with those before it, where it is one.
    """

    code: str
    message: str
    hint: str | None = None
    capability: str | None = None


class PreviewShape(Shape):
    """What an agent would be if it were written as it was given; nothing is kept.

    ``problems`` are fields that do not fit, and ``conflicts`` all between those that do; with neither, it is ``valid``,
    and ``snapshot`` is what the caller would have in a session of it. ``needs_admin`` names the high-risk capabilities
    that it enables: only an administrator may write it then, and for anybody else there is no snapshot. ``diff``
    compares a change with the agent as it is; ``after`` in it is the version that it would become.
    """

    valid: bool
    problems: list[FieldShape]
    conflicts: list[ConflictShape]
    needs_admin: list[str]
    snapshot: SnapshotShape | None = None
    diff: AgentDiffShape | None = None

    def plain(self) -> dict[str, Any]:
        """Return plain JSON data; absent members are omitted, and a null in ``diff`` is data."""
        plain = self.model_dump(mode="json", exclude_none=True, exclude={"diff"})
        return plain if self.diff is None else {**plain, "diff": self.diff.plain()}


def preview_shape(
    problems: Iterable[Misfit],
    conflicts: Iterable[CompositionConflict],
    needs_admin: Iterable[str],
    snapshot: Snapshot | None,
    diff: AgentDiffShape | None,
    *,
    is_valid: bool,
) -> PreviewShape:
    """Return the wire shape of a preview."""
    return PreviewShape(
        valid=is_valid,
        problems=[
            FieldShape(path=misfit.path, expected=misfit.expected, did_you_mean=misfit.did_you_mean)
            for misfit in problems
        ],
        conflicts=[
            ConflictShape(
                code=conflict.error.code,
                message=conflict.error.message,
                hint=conflict.error.hint,
                capability=conflict.capability,
            )
            for conflict in conflicts
        ],
        needs_admin=list(needs_admin),
        snapshot=None if snapshot is None else snapshot_shape(snapshot),
        diff=diff,
    )
