"""The shapes of configuration files (spec 4, G27)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, WithJsonSchema

from capset.composition.resolve import MAX_CAPABILITIES
from capset.definitions.agents import MAX_MODEL_CHARACTERS
from capset.definitions.calls.files import MAX_FILE_BYTES
from capset.definitions.capabilities import Risk
from capset.definitions.governance.approvers import MAX_APPROVALS, MAX_RULES, ApproverRule
from capset.definitions.names import AGENT, TOOL
from capset.definitions.tools.options import Effect
from capset.definitions.tools.retries import MAX_ATTEMPTS
from capset.wire.agents import Entry, SubAgentEntry, Text
from capset.wire.allowances import LIMIT_SCHEMA, AllowanceShape
from capset.wire.shapes import StrictShape
from capset.wire.tool_sources import (
    LIMITS_DESCRIPTION,
    ApiShape,
    LimitsText,
    McpServerShape,
    Permission,
    ProviderShape,
)
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
# Of type Any, because their own validators (limits.py, retries.py) give better messages than a union of types.
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
"""Actions that need only their names, and the installed tools that they use. ``_`` is accepted for ``-``."""
*_NAMES, _LAST = (f"`{name}`" for name in BUILT_IN)


class ActionShape(StrictShape):
    """An action: a handler, or a tool of an installed capability."""

    model_config = ConfigDict(
        json_schema_extra={"if": {"required": ["handler"]}, "then": {"required": ["permissions"]}}
    )

    name: Name = Field(description="The name that models use.")
    title: str | None = Field(None, description="A name for people.")
    description: str | None = Field(None, description="Its purpose, by which models choose it; the title, if left out.")
    handler: str | None = Field(
        None,
        description="A Python file below this file's folder, `./handlers/weather.py`, with `:function` unless that is "
        "`handler`; or `package.module:function`. It is a function of `(params, context)` or `(params)`, or a Tool.",
    )
    tool: str | None = Field(
        None,
        description="Instead of a handler: a tool of an installed capability, `CAPABILITY.TOOL`. Actions named "
        f"{', '.join(_NAMES)} and {_LAST} need neither.",
    )
    parameters: dict[str, Any] | None = Field(
        None,
        description="A JSON Schema of type object, or in short form: a schema for each parameter, which may contain "
        "`required: true`. No parameters, if left out.",
    )
    returns: dict[str, Any] | None = Field(None, description="The JSON Schema of the result; any JSON, if left out.")
    permissions: list[Permission] | None = Field(
        None,
        description="All the permissions that a principal needs; `[]` for none. For an installed tool: permissions in "
        "addition to the tool's own.",
    )
    limits: LimitsText = Field(None, description=LIMITS_DESCRIPTION)
    effect: Effect | None = Field(
        None,
        description="`read` changes nothing; other calls are recorded before they start. `write`, if left out.",
    )
    idempotent: bool | None = Field(
        None, description="Whether repeating a call has no further effect; `false`, if left out."
    )
    timeout: float | None = Field(None, gt=0, description="The timeout of a call, in seconds.")
    retry: RetryText = Field(
        None, description="The maximum number of attempts after temporary failures, for idempotent actions only."
    )
    approval: Literal["auto", "ask"] | None = Field(
        None, description="`ask` if every call needs an approval; `auto`, if left out."
    )
    arguments: dict[str, dict[str, Any]] | None = Field(
        None,
        description="For a tool with its own parameters: restrictions on its arguments in addition to its schema, as "
        "in the rules of MCP servers.",
    )


class ApproverRuleShape(StrictShape):
    """Who may approve which requests. An approver must satisfy all rules that apply to a request."""

    tools: list[str] | None = Field(
        None,
        description="Patterns for tools by name, `pay`, or as `CAPABILITY.TOOL`, `payments.*`; all tools, if left out.",
    )
    effects: list[Effect] | None = Field(None, description="The effects of the tools; all effects, if left out.")
    agents: list[str] | None = Field(None, description="Patterns for the names of agents; all agents, if left out.")
    risks: list[Risk] | None = Field(
        None, description="The risks of the capabilities that contain the tools; all risks, if left out."
    )
    permission: Permission | None = Field(None, description="The permission that an approver needs.")
    attributes: dict[str, AttributeValue | list[AttributeValue]] | None = Field(
        None, description="The attributes that an approver needs, each with its value or its allowed values."
    )
    same_attributes: list[str] | None = Field(
        None, description="The attributes that must be equal for approver and requester, such as `department`."
    )
    approvals: int | None = Field(
        None, ge=1, le=MAX_APPROVALS, description="The number of different principals who must approve; 1, if left out."
    )
    forbid_own: bool | None = Field(
        None, description="Whether requesters may not approve their own requests, even if `own_approvals` is set."
    )
    expires_after: float | None = Field(
        None, gt=0, description="Seconds until such a request expires; overrides `approval_seconds`."
    )
    escalate_after: float | None = Field(None, gt=0, description="The seconds after which others may approve, too.")
    escalate_to: Permission | None = Field(
        None, description="The permission that these others need, instead of `permission` and the attributes."
    )

    def rule(self) -> ApproverRule:
        """Return the rule. Raises ``DefinitionError``."""
        return ApproverRule(**self.model_dump(exclude_none=True))


class GovernanceShape(StrictShape):
    """Settings that apply to every call."""

    default_permissions: list[Permission] | None = Field(
        None, description="Permissions that every principal holds; none, if left out."
    )
    require_auth: bool | None = Field(None, description="Whether to refuse unauthenticated principals.")
    record_reads: bool | None = Field(
        None, description="Whether calls of tools that only read are recorded; all other calls always are."
    )
    redact: list[str] | None = Field(
        None, description="Regular expressions (RE2) whose matches are masked in records, results and errors."
    )
    result_bytes: int | None = Field(None, ge=1_024, description="The maximum size of a result for a model, in bytes.")
    approval_seconds: float | None = Field(
        None, gt=0, description="Seconds until an approval request expires; then it counts as rejected."
    )
    own_approvals: bool | None = Field(None, description="Whether requesters may approve their own requests.")
    approvers: list[ApproverRuleShape] | None = Field(
        None,
        max_length=MAX_RULES,
        description="Rules for who may approve what; without rules, everyone except the requester may.",
    )
    code_voids_approvals: bool | None = Field(
        None, description="Whether an approval becomes void when the tool's code changes; `true`, if left out."
    )
    refusals: RefusalsText = Field(
        None,
        description="How many calls of a principal may be refused before further calls are rejected without a check; "
        "`600/1m`, if left out; `null` for no limit. Refusals are counted in each process.",
    )
    pending_approvals: int | None = Field(
        None,
        ge=1,
        description="The maximum number of pending approval requests of one principal; 100, if left out.",
    )
    allowance: AllowanceShape | None = Field(
        None, description="Budgets for every session and every run, and limits on all calls together."
    )
    file_bytes: int | None = Field(
        None, ge=0, le=MAX_FILE_BYTES, description="The maximum size of a session file, in bytes; 100 MB, if left out."
    )
    session_bytes: int | None = Field(
        None, ge=0, description="The maximum total size of a session's files, in bytes; 500 MB, if left out."
    )
    session_files: int | None = Field(
        None,
        ge=0,
        description="The maximum number of files in a session, and also of directories; 10,000, if left out.",
    )


class AuditShape(StrictShape):
    """Signed checkpoints of the record, and its retention."""

    key: str = Field(
        description="The file with the private signing key, absolute or relative to this file's folder; "
        "`capset audit keygen FILE` creates one."
    )
    every: Window = Field("5m", description="How often a checkpoint is signed while records are written.")
    keep: Window | None = Field(None, description="How long records are kept, such as `90d`; forever, if left out.")


class ConfigurationShape(StrictShape):
    """The content of a configuration file: an agent, its actions, and how a server governs them."""

    schema_: str | None = Field(None, alias="$schema", description="For editors: the URL of this JSON Schema.")
    name: Annotated[str, Field(pattern=f"^{AGENT.pattern}$")] | None = Field(
        None, description="The name of the agent; derived from the file's name, if left out."
    )
    description: str = Field("", description="Its purpose, by which people and other agents choose it.")
    system_prompt: str = Field("", description="The system prompt.")
    instructions: list[str] = Field(default_factory=list[str], description="Texts after the system prompt, in order.")
    model: Annotated[Text, Field(min_length=1, max_length=MAX_MODEL_CHARACTERS)] | None = Field(
        None,
        description="The model that runs the agent, such as `openai:gpt-5`, or `script:FILE` relative to this file; "
        "`--model`, if left out.",
    )
    capabilities: list[Entry] = Field(
        default_factory=list[Entry],
        description="Installed capabilities, in the order of their priority: a name, or an object with options. If "
        "actions use tools of a capability, the agent gets only those, otherwise all of its tools.",
    )
    agents: list[str | SubAgentEntry] = Field(
        default_factory=list["str | SubAgentEntry"],
        max_length=MAX_CAPABILITIES,
        description="Agents that it can call as tools: the name of an installed agent, the path of another file "
        "relative to this one, or an object with options.",
    )
    actions: list[ActionShape] = Field(default_factory=list[ActionShape], description="The agent's own tools.")
    mcp_servers: dict[str, McpServerShape] = Field(
        default_factory=dict[str, McpServerShape],
        description="MCP servers by name. The agent has their approved tools, which "
        "`capset mcp approve SERVER --agent FILE` approves.",
    )
    apis: dict[str, ApiShape] = Field(
        default_factory=dict[str, ApiShape],
        description="APIs by name. The agent has their approved operations, which "
        "`capset mcp approve api:NAME --agent FILE` approves.",
    )
    providers: dict[str, ProviderShape] = Field(
        default_factory=dict[str, ProviderShape],
        description="Authorization servers at which users connect, by name, for the `auth` of MCP servers and APIs.",
    )
    policies: list[str] = Field(
        default_factory=list[str],
        description="Policies that are evaluated for every call: functions, as `./policies.py:office_hours` or "
        "`package.module:function`.",
    )
    allowance: AllowanceShape | None = Field(
        None, description="What the agent's sessions and runs may use, within the allowance of `governance`."
    )
    static_context: dict[str, Any] | None = Field(None, description="Data for the host, which no model sees.")
    governance: GovernanceShape | None = Field(None, description="Settings that apply to every call.")
    roles: dict[str, list[str]] = Field(
        default_factory=dict[str, list[str]],
        description="The permissions of each role; an entry without a colon is another role.",
    )
    audit: AuditShape | None = Field(None, description="Signed checkpoints of the record, and its retention.")
    workspace: str | None = Field(
        None, description="The only folder that tools may read, absolute or relative to this file's folder."
    )
    notifications: dict[str, ChannelShape] = Field(
        default_factory=dict[str, ChannelShape],
        description="Channels by name, which are notified of approval requests. A server sends what is queued.",
    )


SERVER_MEMBERS: Final = ("governance", "roles", "audit", "workspace", "notifications")
"""The members that apply to a whole server, which the files of sub-agents do not have."""
