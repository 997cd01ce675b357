"""The protocol of lineage: registrations, links, envelopes and the payloads of hashes (spec 2, F26–F29).

Lineage records the exact versions that ran. Everything belongs to an org, ``None`` for none; rows of other orgs are
invisible, and an id is unique within its org. Times are ISO 8601 UTC, hashes 64 hexadecimal digits. Rows are frozen, so
a reader may use them as its own; a missing row is ``None``. Writing text with NUL or a lone surrogate in it raises
``StateError`` (400).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol

from capset.fingerprint.hashes import Ref
from capset.stores.base.pages import Page, Query

PayloadKind = Literal["tool", "toolkit", "dynamicToolkit", "capability", "agent", "block", "runtime", "prompt", "code"]
"""The kind of a payload, by the name that it carries itself. An invocation's is never stored: it identifies a user."""


@dataclass(frozen=True, slots=True)
class RegistrationRow:
    """An agent's definition as it was declared, once for each of its static hashes; ``id`` is a UUIDv7."""

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

    ``tool_refs`` are by name, each with the hash of its code if that is known. ``session`` is any id that the host
    gives its sessions, capset's own among them.
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
    """One snapshot envelope: ``body`` is a JSON object as text, ``link`` the id of the link that it belongs to."""

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
    """A query for links of one org, of one agent and one session if given; newest first, by id."""

    org: str | None
    agent_id: str | None = None
    session: str | None = None


class LinksFull(Exception):
    """Raised for a link of a session that has as many as it may have; nothing was written."""


SIGHTED: Final = 10_000
"""Number of an organisation's newest links among which a hash is looked for."""


class Sighting(NamedTuple):
    """A link that names a hash: where and when."""

    link: str
    session: str | None
    agent_id: str
    agent_name: str
    created_at: str


@dataclass(frozen=True, slots=True)
class Sightings:
    """The links that name a hash, newest first, and the time of the oldest that was looked at, if there are older."""

    items: tuple[Sighting, ...]
    since: str | None


class LineageStore(Protocol):
    """The record of exact versions. Append-only, except for which registration is the latest."""

    async def register(self, row: RegistrationRow) -> RegistrationRow:
        """Store a registration, or reuse that of its agent id and static hash; return the stored one.

        The returned registration becomes the agent's latest. An existing one keeps its id, profile and time, and takes
        the agent's name. Raises ``StoreError`` if its id is taken.
        """
        ...

    async def latest_registration(self, org: str | None, agent_id: str) -> RegistrationRow | None:
        """Return an agent's last registration, or ``None``."""
        ...

    async def record_turn(
        self,
        link: LinkRow,
        envelope: EnvelopeRow | None = None,
        *,
        reason: str = "",
        payloads: Iterable[PayloadRow] = (),
        most: int | None = None,
    ) -> TransitionRow | None:
        """Store a link, its envelope and the payloads of its hashes, all of them or nothing.

        If the session's last recorded link had another runtime hash, a transition with this ``reason`` is stored too,
        and returned. Of two payloads of one hash the first stays. Raises ``StoreError`` if the id of the link or of the
        envelope is taken, for an envelope of another link, and for an envelope or a payload of another org;
        ``LinksFull`` if its session has ``most`` links already.
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

    async def sightings(self, org: str | None, hash: str, *, looked: int = SIGHTED) -> Sightings:
        """Return the links of an org, of the newest ``looked``, that name a hash.

        It is that of an agent, as declared or in a turn, of a prompt, of a tool, or of a tool's code.
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
        """Return a session's transitions in recording order, at most the last 1,000."""
        ...

    async def record_payloads(self, payloads: Iterable[PayloadRow]) -> None:
        """Store the payloads of hashes, each once: runtime refs are the payload of a runtime hash.

        Raises ``StoreError`` for a payload of no known kind, as ``record_turn`` does.
        """
        ...

    async def payload(self, org: str | None, hash: str) -> PayloadRow | None:
        """Return the payload of a hash, or ``None``."""
        ...
