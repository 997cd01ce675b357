"""Records of calls and of administrative acts: who, what, which version, which outcome (spec 4, G19, G20, G39)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Final, Literal

from capset.definitions.principals import PrincipalKind
from capset.definitions.tools.options import Effect

Outcome = Literal[
    "succeeded",
    "failed",
    "pending",
    "denied",
    "unauthenticated",
    "not_found",
    "invalid",
    "limited",
    "rejected",
    "timed_out",
    "cancelled",
    "unavailable",
    "interrupted",
    "unknown",
]
"""How an attempt ended; ``pending`` if it waits for an approval or an answer, and is made again."""
UNTOUCHED: Final[tuple[Outcome, ...]] = (
    "pending",
    "denied",
    "unauthenticated",
    "not_found",
    "invalid",
    "limited",
    "rejected",
    "unavailable",
)
"""The outcomes of calls whose handler was never started."""

Phase = Literal["intent", "outcome", "act"]
"""The kind of a record: before a call starts (``intent``), after it has ended (``outcome``), or of an ``act``."""

Columns = Mapping[str, str | int | None]
"""A record's columns by name, without those that the writer adds: ``seq``, ``writer``, ``previous`` and ``hash``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One link of the chain.

    A call with side effects has two records with one ``id``: an ``intent`` before its handler starts, and its
    ``outcome``. An administrative ``act`` has one. The fields are the columns of the record, wherever records are
    stored or shown.
    """

    __pydantic_config__: ClassVar[Mapping[str, bool]] = {"use_attribute_docstrings": True}

    seq: int
    """The position in the chain; the first is 1."""
    id: str
    """The id of the call, shared by its intent and its outcome, or the id of the act."""
    phase: Phase
    """`intent` before the call starts, `outcome` after it has ended; or `act`."""
    time: str
    """The time, ISO 8601 UTC with microseconds."""
    correlation: str
    """The id that all calls with one origin share."""
    causation: str | None
    """The id of the message that caused the call."""
    principal: str
    """The id of the principal."""
    principal_kind: PrincipalKind
    """The kind of the principal."""
    org: str | None
    """The organisation of the principal."""
    session: str
    """The id of the session; empty for an act that concerns none."""
    agent: str
    """The name of the agent; empty for an act that concerns none."""
    capability: str | None
    """The name of the capability that the tool belongs to."""
    tool: str
    """The name of the tool, as called; empty for an act that concerns none."""
    effect: Effect | None
    """The effect of the tool; null for an unknown tool."""
    arguments: str
    """The arguments, redacted, as JSON; for an act, the ids of its subjects, and the changes to them."""
    arguments_digest: str
    """The HMAC-SHA256 of the canonical bytes of the unredacted arguments; empty for an act, which redacts nothing."""
    decision: Literal["allow", "deny"] | None
    """The decision of the policies; null if none was made."""
    policies: str
    """The ids of the policies that determined the decision, as a JSON list."""
    reason: str | None
    """The reason for the decision, or for the lack of one; also how the result of a third-party tool is invalid."""
    outcome: Outcome | None
    """How the call ended; null for an intent."""
    code: str | None
    """The error code of the call; `output_misfit` if it succeeded with an invalid result."""
    duration_us: int | None
    """The duration in microseconds, where it is known."""
    tool_hash: str | None
    """The hash of the tool; null for an unknown tool."""
    static_hash: str
    """The hash of the agent's definition; empty for an act that concerns none."""
    runtime_hash: str
    """The hash of the tools and instructions in play; empty for an act."""
    prompt_hash: str
    """The hash of the instructions that the model was given; empty for an act."""
    profile: str
    """The profile of the hashes."""
    writer: str
    """The id of the process that wrote the record."""
    previous: str
    """The hash of the record before this one."""
    hash: str
    """The hash of this record, which covers all other columns that are not null."""
    on_behalf_of: str | None = None
    """The principal acted for, as ``kind:id``."""
    approval: str | None = None
    """The id of the request that was approved or rejected."""
    attempts: int | None = None
    """How often the handler was started."""
    repeats: int | None = None
    """The number of refused calls that this record stands for, if there were too many for a record each."""
    attributes_digest: str | None = None
    """The HMAC-SHA256 of the principal's attributes; if it acts for others, of a list of its own and theirs."""
    code_hash: str | None = None
    """The hash of the tool's code, where it is known."""
    act: str | None = None
    """The name of the act, such as `key.create`; null for a call."""
    credential: str | None = None
    """The credential of a user that the call used, and its owner: `ID@VERSION user:ada`; never its value."""
    source: str | None = None
    """The origin of the act: the interface, and the address or the operating-system user."""


_TYPES: Final[Mapping[str, str]] = {column.name: str(column.type) for column in fields(Record)}
COLUMNS: Final = tuple(_TYPES)
"""Every column's name, in order."""
NULLABLE: Final = frozenset(name for name, annotation in _TYPES.items() if annotation.endswith(" | None"))
"""The columns that may be null."""
NUMBERS: Final = frozenset(name for name, annotation in _TYPES.items() if annotation.removesuffix(" | None") == "int")
"""The columns that hold whole numbers; all others hold text."""
