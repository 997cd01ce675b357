"""Functions that make and check rows, so that all stores behave alike."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, TypeVar, get_args

from capset.errors import StoreError
from capset.stores.base import (
    AGENT_FIELDS,
    AgentRow,
    CapabilityRow,
    EnvelopeRow,
    KeyRow,
    LinkRow,
    PayloadKind,
    PayloadRow,
    PersonRow,
    RegistrationRow,
    SigningKey,
    TransitionRow,
)
from capset.stores.texts import is_storable, storable

LineageRow = RegistrationRow | LinkRow | EnvelopeRow | TransitionRow | PayloadRow
_Row = TypeVar("_Row", RegistrationRow, LinkRow, EnvelopeRow, TransitionRow, PayloadRow)

MAX_TRANSITIONS: Final = 1_000
"""Maximum number of transitions returned for a session."""
_KINDS: Final = frozenset(get_args(PayloadKind))


def entry_of(row: CapabilityRow) -> str | None:
    """Return a row except its id as JSON text, or ``None`` if only the id is set. Raises ``ValueError`` if not JSON."""
    entry: dict[str, Any] = {}  # JSON of any kind
    if row.presets:
        entry["presets"] = dict(row.presets)
    if row.config is not None:
        entry["config"] = dict(row.config)
    if row.prefix is not None:
        entry["prefix"] = row.prefix
    if row.rename:
        entry["rename"] = dict(row.rename)
    return json.dumps(entry, allow_nan=False) if entry else None


def capability_row(id: str, entry: str | None) -> CapabilityRow:
    """Return the row for an id and an entry that ``entry_of`` made."""
    return CapabilityRow(id, **json.loads(entry)) if entry else CapabilityRow(id)


_OPTIONAL: Final = [field.name for field in AGENT_FIELDS if field.is_optional]


def version_text(row: AgentRow) -> str:
    """Return the fields that a version may change and that have no column of their own, as JSON text.

    Raises ``ValueError`` for values outside JSON.
    """
    values: dict[str, Any] = {}
    for field in AGENT_FIELDS:
        value: Any = getattr(row, field.name)
        match field.kind:
            case "capabilities":
                values[field.name] = [[capability.id, entry_of(capability)] for capability in value]
            case "texts":
                values[field.name] = list(value)
            case "text" | "object":
                values[field.name] = value
    return json.dumps(values, allow_nan=False)


def version_row(
    agent: AgentRow, text: str, *, version: int, static_hash: str, author: str | None, written_at: str
) -> AgentRow:
    """Return ``agent`` as of another version, whose ``version_text`` is ``text``."""
    values: dict[str, Any] = dict.fromkeys(_OPTIONAL) | json.loads(text)  # older texts lack newer fields
    for field in AGENT_FIELDS:
        if field.kind == "capabilities":
            values[field.name] = tuple(capability_row(name, entry) for name, entry in values[field.name])
        elif field.kind == "texts":
            values[field.name] = tuple(values[field.name])
    return replace(agent, **values, version=version, static_hash=static_hash, author=author, updated_at=written_at)


def row_digest(row: AgentRow | KeyRow | PersonRow) -> str:
    """Return the hexadecimal SHA-256 of the row that an act sets. The act stores it, so that the row can be checked.

    It covers the members that are not null, as JSON, since later versions of capset add only members that may be null.
    For an agent these are the members of its version, without its times and author; for a key, all but the time of its
    revocation.
    """
    if isinstance(row, AgentRow):
        identity = {"id": row.id, "org": row.org, "version": row.version, "static_hash": row.static_hash}
        values: dict[str, Any] = {**json.loads(version_text(row)), **identity}
    else:
        values = asdict(row)
        values.pop("revoked_at", None)
    # A round trip through JSON turns all names into texts before they are sorted.
    values = json.loads(json.dumps({name: value for name, value in values.items() if value is not None}))
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def copy_agent(row: AgentRow) -> AgentRow:
    """Return a copy of a row that shares no mutable value with it."""
    return version_row(
        row,
        version_text(row),
        version=row.version,
        static_hash=row.static_hash,
        author=row.author,
        written_at=row.updated_at,
    )


@dataclass(frozen=True, slots=True)
class TurnRows:
    """The checked rows of one turn: all belong to one org, and the envelope belongs to the link."""

    link: LinkRow
    envelope: EnvelopeRow | None
    reason: str
    payloads: tuple[PayloadRow, ...]


def stored_row(row: _Row) -> _Row:
    """Return a row in its stored form: an empty org becomes ``None``, and mutable values are copied.

    Raises ``StateError`` for text with NUL or a lone surrogate, and ``StoreError`` for a payload of unknown kind.
    """
    kind = type(row).__name__.removesuffix("Row").lower()
    for field in fields(row):
        value = getattr(row, field.name)
        if isinstance(value, str):
            storable(value, f"a {kind}'s {field.name}")
    if isinstance(row, PayloadRow) and row.kind not in _KINDS:
        raise StoreError(f"unknown kind of payload: {row.kind!r}", hint=f"use one of {sorted(_KINDS)}")
    changes: dict[str, Any] = {"org": row.org or None}  # fields of several types
    if isinstance(row, LinkRow):
        for ref in row.tool_refs:
            storable(f"{ref.name} {ref.hash} {ref.code}", "a link's tool_refs")
        changes["tool_refs"] = tuple(row.tool_refs)
    return replace(row, **changes)


def turn_of(link: LinkRow, envelope: EnvelopeRow | None, reason: str, payloads: Iterable[PayloadRow]) -> TurnRows:
    """Return the checked rows of a turn. Raises as ``stored_row``, and ``StoreError`` if rows differ in link or org."""
    turn = TurnRows(
        stored_row(link),
        envelope and stored_row(envelope),
        storable(reason, "a reason"),
        tuple([stored_row(payload) for payload in payloads]),
    )
    if turn.envelope and turn.envelope.link != link.id:
        raise StoreError(
            f"the envelope {turn.envelope.id!r} belongs to the link {turn.envelope.link!r}, not to {link.id!r}",
            hint="record it with its own link, or on its own",
        )
    for org in {row.org for row in (turn.envelope, *turn.payloads) if row} - {turn.link.org}:
        raise StoreError(
            f"the turn belongs to the org {turn.link.org!r}, but its envelope or a payload belongs to {org!r}",
            hint="record the rows of each org separately",
        )
    return turn


def transition_of(turn: TurnRows, last_id: str, last_hash: str) -> TransitionRow | None:
    """Return the transition that a turn causes, if any, given the id and runtime hash of the last recorded link."""
    link = turn.link
    if link.session is None or link.runtime_hash == last_hash:
        return None
    return TransitionRow(link.org, link.session, last_id, link.id, turn.reason, link.created_at)


def changed_values(previous: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:  # of several types
    """Return the values of ``then`` that differ from those of ``previous``."""
    return {name: value for name, value in then.items() if value != previous[name]}


def is_renewed(keys: Sequence[SigningKey], renewed: str) -> bool:
    """Return whether the newest signing key was made at ``renewed`` or later."""
    return bool(keys) and keys[0].made_at >= renewed


def renewed_keys(keys: Sequence[SigningKey], now: str, expired: str) -> list[SigningKey]:
    """Return a new signing key, followed by the earlier keys that have not expired."""
    return [SigningKey(secrets.token_hex(32), now), *[key for key in keys if key.made_at >= expired]]


def are_storable(*texts: str | None) -> bool:
    """Return whether all these texts can be stored. Queries for other texts are skipped."""
    return all(is_storable(text) for text in texts if text)


def id_taken_error(label: str, id: str) -> StoreError:
    """Return the error for an id that is taken. ``label`` names the row, with its article."""
    return StoreError(f"there is already {label} {id!r}")


def missing_link_error(id: str) -> StoreError:
    """Return the error for a reference to a missing link."""
    return StoreError(f"there is no link {id!r} in this org", hint="record the link first")
