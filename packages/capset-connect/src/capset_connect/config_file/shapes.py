"""The shapes of a configuration file, in both of its forms (spec 4, G27)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, WithJsonSchema

from capset.definitions.calls.files import FILE_BYTES
from capset.definitions.capabilities import Risk
from capset.definitions.governance.approvers import MAX_APPROVALS, MAX_RULES, ApproverRule
from capset.definitions.names import AGENT, TOOL
from capset.definitions.tools.options import Effect
from capset.definitions.tools.retries import MAX_ATTEMPTS
from capset.wire.agent_schema import DIALECT, plain_schema
from capset.wire.allowances import LIMIT_SCHEMA, AllowanceShape
from capset.wire.shapes import StrictShape
from capset.wire.tool_sources import LIMITS_SAID, ApiShape, LimitsText, McpServerShape, Permission
from capset_connect.notifications.declarations import ChannelShape

_RETRY: Final[dict[str, Any]] = {
    "anyOf": [
        {"type": "integer", "minimum": 2, "maximum": MAX_ATTEMPTS},
        {
            "type": "object",
            "properties": {
                "max_attempts": {"type": "integer", "minimum": 2, "maximum": MAX_ATTEMPTS},
                "base": {"type": "number", "minimum": 0, "default": 0.1},
                "cap": {"type": "number", "minimum": 0, "default": 10.0},
            },
            "required": ["max_attempts"],
            "additionalProperties": False,
        },
    ]
}
# Their validators (limits.py, retries.py) give better messages than a union of types would, so they take any value.
RefusalsText = Annotated[Any, WithJsonSchema({"anyOf": [*LIMIT_SCHEMA["anyOf"], {"type": "null"}]})]
RetryText = Annotated[Any, WithJsonSchema(_RETRY)]
Name = Annotated[str, Field(pattern=f"^{TOOL.pattern}$")]

AttributeValue = str | int | float | bool
Window = Annotated[str, Field(pattern=r"^[1-9]\d*[smhd]$")]

BUILT_IN: Final = {
    "http-get": "http.http_get",
    "db-query": "database.db_query",
    "file-read": "files.file_read",
    "email-send": "email.email_send",
}
"""The origin's built-in actions, and the installed tools that they are here; ``_`` is accepted for ``-``."""
*_NAMES, _LAST = (f"`{name}`" for name in BUILT_IN)
_TITLE: Final = "What people call it."
_DESCRIPTION: Final = "What it is for: the model chooses by it. The title, if left out."


class ActionShape(StrictShape):
    """An action: a handler of the file's own, or a tool that is installed here."""

    model_config = ConfigDict(
        json_schema_extra={"if": {"required": ["handler"]}, "then": {"required": ["permissions"]}}
    )

    name: Name = Field(description="What the model calls it.")
    title: str | None = Field(None, description=_TITLE)
    description: str | None = Field(None, description=_DESCRIPTION)
    handler: str | None = Field(
        None,
        description="A Python file below this file's folder, `./handlers/weather.py`, with `:function` unless that is "
        "`handler`; or `package.module:function`. It is a function of `(params, context)` or `(params)`, or a Tool.",
    )
    tool: str | None = Field(
        None,
        description="In the place of a handler: a tool that is installed here, `CAPABILITY.TOOL`. "
        f"{', '.join(_NAMES)} and {_LAST} are the built-in ones by their names alone.",
    )
    parameters: dict[str, Any] | None = Field(
        None,
        description="A JSON Schema of type object, or short: each parameter's schema by its name, with `required: "
        "true` in it. None, if left out.",
    )
    returns: dict[str, Any] | None = Field(None, description="The JSON Schema of the result; any JSON, if left out.")
    permissions: list[Permission] | None = Field(
        None,
        description="What a principal must hold, all of them; `[]` for none. Of an installed tool: what it must hold "
        "beside the tool's own.",
    )
    limits: LimitsText = Field(None, description=LIMITS_SAID)
    effect: Effect | None = Field(
        None,
        description="`read` changes nothing; all others are on record before they start. `write`, if left out.",
    )
    idempotent: bool | None = Field(
        None, description="Whether calling it again changes nothing more; `false`, if left out."
    )
    timeout: float | None = Field(None, gt=0, description="Seconds that a call may take.")
    retry: RetryText = Field(
        None, description="How often in all it is run where it fails for a moment; for an idempotent action only."
    )
    approval: Literal["auto", "ask"] | None = Field(
        None, description="`ask` if somebody has to approve every call; `auto`, if left out."
    )


