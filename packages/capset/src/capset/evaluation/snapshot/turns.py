"""Recording a turn: its link and envelope as rows, written in one transaction (spec 2, F28–F30)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from capset.clock import Clock, SystemClock, iso
from capset.composition.compose import Composition, compose
from capset.definitions.blocks import Block
from capset.errors import DefinitionError, InvalidArguments
from capset.evaluation.code import known_code
from capset.evaluation.snapshot.capture import Captured
from capset.evaluation.snapshot.envelope import SnapshotEnvelope
from capset.fingerprint.canonical import PROFILE, NotCanonical, canonical
from capset.fingerprint.links import CapabilityLink
from capset.fingerprint.payloads import Payload, prompt_payload, runtime_payload
from capset.ids import Ids
from capset.stores.base import EnvelopeRow, LinkRow, PayloadKind, PayloadRow, RegistrationRow, Store, TransitionRow


@dataclass(frozen=True, slots=True)
class OpContext:
    """Values shared by all rows of one operation: the org, the time in ISO 8601 UTC, and the source of ids."""

    org: str | None
    now: str
    ids: Ids


class StoredTurn(NamedTuple):
    """The stored rows of one turn. ``transition`` is set if the session's runtime hash has changed."""

    link: LinkRow
    envelope: EnvelopeRow | None
    transition: TransitionRow | None


def op_context(org: str | None = None, *, clock: Clock | None = None) -> OpContext:
    """Return the context of an operation at the current time of ``clock``, by default the system's."""
    clock = clock or SystemClock()
    return OpContext(org, iso(clock.time_ns()), Ids(clock))


def registration_row(agent: Block | Composition, *, agent_id: str | None = None, op: OpContext) -> RegistrationRow:
    """Return the row for an agent's definition. ``agent_id`` defaults to its name."""
    composition = agent if isinstance(agent, Composition) else compose(agent)
    name = composition.block.name
    return RegistrationRow(
        op.ids.new(), op.org, name if agent_id is None else agent_id, name, composition.static_hash, PROFILE, op.now
    )


def link_row(
    link: CapabilityLink, *, session: str | None = None, metadata: Mapping[str, Any] | None = None, op: OpContext
) -> LinkRow:
    """Return a link as a row. Raises ``InvalidArguments`` for metadata that is not JSON data."""
    raw_metadata = cast("object", {} if metadata is None else metadata)
    if not isinstance(raw_metadata, Mapping):
        raise InvalidArguments(f"metadata must be a mapping of names to JSON data; got {raw_metadata!r:.80}")
    try:
        canonical(raw_metadata)
        text = json.dumps(raw_metadata, ensure_ascii=False, default=dict)
    except (NotCanonical, ValueError) as error:
        raise InvalidArguments(f"metadata must be JSON data: {error}") from None
    return LinkRow(
        op.ids.new(),
        op.org,
        session,
        link.agent_id,
        link.agent_name,
        link.static_hash,
        link.runtime_hash,
        link.prompt_hash,
        link.invocation_hash,
        link.profile,
        link.tool_refs,
        text,
        op.now,
    )


def envelope_row(envelope: SnapshotEnvelope, *, link: str | None = None, op: OpContext) -> EnvelopeRow:
    """Return an envelope as a row; ``link`` is the id of its link's row."""
    return EnvelopeRow(op.ids.new(), op.org, link, envelope.schema_version, envelope.to_json(), op.now)


async def record_turn(
    store: Store,
    captured: Captured | SnapshotEnvelope | CapabilityLink,
    *,
    session: str | None = None,
    org: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    reason: str = "",
    clock: Clock | None = None,
) -> LinkRow:
    """Store a turn as ``store_turn`` does, and return the stored link."""
    turn = await store_turn(store, captured, session=session, org=org, metadata=metadata, reason=reason, clock=clock)
    return turn.link


async def store_turn(
    store: Store,
    captured: Captured | SnapshotEnvelope | CapabilityLink,
    *,
    session: str | None = None,
    org: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    reason: str = "",
    clock: Clock | None = None,
    max_links: int | None = None,
) -> StoredTurn:
    """Store a turn in one transaction, and return its rows.

    Stores the link, the envelope if there is one, the payloads of its hashes, and, if the session's runtime hash has
    changed, a transition with this ``reason``. ``metadata`` is the host's JSON data, such as the raw invocation. Raises
    ``StoreError``, ``InvalidArguments`` for metadata that is not JSON data, ``DefinitionError`` for an envelope that
    was changed after its capture, and ``LinksFull`` if the session already has ``max_links`` links with
    an envelope.
    """
    op = op_context(org, clock=clock)
    envelope = captured.envelope if isinstance(captured, Captured) else captured
    if isinstance(envelope, CapabilityLink):
        row = link_row(envelope, session=session, metadata=metadata, op=op)
        return StoredTurn(row, None, await store.lineage.record_turn(row, reason=reason, max_links=max_links))
    row = link_row(envelope.link, session=session, metadata=metadata, op=op)
    stored_envelope = envelope_row(envelope, link=row.id, op=op)
    payloads = payload_rows(envelope, org)
    transition = await store.lineage.record_turn(
        row, stored_envelope, reason=reason, payloads=payloads, max_links=max_links
    )
    return StoredTurn(row, stored_envelope, transition)


def payload_rows(envelope: SnapshotEnvelope, org: str | None) -> Iterator[PayloadRow]:
    """Yield the payloads of an envelope's hashes, except the invocation's, which identifies the end user.

    Payloads of code are included only for code that this process has read itself. Raises ``DefinitionError`` for an
    envelope that was changed, since a store keeps the first payload that it gets for a hash.
    """
    runtime, static = envelope.runtime, envelope.static
    payloads: list[tuple[str, Payload]] = [(tool.hash, tool.payload) for tool in runtime.tools]
    payloads.append((runtime.link.runtime_hash, runtime_payload(ref.payload for ref in runtime.link.tool_refs)))
    payloads.append((runtime.link.prompt_hash, prompt_payload(runtime.system_prompt, runtime.instructions)))
    if static is not None:
        payloads.append((static.hash, static.payload))
        payloads += [(part.hash, part.payload) for part in static.parts]
    for payload_hash, payload in payloads:
        kind = cast("PayloadKind", str(payload.get("kind")))
        yield PayloadRow(org, payload_hash, envelope.profile, kind, _text(payload_hash, payload, envelope.profile))
    for payload_hash in dict.fromkeys(ref.code for ref in runtime.link.tool_refs):
        if payload_hash is not None and (code := known_code(payload_hash)) is not None and code.covers is not None:
            yield PayloadRow(org, payload_hash, PROFILE, "code", code.covers)


def _text(payload_hash: str, payload: Payload, profile: str) -> str:
    """Return a payload's canonical text. Checks its hash, unless the hash profile is unknown."""
    try:
        text = canonical(payload)
    except NotCanonical as error:
        raise DefinitionError(f"a payload of the envelope cannot be hashed, at {error}") from None
    if profile == PROFILE and hashlib.sha256(text).hexdigest() != payload_hash:
        raise DefinitionError(
            f"the envelope's payload for {payload_hash[:12]}… does not match that hash: it was changed "
            "after its capture",
            hint="record the result of capture() unchanged",
        )
    return text.decode()
