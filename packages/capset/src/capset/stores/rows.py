"""Rows of stored agents, of lineage and of signing keys, made and checked here so that all stores behave alike."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Sequence
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

TRANSITIONS: Final = 1_000
"""Limit on the transitions returned for a session."""
_KINDS: Final = frozenset(get_args(PayloadKind))


def entry_of(row: CapabilityRow) -> str | None:
    """Return all but a row's id as JSON text, or ``None`` for a plain id. Raises ``ValueError`` if it is not JSON."""
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
    """Return the row of an id and its entry, as made by ``entry_of``."""
    return CapabilityRow(id, **json.loads(entry)) if entry else CapabilityRow(id)


_OPTIONAL: Final = [field.name for field in AGENT_FIELDS if field.is_optional]


def version_text(row: AgentRow) -> str:
    """Return the fields of a row that a version may change and that have no column of their own, as JSON text.

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
    """Return an agent as of the version that ``version_text`` made this text of."""
    values: dict[str, Any] = dict.fromkeys(_OPTIONAL) | json.loads(text)  # older texts lack newer fields
    for field in AGENT_FIELDS:
        if field.kind == "capabilities":
            values[field.name] = tuple(capability_row(name, entry) for name, entry in values[field.name])
        elif field.kind == "texts":
            values[field.name] = tuple(values[field.name])
    return replace(agent, **values, version=version, static_hash=static_hash, author=author, updated_at=written_at)


def row_digest(row: AgentRow | KeyRow | PersonRow) -> str:
    """Return the SHA-256, in hexadecimal, of what an act sets: it stands in the act, and is compared with the row.

    It covers the members that are not null, as JSON: a later version of capset adds only members that may be null. For
    an agent they are those of its version, without its times and its author; for a key, all but the time of its
    revocation.
    """
    if isinstance(row, AgentRow):
        named = {"id": row.id, "org": row.org, "version": row.version, "static_hash": row.static_hash}
        values: dict[str, Any] = {**json.loads(version_text(row)), **named}
    else:
        values = asdict(row)
        values.pop("revoked_at", None)
    # Read once more, so that names are texts before they are sorted.
    values = json.loads(json.dumps({name: value for name, value in values.items() if value is not None}))
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def copied(row: AgentRow) -> AgentRow:
    """Return a row that shares no mutable value with this one."""
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
    """The rows of one turn, checked: all of one org, the envelope of the link."""

    link: LinkRow
    envelope: EnvelopeRow | None
    reason: str
    payloads: tuple[PayloadRow, ...]


def stored_row(row: _Row) -> _Row:
    """Return a row in its stored form: with no org rather than an empty one, and with copies of its own.

    Raises ``StateError`` for text with NUL or a lone surrogate in it, ``StoreError`` for a payload of no known kind.
    """
    kind = type(row).__name__.removesuffix("Row").lower()
    for field in fields(row):
        value = getattr(row, field.name)
        if isinstance(value, str):
            storable(value, f"a {kind}'s {field.name}")
    if isinstance(row, PayloadRow) and row.kind not in _KINDS:
        raise StoreError(f"a payload of the kind {row.kind!r} is not kept", hint=f"keep one of {sorted(_KINDS)}")
    changes: dict[str, Any] = {"org": row.org or None}  # fields of several types
    if isinstance(row, LinkRow):
        for ref in row.tool_refs:
            storable(f"{ref.name} {ref.hash} {ref.code}", "a link's tool_refs")
        changes["tool_refs"] = tuple(row.tool_refs)
    return replace(row, **changes)


def turn_of(link: LinkRow, envelope: EnvelopeRow | None, reason: str, payloads: Iterable[PayloadRow]) -> TurnRows:
    """Return the rows of one turn. Raises as ``stored_row``, and ``StoreError`` for rows of another link or org."""
    turn = TurnRows(
        stored_row(link),
        envelope and stored_row(envelope),
        storable(reason, "a reason"),
        tuple([stored_row(payload) for payload in payloads]),
    )
    if turn.envelope and turn.envelope.link != link.id:
        raise StoreError(
            f"the envelope {turn.envelope.id!r} is of the link {turn.envelope.link!r}, not of {link.id!r}",
            hint="record it with its own link, or alone",
        )
    for org in {row.org for row in (turn.envelope, *turn.payloads) if row} - {turn.link.org}:
        raise StoreError(
            f"a turn of the org {turn.link.org!r} has an envelope or a payload of {org!r}",
            hint="record what is of one org together",
        )
    return turn


def transition_of(turn: TurnRows, last_id: str, last_hash: str) -> TransitionRow | None:
    """Return the change of a session's runtime hash by a turn; ``last_…`` are of the last recorded link."""
    link = turn.link
    if link.session is None or link.runtime_hash == last_hash:
        return None
    return TransitionRow(link.org, link.session, last_id, link.id, turn.reason, link.created_at)


def is_renewed(keys: Sequence[SigningKey], renewed: str) -> bool:
    """Return whether there is a signing key that was made at ``renewed`` or later."""
    return bool(keys) and keys[0].made_at >= renewed


def renewed_keys(keys: Sequence[SigningKey], now: str, expired: str) -> list[SigningKey]:
    """Return a new signing key, and the earlier ones that have not expired."""
    return [SigningKey(secrets.token_hex(32), now), *[key for key in keys if key.made_at >= expired]]


def can_be(*texts: str | None) -> bool:
    """Return whether a row with these texts can exist; queries for texts that cannot be stored are skipped."""
    return all(is_storable(text) for text in texts if text)


def taken(label: str, id: str) -> StoreError:
    """Return the error for a second row of an id; ``label`` names it, with its article."""
    return StoreError(f"there is {label} {id!r} already")


def no_link(id: str) -> StoreError:
    """Return the error for a reference to a missing link."""
    return StoreError(f"there is no link {id!r} in this org", hint="record the link first")