class OriginActionShape(ActionShape):
    """An action in the origin's words."""

    name: Name = Field(alias="id", description="What the model calls it.")
    title: str | None = Field(None, alias="name", description=_TITLE)
    limits: LimitsText = Field(None, alias="rateLimit", description=LIMITS_SAID)


class SecurityShape(StrictShape):
    """Governance in the origin's words."""

    default_permissions: list[Permission] | None = Field(
        None, alias="defaultPermissions", description="What every principal holds; nothing, if left out."
    )
    require_auth: bool | None = Field(
        None, alias="requireAuth", description="Refuses principals that are not authenticated."
    )
    record_reads: bool | None = Field(
        None, alias="auditLog", description="`false` silences reads only: all other calls are on record all the same."
    )


class ApproverRuleShape(StrictShape):
    """Who may approve which requests. All rules that are for a request hold at once: the strictest decides."""

    tools: list[str] | None = Field(
        None,
        description="Patterns for the names of tools, `pay`, or of `CAPABILITY.TOOL`, `payments.*`; all, if left out.",
    )
    effects: list[Effect] | None = Field(None, description="The effects of the tools; all, if left out.")
    agents: list[str] | None = Field(None, description="Patterns for the names of agents; all, if left out.")
    risks: list[Risk] | None = Field(
        None, description="The risks of the capabilities that bring the tools; all, if left out."
    )
    permission: Permission | None = Field(None, description="The permission that an approver has to hold.")
    attributes: dict[str, AttributeValue | list[AttributeValue]] | None = Field(
        None, description="The value, or the possible values, of each attribute that an approver has to have."
    )
    same_attributes: list[str] | None = Field(
        None, description="The attributes in which an approver has to be like the requester, such as `department`."
    )
    approvals: int | None = Field(
        None, ge=1, le=MAX_APPROVALS, description="How many different principals have to approve: 1, if left out."
    )
    forbid_own: bool | None = Field(
        None, description="Whether requesters may never approve their own requests, even where `own_approvals` is set."
    )
    expires_after: float | None = Field(
        None, gt=0, description="The seconds for which such a request stays open, in the place of `approval_seconds`."
    )
    escalate_after: float | None = Field(None, gt=0, description="The seconds after which others may approve, too.")
    escalate_to: Permission | None = Field(
        None, description="The permission of these others, in the place of `permission` and the attributes."
    )

    def rule(self) -> ApproverRule:
        """Return the rule. Raises ``DefinitionError``."""
        return ApproverRule(**self.model_dump(exclude_none=True))


class GovernanceShape(StrictShape):
    """What holds for every call."""

    default_permissions: list[Permission] | None = Field(
        None, description="What every principal holds; nothing, if left out."
    )
    require_auth: bool | None = Field(None, description="Refuses principals that are not authenticated.")
    record_reads: bool | None = Field(
        None, description="Whether calls of tools that only read are on record; all others always are."
    )
    redact: list[str] | None = Field(
        None, description="Regular expressions (RE2): what they match is masked in records, results and errors."
    )
    result_bytes: int | None = Field(None, ge=1_024, description="How many bytes of a result a model is given.")
    approval_seconds: float | None = Field(
        None, gt=0, description="How long a request for an approval stays open; then it counts as rejected."
    )
    own_approvals: bool | None = Field(None, description="Whether somebody may approve what they asked for themselves.")
    approvers: list[ApproverRuleShape] | None = Field(
        None,
        max_length=MAX_RULES,
        description="Rules for who may approve what; without any, everybody but the requester may.",
    )
    code_voids_approvals: bool | None = Field(
        None, description="Whether an approval is void once the tool's code is other code: `true`, if left out."
    )
    refusals: RefusalsText = Field(
        None,
        description="How many calls of a principal may be refused before no more are looked at: `600/1m`, if left "
        "out; `null` for any number. They are counted in each process.",
    )
    pending_approvals: int | None = Field(
        None,
        ge=1,
        description="How many requests for approvals of one principal may be open at once: 100, if left out.",
    )
    allowance: AllowanceShape | None = Field(
        None, description="What every session and every run may use, and limits on all calls together."
    )
    file_bytes: int | None = Field(
        None, ge=0, le=FILE_BYTES, description="How long a file of a session is at most: 100 MB, if left out."
    )
    session_bytes: int | None = Field(
        None, ge=0, description="How long the files of a session are together at most: 500 MB, if left out."
    )
    session_files: int | None = Field(
        None,
        ge=0,
        description="How many files a session has at most, and how many directories beside them: 10,000, if left out.",
    )


