"""Shapes for operators: health, databases, API keys, configuration checks, the demo (spec 5, P12–P14, P30)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from capset.definitions.governance.limits import format_window
from capset.definitions.principals import Attributes
from capset.definitions.tools.options import Effect
from capset.kernel.governance.consumption import Consumption
from capset.stores.base import KeyRow
from capset.wire.allowances import AllowanceShape
from capset.wire.audit import AuditPageShape, VerificationShape
from capset.wire.shapes import PageShape, Shape, SparseShape, StrictShape


class HealthShape(Shape):
    """The server is healthy. If it is not, the response is a problem."""

    status: Literal["ok"]


class SigningShape(Shape):
    """Whether the server signs the log, with the id of its key, or the reason why it does not."""

    signs: bool
    key: str | None = None
    reason: str | None = None


class ReadyShape(HealthShape):
    """The server is ready. If it is not, the response is a problem.

    ``capabilities`` maps the ids of capabilities that depend on the machine to what they work with here. ``sources``
    maps the ids of the configuration's MCP servers and APIs whose tools cannot be used to what they need; they do not
    make the server unready.
    """

    signing: SigningShape
    capabilities: dict[str, dict[str, str]] = Field(default_factory=dict[str, dict[str, str]])
    sources: dict[str, str] = Field(default_factory=dict[str, str])


class StepShape(Shape):
    """A migration. ``beside_writers`` says whether writers can continue while it runs."""

    revision: str
    does: str
    beside_writers: bool


class UpgradeShape(Shape):
    """An upgrade: the revisions before (absent if the database was empty) and after. ``done`` is false for a plan."""

    before: str | None = None
    after: str
    done: bool
    steps: list[StepShape]


class DatabaseCheckShape(Shape):
    """The result of a check. ``problems`` are sentences; ``verification`` is present if requested.

    ``notes`` are sentences about what could not be compared.
    """

    ok: bool
    revision: str | None = None
    head: str
    problems: list[str]
    notes: list[str] | None = None
    verification: VerificationShape | None = None


class BackupShape(Shape):
    """A backup: its file and its size in bytes."""

    file: str
    bytes: int


class RestorationShape(Shape):
    """The last record of a restored backup, and how many approvals and open requests the restore ended."""

    last: int
    approvals: int


class InterfaceCallShape(Shape):
    """A call through one of the server's interfaces (``door``), and its record."""

    door: str
    tool: str
    outcome: str
    runtime_hash: str
    record: str


class GovernedCallShape(Shape):
    """A call in one of the last parts of the demo: why it was refused, if it was, and its approval request."""

    tool: str
    code: str | None = None
    approval: str | None = None
    record: str


class DemoShape(Shape):
    """The result of the demo: its files, the audit trail (newest first), its verification, and what went wrong.

    ``research`` is the path of the report of the web part. ``doors``, ``oversight`` and ``turn`` are the calls of the
    last three parts, in order. Each is ``None`` if its extras are not installed.
    """

    folder: str
    report: str | None
    research: str | None
    files: int
    size_bytes: int
    skipped: list[str]
    records: AuditPageShape
    verification: VerificationShape
    surprises: list[str]
    doors: list[InterfaceCallShape] | None = None
    oversight: list[GovernedCallShape] | None = None
    turn: list[GovernedCallShape] | None = None


class ConfigInput(StrictShape):
    """The text of a configuration file, at most 262,144 characters, and its format."""

    content: Annotated[str, Field(max_length=262_144)]
    format: Literal["yaml", "json", "toml"]


class ProblemShape(Shape):
    """An error or a warning, with its line (from 1), the path of the member, and the action."""

    line: int | None
    path: str
    action: str | None
    message: str


class ActionCheck(Shape):
    """A preview of an action. ``source`` names its handler or ``CAPABILITY.TOOL``."""

    name: str
    title: str | None
    description: str
    effect: Effect
    permissions: list[str]
    limits: list[str]
    approval: str
    source: str
    line: int


class ConfigCheckShape(SparseShape):
    """All problems, and a preview of what would be served if there are none; the output of ``capset check --json``."""

    valid: bool
    problems: list[ProblemShape]
    warnings: list[ProblemShape]
    agent: str | None = None
    capabilities: list[str] | None = None
    actions: list[ActionCheck] | None = None
    allowance: AllowanceShape | None = None


class KeyShape(Shape):
    """An API key, without its secret. Times are ISO 8601 UTC.

    ``attributes`` are the principal's; those with names of secrets are masked. ``allowance`` is what the principal may
    use with this key. ``makers`` are the principals who made the key, and those who made their keys. For approvals,
    they count as its principal.
    """

    id: str
    name: str
    org: str | None = None
    principal: str
    principal_kind: str
    permissions: list[str]
    scopes: list[str]
    created_at: str
    expires_at: str | None = None
    revoked_at: str | None = None
    agent: str | None = None
    attributes: dict[str, str | int | float | bool | None] = Field(default_factory=dict[str, Any])
    allowance: AllowanceShape | None = None
    makers: list[str] = Field(default_factory=list[str])


class KeyPageShape(PageShape[KeyShape]):
    """A page of keys, newest first, and the cursor of the next page, if any."""


