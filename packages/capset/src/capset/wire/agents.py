"""An agent on the wire, and in its stored definition (spec 5, P4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Discriminator, Field, StrictBool, Tag

from capset.composition.compose import Composition
from capset.composition.conflicts import CompositionConflict
from capset.composition.resolve import MAX_CAPABILITIES
from capset.definitions.agents import MAX_MODEL_CHARACTERS, Agent
from capset.definitions.names import AGENT
from capset.definitions.tools.options import Effect
from capset.errors import Field as Misfit
from capset.evaluation.compare.differences import Diff
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.fingerprint.changes import Change
from capset.kernel.agent_definition import agent_settings, entry_of
from capset.stores.base import AGENT_FIELDS, AgentField, AgentRow, AgentStatus, CapabilityRow
from capset.wire.allowances import AllowanceShape
from capset.wire.diffs import ChangeShape, DiffShape, change_shapes, diff_shape
from capset.wire.errors import FieldShape
from capset.wire.shapes import PageShape, Shape, SparseShape, StrictShape, WholeNumber
from capset.wire.snapshots import SnapshotShape, snapshot_shape
from capset.wire.tool_sources import AgentServerShape

Text = Annotated[str, Field(pattern=r"^[^\u0000]*$")]
"""Text without NUL, which every database accepts."""


class CapabilityEntry(Shape):
    """A capability that an agent uses, with options (spec 1, C1). A plain id is short for an entry without options."""

    id: str = Field(description="The name of the capability, or an alias of it.")
    presets: dict[str, StrictBool] | None = Field(
        default=None, description="The presets that are switched on (`true`) or off; the others keep their defaults."
    )
    config: dict[str, Any] | None = Field(default=None, description="Its configuration, validated by its own model.")
    prefix: str | None = Field(default=None, description="Text that is put before the name of each of its tools.")
    rename: dict[str, str] | None = Field(default=None, description="New names of its tools, by their original names.")

    def short(self) -> str | CapabilityEntry:
        """Return the shortest equivalent entry: a plain id if nothing is chosen."""
        entry = self.model_copy(update={"presets": self.presets or None, "rename": self.rename or None})
        return self.id if entry == CapabilityEntry(id=self.id) else entry


def _kind(entry: Any) -> str:  # any value from a file
    return "an entry" if isinstance(entry, Mapping | CapabilityEntry) else "an id"


Entry = Annotated[
    Annotated[str, Tag("an id")] | Annotated[CapabilityEntry, Tag("an entry")],
    Discriminator(_kind),  # so that errors are about the intended form
]


class AgentShape(Shape):
    """The written form of an agent. No hash covers ``model``, ``static_context`` and ``allowance``."""

    name: Annotated[str, Field(description="The agent's name.", json_schema_extra={"pattern": f"^{AGENT.pattern}$"})]
    description: str = Field(default="", description="Its purpose, by which people and other agents choose it.")
    system_prompt: str = Field(default="", description="The system prompt.")
    instructions: list[str] = Field(default_factory=list[str], description="Texts after the system prompt, in order.")
    capabilities: list[Entry] = Field(
        default_factory=list[Entry], description="The capabilities that it uses, in the order of their priority."
    )
    model: Annotated[Text, Field(min_length=1, max_length=MAX_MODEL_CHARACTERS)] | None = Field(
        default=None, description="The name of the model that runs it."
    )
    static_context: dict[str, Any] | None = Field(default=None, description="Data for hosts, which no model sees.")
    allowance: AllowanceShape | None = Field(default=None, description="What its sessions and runs may use.")

    def entries(self) -> list[CapabilityEntry]:
        """Return the capabilities in order, each as a ``CapabilityEntry``."""
        return _entries(self.capabilities)


class AgentDefinitionShape(AgentShape):
    """A complete agent as data: the fields of stored agents, and the agents that it can call as tools.

    An agent in ``agents`` is the name of an installed agent, or an entry. Definitions of sessions have this form.
    """

    agents: list[str | SubAgentEntry] = Field(
        default_factory=list["str | SubAgentEntry"],
        max_length=MAX_CAPABILITIES,
        description="The agents that it can call as tools.",
    )


class SubAgentEntry(Shape):
    """An agent that is a tool of another agent: an installed one, one in a file, or a definition in place."""

    agent: str | AgentDefinitionShape = Field(
        description="The name of an installed agent, the path of a file relative to this file, or a definition."
    )
    name: str | None = Field(default=None, description="The name of the tool; that of the agent, if left out.")
    description: str | None = Field(default=None, description="Its purpose; that of the agent, if left out.")
    effect: Effect | None = Field(default=None, description="`write`, if left out.")
    permissions: list[str] | None = Field(default=None, description="The permissions that a principal needs.")
    timeout: float | None = Field(default=None, description="The timeout of a call, in seconds.")


class AgentInput(AgentShape):
    """The fields of a stored agent that clients can write."""

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
        max_length=8,
        description="The agent's own MCP servers, at URLs, by name; `mcp:NAME` in `capabilities` uses one. Only "
        "administrators add or change them.",
    )


class AgentDetail(Shape):
    """An agent. If it is defined in code, it is ``read_only``, its id is its name, and it has no times.

    ``capabilities`` have the form in which they are written: a plain id without options, otherwise an object.
    ``version`` counts its changes; ``author`` made the current one, such as ``user:ada``, if known. ``notices`` name
    capabilities that are missing, deprecated or contribute nothing.
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
        """The capabilities in order, each as a ``CapabilityEntry``."""
        return _entries(self.capabilities)