class AuditShape(StrictShape):
    """How far the records have come is signed, and records that are too old are cut off."""

    key: str = Field(
        description="The file of the private key that signs, absolute or seen from this file's folder; "
        "`capset audit keygen FILE` makes one."
    )
    every: Window = Field("5m", description="How often a checkpoint is signed while records come.")
    keep: Window | None = Field(None, description="How long records are kept, such as `90d`; for ever, if left out.")


class CapabilitiesLayerShape(StrictShape):
    """The origin's third layer."""

    actions: list[OriginActionShape] = Field(default_factory=list[OriginActionShape], description="What can be called.")
    security: SecurityShape | None = Field(None, description="What holds for every call.")


class LayersShape(StrictShape):
    """The origin's form of a file. Of its layers, that of capabilities is read."""

    capabilities: CapabilitiesLayerShape = Field(description="The layer that has the actions.")


class ConfigurationShape(StrictShape):
    """What a configuration file holds. Actions may stand in both forms; what governs them, in one."""

    schema_: str | None = Field(None, alias="$schema", description="For editors: the address of this JSON Schema.")
    agent: Annotated[str, Field(pattern=f"^{AGENT.pattern}$")] | None = Field(
        None, description="The name of the agent that has the actions; the file's own name, if left out."
    )
    actions: list[ActionShape] = Field(default_factory=list[ActionShape], description="What can be called.")
    governance: GovernanceShape | None = Field(None, description="What holds for every call.")
    audit: AuditShape | None = Field(None, description="Signed checkpoints of the record, and how long it is kept.")
    roles: dict[str, list[str]] = Field(
        default_factory=dict[str, list[str]],
        description="Names for permissions, by role; what has no colon is another role.",
    )
    workspace: str | None = Field(
        None, description="The one folder that tools may read, absolute or seen from this file's folder."
    )
    capabilities: dict[str, dict[str, Any] | None] = Field(
        default_factory=dict[str, dict[str, Any] | None],
        description="Capabilities that are installed here, with their configs (`{}` for none). Where actions name "
        "tools of one, it brings just those, else all of its tools.",
    )
    mcp_servers: dict[str, McpServerShape] = Field(
        default_factory=dict[str, McpServerShape],
        description="MCP servers by name, whose approved tools the agent has. "
        "`capset mcp approve SERVER --config FILE` approves them.",
    )
    apis: dict[str, ApiShape] = Field(
        default_factory=dict[str, ApiShape],
        description="APIs by name, whose approved operations the agent has. "
        "`capset mcp approve api:NAME --config FILE` approves them, too.",
    )
    notifications: dict[str, ChannelShape] = Field(
        default_factory=dict[str, ChannelShape],
        description="Channels by name, which are told of requests for approvals; a server sends what is queued.",
    )
    layers: LayersShape | None = Field(None, description="The origin's form: `layers.capabilities.actions`.")


TITLE: Final = "A capset configuration file"


def configuration_schema() -> dict[str, Any]:  # a JSON Schema's values are of every JSON type
    """Return the schema of configuration files, in both of their forms."""
    return {"$schema": DIALECT, **plain_schema(ConfigurationShape.model_json_schema()), "title": TITLE}
