"""Lineage in memory."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from capset.definitions.governance.approvals import ApprovalRow
from capset.stores.base import (
    EnvelopeRow,
    LinkQuery,
    LinkRow,
    Page,
    PayloadRow,
    RegistrationRow,
    Sighting,
    Sightings,
    TransitionRow,
)
from capset.stores.base.lineage import MAX_SEARCHED, LinksFull
from capset.stores.memory.lifecycle import Lifecycle
from capset.stores.pages import filters_of, page_by_id
from capset.stores.retention import REFERRING_KINDS, reachable, unnamed_before
from capset.stores.rows import (
    MAX_TRANSITIONS,
    are_storable,
    id_taken_error,
    missing_link_error,
    stored_row,
    transition_of,
    turn_of,
)

Key = tuple[str, str]
"""An org, ``""`` for none, and an id within it."""


class MemoryLineage:
    """All rows, by org and id. Each method checks all its arguments before it stores anything."""

    def __init__(self, lifecycle: Lifecycle, approvals: Mapping[str, ApprovalRow]) -> None:
        """``approvals`` has the approval requests, which name hashes too."""
        self._lifecycle = lifecycle
        self._approvals = approvals
        # By agent, then by static hash. An agent's latest registration comes last.
        self._registrations: defaultdict[Key, dict[str, RegistrationRow]] = defaultdict(dict)
        self._registered: set[Key] = set()
        self._links: dict[Key, LinkRow] = {}
        self._last: dict[Key, LinkRow] = {}  # by session
        self._envelopes: dict[Key, EnvelopeRow] = {}
        self._envelope_of: dict[Key, EnvelopeRow] = {}  # by link
        self._transitions: defaultdict[Key, deque[TransitionRow]] = defaultdict(lambda: deque(maxlen=MAX_TRANSITIONS))
        self._payloads: dict[Key, PayloadRow] = {}
        self._named_at: dict[Key, str] = {}  # by org and hash of a payload

    async def register(self, row: RegistrationRow) -> RegistrationRow:
        self._lifecycle.check()
        row = stored_row(row)
        of_agent = self._registrations[_key(row.org, row.agent_id)]
        if (existing := of_agent.pop(row.static_hash, None)) is not None:
            row = replace(existing, agent_name=row.agent_name)
        elif _key(row.org, row.id) in self._registered:
            raise id_taken_error("a registration", row.id)
        self._registered.add(_key(row.org, row.id))
        of_agent[row.static_hash] = row
        return row

    async def latest_registration(self, org: str | None, agent_id: str) -> RegistrationRow | None:
        self._lifecycle.check()
        of_agent = self._registrations.get(_key(org, agent_id), {})
        return next(reversed(of_agent.values()), None)

    async def record_turn(
        self,
        link: LinkRow,
        envelope: EnvelopeRow | None = None,
        *,
        reason: str = "",
        payloads: Iterable[PayloadRow] = (),
        max_links: int | None = None,
    ) -> TransitionRow | None:
        self._lifecycle.check()
        turn = turn_of(link, envelope, reason, payloads)
        link, envelope = turn.link, turn.envelope
        key = _key(link.org, link.id)
        if key in self._links:
            raise id_taken_error("a link", link.id)
        if envelope and _key(envelope.org, envelope.id) in self._envelopes:
            raise id_taken_error("an envelope", envelope.id)
        if max_links is not None and link.session is not None:
            owner = (link.org, link.session)
            with_envelopes = self._links.keys() & self._envelope_of.keys()
            if sum((self._links[key].org, self._links[key].session) == owner for key in with_envelopes) >= max_links:
                raise LinksFull
        self._links[key] = link
        if envelope:
            self._keep_envelope(envelope)
        self._keep_payloads(turn.payloads, link.created_at)
        if link.session is None:
            return None
        session = _key(link.org, link.session)
        last, self._last[session] = self._last.get(session), link
        transition = transition_of(turn, last.id, last.runtime_hash) if last else None
        if transition:
            self._transitions[session].append(transition)
        return transition

    async def link(self, org: str | None, id: str) -> LinkRow | None:
        self._lifecycle.check()
        return self._links.get(_key(org, id))

    async def latest_link(self, org: str | None, session: str) -> LinkRow | None:
        self._lifecycle.check()
        return self._last.get(_key(org, session))

    async def links(self, query: LinkQuery) -> Page[LinkRow]:
        self._lifecycle.check()
        if not are_storable(query.before):
            return Page((), None)
        filters = filters_of(query, ("agent_id", "session"))
        return page_by_id(self._links.values(), query, {"org": query.org or None, **filters})

    async def sightings(self, org: str | None, hash: str, *, max_searched: int = MAX_SEARCHED) -> Sightings:
        self._lifecycle.check()
        of_org = sorted((row for row in self._links.values() if row.org == (org or None)), key=lambda row: row.id)
        newest = of_org[::-1][:max_searched]
        sighted = [
            Sighting(row.id, row.session, row.agent_id, row.agent_name, row.created_at)
            for row in newest
            if hash in (row.static_hash, row.runtime_hash, row.prompt_hash)
            or any(hash in (ref.hash, ref.code) for ref in row.tool_refs)
        ]
        return Sightings(tuple(sighted), newest[-1].created_at if len(of_org) > max_searched else None)

    async def record_envelope(self, row: EnvelopeRow) -> None:
        self._lifecycle.check()
        row = stored_row(row)
        if row.link is not None:
            self._require_link(row.org, row.link)
        if _key(row.org, row.id) in self._envelopes:
            raise id_taken_error("an envelope", row.id)
        self._keep_envelope(row)

    async def envelope(self, org: str | None, id: str) -> EnvelopeRow | None:
        self._lifecycle.check()
        return self._envelopes.get(_key(org, id))

    async def envelope_of(self, org: str | None, link: str) -> EnvelopeRow | None:
        self._lifecycle.check()
        return self._envelope_of.get(_key(org, link))

    async def record_transition(self, row: TransitionRow) -> None:
        self._lifecycle.check()
        row = stored_row(row)
        self._require_link(row.org, row.from_link)
        self._require_link(row.org, row.to_link)
        self._transitions[_key(row.org, row.session)].append(row)

    async def transitions(self, org: str | None, session: str) -> tuple[TransitionRow, ...]:
        self._lifecycle.check()
        return tuple(self._transitions.get(_key(org, session), ()))

    async def record_payloads(self, payloads: Iterable[PayloadRow], *, named_at: str) -> None:
        self._lifecycle.check()
        self._keep_payloads([stored_row(row) for row in payloads], named_at)

    async def payload(self, org: str | None, hash: str) -> PayloadRow | None:
        self._lifecycle.check()
        return self._payloads.get(_key(org, hash))

    def prune(self, before: str, named: Iterable[Key]) -> None:
        """Remove the links from before a time, and the payloads that nothing has named for long.

        ``named`` are the orgs and hashes that the remaining records name.
        """
        old = {key for key, row in self._links.items() if row.created_at < before}
        for by_key in (self._links, self._envelope_of):
            for key in old & by_key.keys():
                del by_key[key]
        self._last = {session: row for session, row in self._last.items() if _key(row.org, row.id) not in old}
        self._envelopes = {
            key: row for key, row in self._envelopes.items() if row.link is None or _key(row.org, row.link) not in old
        }
        for session, rows in self._transitions.items():
            remaining = [row for row in rows if not {_key(row.org, row.from_link), _key(row.org, row.to_link)} & old]
            self._transitions[session] = deque(remaining, maxlen=MAX_TRANSITIONS)
        limit = unnamed_before(before)
        stale = [key for key, at in self._named_at.items() if at < limit]
        by_org: dict[str, set[str]] = {org: set() for org, _ in stale}
        for org, payload_hash in (*named, *self._named_hashes()):
            if org in by_org:
                by_org[org].add(payload_hash)
        in_use = {org: reachable(hashes, partial(self._referring, org)) for org, hashes in by_org.items()}
        for org, payload_hash in stale:
            if payload_hash not in in_use[org]:
                del self._payloads[org, payload_hash], self._named_at[org, payload_hash]

    def _named_hashes(self) -> Iterable[Key]:
        for (org, _), of_agent in self._registrations.items():
            for static_hash in of_agent:
                yield org, static_hash
        for link in self._links.values():
            for ref in link.tool_refs:
                yield from (_key(link.org, name) for name in (ref.hash, ref.code) if name)
            for name in (link.static_hash, link.runtime_hash, link.prompt_hash):
                yield _key(link.org, name)
        for request in self._approvals.values():
            for name in (request.tool_hash, request.runtime_hash, request.code_hash):
                if name:
                    yield _key(request.org, name)

    def _referring(self, org: str, hashes: Iterable[str]) -> Iterable[str]:
        rows = [self._payloads[key] for payload_hash in hashes if (key := (org, payload_hash)) in self._payloads]
        return [row.payload for row in rows if row.kind in REFERRING_KINDS]

    def _require_link(self, org: str | None, id: str) -> None:
        if _key(org, id) not in self._links:
            raise missing_link_error(id)

    def _keep_envelope(self, row: EnvelopeRow) -> None:
        self._envelopes[_key(row.org, row.id)] = row
        if row.link is not None:
            self._envelope_of[_key(row.org, row.link)] = row

    def _keep_payloads(self, payloads: Iterable[PayloadRow], named_at: str) -> None:
        for row in payloads:
            key = _key(row.org, row.hash)
            self._payloads.setdefault(key, row)
            self._named_at[key] = max(named_at, self._named_at.get(key, ""))


def _key(org: str | None, id: str) -> Key:
    return org or "", id