class AgentPageShape(Shape):
    """A page of agents, the number of agents on all pages, and the cursor of the next page, if any."""

    items: list[AgentDetail]
    total: int
    next: str | None = None


def _entries(entries: Iterable[str | CapabilityEntry]) -> list[CapabilityEntry]:
    return [CapabilityEntry(id=entry) if isinstance(entry, str) else entry for entry in entries]


def entry_of_row(row: CapabilityRow) -> str | CapabilityEntry:
    """Return the written form of a capability that a stored agent uses."""
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
    """Return the written form of a field of a stored agent."""
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
        **(agent_settings(agent) if isinstance(agent, Agent) else {}),
        notices=list(composition.notices),
    )


def _entry(plain: str | dict[str, Any]) -> str | CapabilityEntry:  # JSON
    return plain if isinstance(plain, str) else CapabilityEntry.model_validate(plain)


MAX_VERSION: Final = 2**31 - 1
"""The highest possible version number."""


Version = Annotated[int, Field(ge=1, le=MAX_VERSION), WholeNumber]


class VersionShape(Shape):
    """One version of an agent: its number, from 1, its name and its hash.

    ``created_at`` is when it was written, and ``author`` who wrote it, such as ``user:ada``, if known.
    """

    version: int
    name: str
    static_hash: str
    status: AgentStatus
    author: str | None = None
    created_at: str | None = None


class VersionPageShape(PageShape[VersionShape]):
    """A page of an agent's versions, newest first, and the cursor of the next page, if any."""


class RollbackInput(StrictShape):
    """The version whose content is to become the next version."""

    version: Version


class AgentDiffShape(SparseShape):
    """A comparison of two versions of an agent.

    ``fields`` are the fields that differ, whether or not a hash covers them. ``composition`` compares what the versions
    give to the caller. It is ``null`` if one of them can no longer be composed, or has high-risk capabilities that the
    present version lacks while the caller is not an administrator. ``notices`` give the reason, and name what is
    missing in each version.
    """

    before: int
    after: int
    fields: list[ChangeShape]
    composition: DiffShape | None
    notices: list[str]


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
    """A conflict between two parts of an agent: the message names both, and the hint says how to resolve it.

    ``capability`` is the one that conflicts with those before it, if the conflict is about a capability.
    """

    code: str
    message: str
    hint: str | None = None
    capability: str | None = None


class PreviewShape(Shape):
    """A preview of an agent, which is not stored.

    ``problems`` are invalid fields, and ``conflicts`` are conflicts between the valid ones. Without either, the agent
    is ``valid``, and ``snapshot`` is what the caller would get in a session with it. ``needs_admin`` names the
    high-risk capabilities that it enables. If there are any, only an administrator may store it, and others get no
    snapshot. ``diff`` compares a changed agent with the stored one; its ``after`` is the version that the change would
    create.
    """

    valid: bool
    problems: list[FieldShape]
    conflicts: list[ConflictShape]
    needs_admin: list[str]
    snapshot: SnapshotShape | None = None
    diff: AgentDiffShape | None = None

    def plain(self) -> dict[str, Any]:
        """Return plain JSON data. Absent members are omitted; a null in ``diff`` is a value."""
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
