"""Shapes for operators: health, databases, API keys, checks of configurations, the demo (spec 5, P12–P14, P30)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from capset.definitions.governance.limits import written_window
from capset.definitions.principals import Attributes
from capset.definitions.tools.options import Effect
from capset.kernel.governance.consumption import Consumption
from capset.stores.base import KeyRow
from capset.wire.allowances import AllowanceShape
from capset.wire.audit import AuditPageShape, VerificationShape
from capset.wire.shapes import Shape


class HealthShape(Shape):
    """It is well; where it is not, a problem is answered."""

    status: Literal["ok"]


class SigningShape(Shape):
    """Whether the server signs the log: the id of its key, or the reason why it does not."""

    signs: bool
    key: str | None = None
    reason: str | None = None


class ReadyShape(HealthShape):
    """It is ready; where it is not, a problem is answered.

    ``capabilities`` says what those that depend on the machine work with here, by their ids.
    """

    signing: SigningShape
    capabilities: dict[str, dict[str, str]] = Field(default_factory=dict[str, dict[str, str]])


class StepShape(Shape):
    """One migration; ``beside_writers`` says whether those who write go on while it runs."""

    revision: str
    does: str
    beside_writers: bool


class UpgradeShape(Shape):
    """The revisions before and after, no ``before`` for an empty database; ``done`` is false for a plan."""

    before: str | None = None
    after: str
    done: bool
    steps: list[StepShape]


class DatabaseCheckShape(Shape):
    """The findings of a check; ``problems`` are sentences, ``verification`` is there if it was asked for.

    ``notes`` are sentences about what could not be compared.
    """

    ok: bool
    revision: str | None = None
    head: str
    problems: list[str]
    notes: list[str] | None = None
    verification: VerificationShape | None = None


class BackupShape(Shape):
    """The file that was written, and how many bytes it has."""

    file: str
    bytes: int


class RestorationShape(Shape):
    """The last record of the backup, and how many approvals and open requests ended when it was restored."""

    last: int
    approvals: int


class DoorShape(Shape):
    """A call that came in by one of the server's doors, and the record that it left."""

    door: str
    tool: str
    outcome: str
    runtime_hash: str
    record: str


class OversightShape(Shape):
    """A call of the last part: how it was refused, if it was, and the request for an approval that it led to."""

    tool: str
    code: str | None = None
    approval: str | None = None
    record: str


class DemoShape(Shape):
    """Where things were put, what came in, the trail (newest first), whether it holds, and what went wrong.

    ``research`` is where the report of the part about the web was put; ``doors``, ``oversight`` and ``turn`` are the
    calls of the last three parts, in their order. Each is ``None`` where the extras for it are not installed.
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
    doors: list[DoorShape] | None = None
    oversight: list[OversightShape] | None = None
    turn: list[OversightShape] | None = None


class ConfigInput(Shape):
    """The text of a configuration file, at most 262,144 letters, and what it is written in."""

    model_config = ConfigDict(strict=True)

    content: Annotated[str, Field(max_length=262_144)]
    format: Literal["yaml", "json", "toml"]


class ProblemShape(Shape):
    """What is wrong, or worth a second look: on which line, from 1, at which member, in which action."""

    line: int | None
    path: str
    action: str | None
    message: str


class ActionCheck(Shape):
    """An action as it would be served. ``source`` is its handler, or ``CAPABILITY.TOOL``."""

    name: str
    title: str | None
    description: str
    effect: Effect
    permissions: list[str]
    limits: list[str]
    approval: str
    source: str
    line: int


class ConfigCheckShape(Shape):
    """Everything that is wrong; where that is nothing, what would be served, too. ``capset check --json`` prints it."""

    valid: bool
    problems: list[ProblemShape]
    warnings: list[ProblemShape]
    agent: str | None = None
    capabilities: list[str] | None = None
    actions: list[ActionCheck] | None = None
    allowance: AllowanceShape | None = None

    def plain(self) -> dict[str, Any]:
        """Return plain JSON data: a null is data, and unset members are omitted."""
        return self.model_dump(mode="json", exclude_unset=True)


class KeyShape(Shape):
    """A key, without what must be kept secret; times are ISO 8601 UTC.

    ``attributes`` are the principal's, and masked where their names are those of secrets.
    ``allowance`` is what the principal may use by it. ``makers`` are the principals who made it, and who made theirs:
    where requests are approved, they count as its principal.
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


