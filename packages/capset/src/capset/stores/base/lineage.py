"""The protocol of lineage: registrations, links, envelopes and the payloads of hashes (spec 2, F26–F29).

Lineage records the exact versions that ran. Everything belongs to an org, or to none (``None``); rows of other orgs are
invisible, and an id is unique within its org. Times are ISO 8601 UTC, hashes 64 hexadecimal digits. Rows are frozen, so
readers may keep them; a missing row is ``None``. Writing text that contains NUL or a lone surrogate raises
``StateError`` (400).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol

from capset.fingerprint.hashes import Ref
from capset.stores.base.pages import Page, Query

PayloadKind = Literal["tool", "toolkit", "dynamicToolkit", "capability", "agent", "block", "runtime", "prompt", "code"]
"""The kind of a payload, as named inside it. Payloads of invocations are never stored: they identify users."""


@dataclass(frozen=True, slots=True)
class RegistrationRow:
    """An agent's definition as declared, stored once for each of its static hashes; ``id`` is a UUIDv7."""

    id: str
    org: str | None
    agent_id: str
    agent_name: str
    static_hash: str
    profile: str
    created_at: str


@dataclass(frozen=True, slots=True)
class LinkRow:
    """One capability link: the hashes of one turn. ``id`` is a UUIDv7, ``metadata`` a JSON object as text.

    ``tool_refs`` are ordered by name, each with its code hash if known. ``session`` is any session id of the host,
    which may be one of capset's.
    """

    id: str
    org: str | None
    session: str | None
    agent_id: str
    agent_name: str
    static_hash: str
    runtime_hash: str
    prompt_hash: str
    invocation_hash: str | None
    profile: str
    tool_refs: tuple[Ref, ...]
    metadata: str
    created_at: str


@dataclass(frozen=True, slots=True)
class EnvelopeRow:
    """One snapshot envelope: ``body`` is a JSON object as text, ``link`` the id of its link."""

    id: str
    org: str | None
    link: str | None
    schema_version: str
    body: str
    created_at: str


@dataclass(frozen=True, slots=True)
class TransitionRow:
    """A change of a session's runtime hash, from one link to another, with reason and time."""

    org: str | None
    session: str
    from_link: str
    to_link: str
    reason: str
    at: str


@dataclass(frozen=True, slots=True)
class PayloadRow:
    """The canonical payload of a hash, as text."""

    org: str | None
    hash: str
    profile: str
    kind: PayloadKind
    payload: str


@dataclass(frozen=True, slots=True)
class LinkQuery(Query):
    """A query for the links of one org, optionally of one agent and one session; newest first, by id."""

    org: str | None
    agent_id: str | None = None
    session: str | None = None


RENEWAL_SECONDS: Final = 86_400
"""How long a process may name a hash in its records without storing the payload again."""


class LinksFull(Exception):
    """Raised for a link of a session that has the maximum number of links with an envelope; nothing was written."""


MAX_SEARCHED: Final = 10_000
"""The number of an organisation's newest links that are searched for a hash."""


class Sighting(NamedTuple):
    """A link that contains a hash: where and when."""

    link: str
    session: str | None
    agent_id: str
    agent_name: str
    created_at: str


@dataclass(frozen=True, slots=True)
class Sightings:
    """The links that contain a hash, newest first. ``since`` is the time of the oldest searched, if not all were."""

    items: tuple[Sighting, ...]
    since: str | None


class LineageStore(Protocol):
    """The record of exact versions. It is append-only, except for the choice of the latest registration.

    ``AuditLog.prune`` also removes the links from before its time, with their envelopes and transitions, and the
    payloads that were last named more than ``RENEWAL_SECONDS`` before it, unless a record, a link, a registration or an
    approval request of their org still names them, or the payload of one of these.
    """

    async def register(self, row: RegistrationRow) -> RegistrationRow:
        """Store a registration, or reuse the one with its agent id and static hash; return the stored one.

        The returned registration becomes the agent's latest. An existing one keeps its id, profile and time, and gets
        the new name of the agent. Raises ``StoreError`` if the id is taken.
        """
        ...

    async def latest_registration(self, org: str | None, agent_id: str) -> RegistrationRow | None:
        """Return an agent's latest registration, or ``None``."""
        ...

    async def record_turn(
        self,
        link: LinkRow,
        envelope: EnvelopeRow | None = None,
        *,
        reason: str = "",
        payloads: Iterable[PayloadRow] = (),
        max_links: int | None = None,
    ) -> TransitionRow | None:
        """Store a link, its envelope and the payloads of its hashes, atomically.

        If the session's last recorded link had another runtime hash, a transition with this ``reason`` is stored too,
        and returned. If a hash already has a payload, the first one is kept. Raises ``StoreError`` if the id of the
        link or the envelope is taken, for an envelope of another link, and for an envelope or a payload of another org;
        ``LinksFull`` if the session already has ``max_links`` links with an envelope.
        """
        ...

    async def link(self, org: str | None, id: str) -> LinkRow | None:
        """Return a link, or ``None``."""
        ...

    async def latest_link(self, org: str | None, session: str) -> LinkRow | None:
        """Return a session's last recorded link, or ``None``."""
        ...

    async def links(self, query: LinkQuery) -> Page[LinkRow]:
        """Return links, newest first: by id, regardless of the order in which they were recorded."""
        ...

    async def sightings(self, org: str | None, hash: str, *, max_searched: int = MAX_SEARCHED) -> Sightings:
        """Return the links that contain a hash, among the newest ``max_searched`` of an org.

        The hash is that of an agent (as declared or in a turn), a prompt, a tool, or a tool's code.
        """
        ...

    async def record_envelope(self, row: EnvelopeRow) -> None:
        """Store an envelope. Raises ``StoreError`` if its id is taken, or its link is not in its org."""
        ...

    async def envelope(self, org: str | None, id: str) -> EnvelopeRow | None:
        """Return an envelope, or ``None``."""
        ...

    async def envelope_of(self, org: str | None, link: str) -> EnvelopeRow | None:
        """Return the envelope of a link, the latest if there are several, or ``None``."""
        ...

    async def record_transition(self, row: TransitionRow) -> None:
        """Store a transition. Raises ``StoreError`` unless both links exist."""
        ...

    async def transitions(self, org: str | None, session: str) -> tuple[TransitionRow, ...]:
        """Return a session's last 1,000 transitions, at most, in recording order."""
        ...

    async def record_payloads(self, payloads: Iterable[PayloadRow], *, named_at: str) -> None:
        """Store the payloads of hashes, each once. The payload of a runtime hash is its runtime refs.

        ``named_at`` is the time at which the hashes are named; it counts for those that were stored before, too. Raises
        ``StoreError`` if the kind of a payload is unknown, as ``record_turn`` does.
        """
        ...

    async def payload(self, org: str | None, hash: str) -> PayloadRow | None:
        """Return the payload of a hash, or ``None``."""
        ...
