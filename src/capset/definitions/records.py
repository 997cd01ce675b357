"""Records of attempts: who, what, which fingerprint, which decision, which outcome (spec 4, G19, G20)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Outcome = Literal[
    "succeeded",
    "failed",
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
]
"""How an attempt ended."""

Columns = Mapping[str, str | int | None]
"""A record's columns by name, without those that the writer adds: ``seq``, ``writer``, ``previous`` and ``hash``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One link of the chain.

    A call with side effects has two, under one ``id``: an ``intent`` before its handler starts, and its ``outcome``.
    ``arguments`` is redacted JSON text, ``arguments_digest`` the HMAC-SHA256 of the unredacted arguments' canonical
    bytes, ``policies`` a JSON list of the ids that determined ``decision``. ``time`` is ISO 8601 UTC with microseconds,
    ``duration_us`` in microseconds. ``on_behalf_of`` is the principal acted for, ``approval`` the id of the request
    that was approved or rejected, ``attempts`` the number of times the handler was started, ``repeats`` the number of
    refused calls that one record stands for, where there were too many for a record each. ``attributes_digest`` is the
    HMAC-SHA256 of the principal's attributes (if it acts for others, of a list of its own and theirs), ``code_hash``
    the hash of the tool's code, if it has one. Each ``hash`` covers all other columns that are not null
    (``fingerprint.chain``).
    """

    seq: int
    id: str
    phase: Literal["intent", "outcome"]
    time: str
    correlation: str
    causation: str | None
    principal: str
    principal_kind: str
    org: str | None
    session: str
    agent: str
    capability: str | None
    tool: str
    effect: str | None
    arguments: str
    arguments_digest: str
    decision: Literal["allow", "deny"] | None
    policies: str
    reason: str | None
    outcome: Outcome | None
    code: str | None
    duration_us: int | None
    tool_hash: str | None
    static_hash: str
    runtime_hash: str
    prompt_hash: str
    profile: str
    writer: str
    previous: str
    hash: str
    on_behalf_of: str | None = None
    approval: str | None = None
    attempts: int | None = None
    repeats: int | None = None
    attributes_digest: str | None = None
    code_hash: str | None = None


COLUMNS = tuple(Record.__slots__)
"""Every column's name, in order."""
NUMBERS = frozenset({"seq", "duration_us", "attempts", "repeats"})
"""The columns that hold whole numbers; all others hold text."""