class KeyPageShape(Shape):
    """Keys, newest first, and the cursor of the next page, if there is one."""

    items: list[KeyShape]
    next: str | None = None


class KeyInput(Shape):
    """A key to be made: of at most the maker's organisation, permissions and allowance, for a bounded time.

    ``kind`` is what the principal is. ``expires`` is a number of hours or days: ``12h``, ``90d``. ``agent`` is the one
    that ``/mcp`` leads to. Without an ``org`` it is the maker's.
    """

    model_config = ConfigDict(strict=True)

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
    """The server that answers: its version, the kind of its store, and whether it asks for no keys (``insecure``)."""

    version: str
    store: str
    insecure: bool


class WhoamiShape(Shape):
    """The caller, as the server knows it, and what its credential is good for.

    ``credential`` is ``key``, ``token`` or ``none``, and ``key`` the key's id. ``permissions`` are those of the
    principal, with those that every principal has here; ``attributes`` are masked where their names are those of
    secrets. ``tools`` are the only ones that it may call by its scopes; absent, its scopes set no such bound. ``parts``
    are the parts of the server that the credential is for, as paths: ``""`` is all of it.
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
    """A principal that has keys or sessions; ``keys`` are its newest ones that are valid, up to 20.

    They have its permissions, attributes and allowance: each key states its own.
    """

    id: str
    kind: str
    last_session_at: str | None = None
    keys: list[KeyShape]


class PrincipalPageShape(Shape):
    """Principals by id and kind, and the cursor of the next page, if there is one.

    ``is_partial`` says that the organisation has more keys than are looked at: then a principal without sessions, whose
    keys are older, is not listed.
    """

    items: list[PrincipalShape]
    next: str | None = None
    is_partial: bool


class OrgShape(Shape):
    """An organisation, and how many keys, stored agents and sessions it has; ``10000`` means that many or more.

    What belongs to no organisation is under the name ``""``.
    """

    org: str
    keys: int
    agents: int
    sessions: int


class OrgPageShape(Shape):
    """Organisations by name, and the cursor of the next page, if there is one."""

    items: list[OrgShape]
    next: str | None = None


class ConsumptionShape(Shape):
    """An amount that is limited, and what has been used of it.

    ``subject`` is what the limit is on, ``resource`` what is counted: ``calls``, their ``cost``, or what models used
    (``model_tokens``, ``model_cost``, …). ``window`` is such as ``1h``, absent for a budget; ``per`` says whose calls
    count together. ``used`` and ``left`` are absent where each process of the server counts for itself.
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
    """The use that a principal, or one of its sessions, has made of its limits; empty where nothing is limited."""

    principal: str
    kind: str
    org: str | None = None
    session: str | None = None
    at: str
    items: list[ConsumptionShape]


class NewKeyShape(KeyShape):
    """A key that was just made, with its secret: it is shown this once, and kept hashed only."""

    key: str


def consumption_shape(consumption: Consumption) -> ConsumptionShape:
    """Return the wire shape of what was used of a limit."""
    window = None if consumption.window is None else written_window(consumption.window)
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
    return KeyShape(**_members(row))


def new_key_shape(row: KeyRow, key: str) -> NewKeyShape:
    """Return the wire shape of a newly created key."""
    return NewKeyShape(**_members(row), key=key)


def _members(row: KeyRow) -> dict[str, Any]:  # texts and lists of texts
    values = {name: getattr(row, name) for name in KeyShape.model_fields}
    attributes = Attributes(row.attributes).masked()
    lists = {name: list(getattr(row, name)) for name in ("permissions", "scopes", "makers")}
    return {**values, **lists, "attributes": attributes}
