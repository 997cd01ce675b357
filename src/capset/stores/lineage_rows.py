"""What lineage must be to be kept, and when a session's runtime hash has moved: once, so that all stores do alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeVar, get_args

from capset.errors import StoreError
from capset.stores.base import EnvelopeRow, LinkRow, PayloadKind, PayloadRow, RegistrationRow, TransitionRow
from capset.stores.texts import is_storable, storable

LineageRow = RegistrationRow | LinkRow | EnvelopeRow | TransitionRow | PayloadRow
_Row = TypeVar("_Row", RegistrationRow, LinkRow, EnvelopeRow, TransitionRow, PayloadRow)

TRANSITIONS: Final = 1_000
"""How many transitions of a session are returned."""
_KINDS: Final = frozenset(get_args(PayloadKind))


@dataclass(frozen=True, slots=True)
class TurnRows:
    """What one turn leaves, checked: all of one org, the envelope of the link."""

    link: LinkRow
    envelope: EnvelopeRow | None
    reason: str
    payloads: tuple[PayloadRow, ...]


def kept(row: _Row) -> _Row:
    """Return a row as it is kept: without an org rather than with an empty one, and its own.

    Raises ``StateError`` for text with NUL or a lone surrogate in it, ``StoreError`` for a payload of no known kind.
    """
    what = type(row).__name__.removesuffix("Row").lower()
    for field in fields(row):
        value = getattr(row, field.name)
        if isinstance(value, str):
            storable(value, f"a {what}'s {field.name}")
    if isinstance(row, PayloadRow) and row.kind not in _KINDS:
        raise StoreError(f"a payload of the kind {row.kind!r} is not kept", hint=f"keep one of {sorted(_KINDS)}")
    changes: dict[str, Any] = {"org": row.org or None}  # fields of several types
    if isinstance(row, LinkRow):
        for ref in row.tool_refs:
            storable(f"{ref.name} {ref.hash} {ref.code}", "a link's tool_refs")
        changes["tool_refs"] = tuple(row.tool_refs)
    return replace(row, **changes)


def turn_of(link: LinkRow, envelope: EnvelopeRow | None, reason: str, payloads: Iterable[PayloadRow]) -> TurnRows:
    """Return what one turn leaves. Raises as ``kept`` does, and ``StoreError`` for what is of another link or org."""
    turn = TurnRows(
        kept(link), envelope and kept(envelope), storable(reason, "a reason"), tuple([kept(one) for one in payloads])
    )
    if turn.envelope and turn.envelope.link != link.id:
        raise StoreError(
            f"the envelope {turn.envelope.id!r} is of the link {turn.envelope.link!r}, not of {link.id!r}",
            hint="record it with its own link, or alone",
        )
    for org in {one.org for one in (turn.envelope, *turn.payloads) if one} - {turn.link.org}:
        raise StoreError(
            f"a turn of the org {turn.link.org!r} has an envelope or a payload of {org!r}",
            hint="record what is of one org together",
        )
    return turn


def transition_of(turn: TurnRows, last_id: str, last_hash: str) -> TransitionRow | None:
    """Return how a session's runtime hash moves by a turn; ``last_…`` are of the link that it recorded last."""
    link = turn.link
    if link.session is None or link.runtime_hash == last_hash:
        return None
    return TransitionRow(link.org, link.session, last_id, link.id, turn.reason, link.created_at)


def can_be(*texts: str | None) -> bool:
    """Say whether there can be a row with these texts; one that no database keeps is asked of none."""
    return all(is_storable(text) for text in texts if text)


def taken(what: str, id: str) -> StoreError:
    """Return the error for a second row of an id; ``what`` names it, with its article."""
    return StoreError(f"there is {what} {id!r} already")


def no_link(id: str) -> StoreError:
    """Return the error for a link that something refers to and that is not there."""
    return StoreError(f"there is no link {id!r} in this org", hint="record the link first")