class KeyInput(StrictShape):
    """A key to create, for a limited time, within the creator's organisation, permissions and allowance.

    ``kind`` is the kind of the principal. ``expires`` is a number of hours or days: ``12h``, ``90d``. ``agent`` is the
    agent that ``/mcp`` serves to this key. ``org`` defaults to the creator's.
    """

    name: Annotated[str, Field(min_length=1, max_length=200)]
    principal: Annotated[str, Field(min_length=1, max_length=200)]
    kind: Literal["user", "agent", "org"] = "user"
    org: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    permissions: Annotated[list[str], Field(max_length=200)] = Field(default_factory=list[str])
    scopes: Annotated[list[str], Field(min_length=1, max_length=200)] | None = None
    attributes: dict[str, str | int | float | bool | None] = Field(default_factory=dict[str, Any])
    allowance: AllowanceShape | None = None
    agent: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    expires: Annotated[str, Field(pattern=r"^[1-9]\d{0,4}[hd]$")] = "90d"


class ServerShape(Shape):
    """The answering server: its version, the kind of its store, and whether it works without keys (``insecure``)."""

    version: str
    store: str
    insecure: bool


class WhoamiShape(Shape):
    """The caller as the server sees it, and what its credential is valid for.

    ``credential`` is ``key``, ``token`` or ``none``; ``key`` is the key's id. ``permissions`` are those of the
    principal and those that every principal has on this server. ``attributes`` with names of secrets are masked.
    ``tools`` are the only tools that its scopes allow it to call; if absent, its scopes do not restrict tools.
    ``parts`` are the parts of the server that the credential is valid for, as paths; ``""`` is the whole server.
    """

    principal: str
    kind: str
    org: str | None = None
    on_behalf_of: str | None = None
    permissions: list[str]
    attributes: dict[str, str | int | float | bool | None]
    allowance: AllowanceShape | None = None
    scopes: list[str]
    tools: list[str] | None = None
    credential: Literal["key", "token", "none"]
    key: str | None = None
    expires_at: str | None = None
    agent: str | None = None
    parts: list[str]
    server: ServerShape


class PrincipalShape(Shape):
    """A principal that has keys or sessions. ``keys`` are up to 20 of its newest valid keys.

    Permissions, attributes and allowance belong to the keys, and each key has its own.
    """

    id: str
    kind: str
    last_session_at: str | None = None
    keys: list[KeyShape]


class PrincipalPageShape(PageShape[PrincipalShape]):
    """A page of principals by id and kind, and the cursor of the next page, if any.

    ``is_partial`` says that the organisation has more keys than were searched. Then principals that have no sessions
    and only older keys are not listed.
    """

    is_partial: bool


class OrgShape(Shape):
    """An organisation, and its numbers of keys, stored agents and sessions; ``10000`` means that many or more.

    The name ``""`` stands for everything that belongs to no organisation.
    """

    org: str
    keys: int
    agents: int
    sessions: int


class OrgPageShape(PageShape[OrgShape]):
    """A page of organisations by name, and the cursor of the next page, if any."""


class ConsumptionShape(Shape):
    """A limit, and how much of it has been used.

    ``subject`` is what the limit applies to, and ``resource`` what is counted: ``calls``, their ``cost``, or model
    usage (``model_tokens``, ``model_cost``, …). ``window`` is a duration such as ``1h``, absent for a budget. ``per``
    says whose calls count together. ``used`` and ``left`` are absent if each process of the server counts separately.
    """

    subject: str
    resource: str
    per: str
    window: str | None = None
    scope: str
    most: float
    used: float | None = None
    left: float | None = None


class UsageShape(Shape):
    """How much a principal, or one of its sessions, has used of its limits; empty if nothing is limited."""

    principal: str
    kind: str
    org: str | None = None
    session: str | None = None
    at: str
    items: list[ConsumptionShape]


class NewKeyShape(KeyShape):
    """A new key with its secret, which is shown only this once and stored as a hash."""

    key: str


def consumption_shape(consumption: Consumption) -> ConsumptionShape:
    """Return the wire shape of a limit and its usage."""
    window = None if consumption.window is None else format_window(consumption.window)
    remaining = None if consumption.used is None else max(0.0, consumption.most - consumption.used)
    return ConsumptionShape(
        subject=consumption.subject,
        resource=consumption.resource,
        per=consumption.per,
        window=window,
        scope=consumption.scope,
        most=consumption.most,
        used=consumption.used,
        left=remaining,
    )


def key_shape(row: KeyRow) -> KeyShape:
    """Return the wire shape of a key."""
    return KeyShape(**_key_members(row))


def new_key_shape(row: KeyRow, key: str) -> NewKeyShape:
    """Return the wire shape of a newly created key."""
    return NewKeyShape(**_key_members(row), key=key)


def _key_members(row: KeyRow) -> dict[str, Any]:  # texts and lists of texts
    values = {name: getattr(row, name) for name in KeyShape.model_fields}
    attributes = Attributes(row.attributes).masked()
    lists = {name: list(getattr(row, name)) for name in ("permissions", "scopes", "makers")}
    return {**values, **lists, "attributes": attributes}
