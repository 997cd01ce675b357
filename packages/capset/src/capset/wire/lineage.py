"""Links, envelopes and transitions on the wire: which exact versions ran (spec 2, F26–F29; spec 5, P12)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from pydantic_core import from_json

from capset.errors import DefinitionError, StoreError
from capset.evaluation.snapshot.envelope import SnapshotEnvelope, read_envelope
from capset.evaluation.snapshot.turns import StoredTurn
from capset.stores.base import EnvelopeRow, LinkRow, TransitionRow
from capset.wire.agents import Text
from capset.wire.shapes import AttachedJson, PageShape, Shape, StrictShape


class LinkInput(StrictShape):
    """A session whose current snapshot is to be stored, with data of the client.

    ``invocation`` says for whom this turn runs; only its hash is stored. ``context`` is stored in the envelope and
    ``metadata`` with the link; both are any JSON, and neither is hashed. Each of the three has at most 64 KiB.
    ``reason`` explains a change of the runtime hash, if there is one. The principal and the environment are never taken
    from this input.
    """

    session_id: Annotated[str, Field(min_length=1, max_length=200)]
    metadata: AttachedJson | None = None
    context: AttachedJson | None = None
    invocation: AttachedJson | None = None
    reason: Annotated[Text, Field(max_length=1_000)] = ""


class RefShape(Shape):
    """A name and a hash. ``code`` is the hash of a tool's code, null if unknown."""

    name: str
    hash: str
    code: str | None = None


class LinkShape(Shape):
    """The exact version that a turn used: hashes of 64 hexadecimal digits each, as defined by the ``profile``.

    ``tool_refs`` are the tools in play, by name. ``invocation_hash`` is null if there was no invocation.
    """

    id: str
    session_id: str | None = None
    agent_id: str
    agent_name: str
    static_hash: str
    runtime_hash: str
    prompt_hash: str
    invocation_hash: str | None = None
    profile: str
    tool_refs: list[RefShape]
    metadata: dict[str, Any]
    created_at: str


class TransitionShape(Shape):
    """A change of a session's runtime hash: between which links, why, and when."""

    session_id: str
    from_link: str
    to_link: str
    reason: str
    at: str


class StoredLinkShape(LinkShape):
    """A link that was just stored, the id of its envelope, and the transition if the session's runtime hash changed."""

    envelope_id: str
    transition: TransitionShape | None = None


class LinkPageShape(PageShape[LinkShape]):
    """A page of links, and the cursor of the next page, if any."""


class TransitionsShape(Shape):
    """The changes of a session's runtime hash, in the order in which they were recorded.

    At most the last 1,000, or the last megabyte.
    """

    items: list[TransitionShape]


class EnvelopeShape(Shape):
    """A stored evaluation, and the link that it belongs to."""

    id: str
    link_id: str | None = None
    created_at: str
    envelope: SnapshotEnvelope


def link_shape(row: LinkRow) -> LinkShape:
    """Return the wire shape of a link. Raises ``StoreError`` if its metadata was altered."""
    return LinkShape(**_link(row))


def stored_link_shape(turn: StoredTurn) -> StoredLinkShape:
    """Return the wire shape of a turn that was stored with its envelope."""
    if turn.envelope is None:
        raise ValueError("this turn was stored without an envelope")
    transition = transition_shape(turn.transition) if turn.transition else None
    return StoredLinkShape(**_link(turn.link), envelope_id=turn.envelope.id, transition=transition)


def transition_shape(row: TransitionRow) -> TransitionShape:
    """Return the wire shape of a transition."""
    return TransitionShape(
        session_id=row.session, from_link=row.from_link, to_link=row.to_link, reason=row.reason, at=row.at
    )


def envelope_shape(row: EnvelopeRow) -> EnvelopeShape:
    """Return the wire shape of an envelope. Raises ``StoreError`` if it was altered."""
    try:
        envelope = read_envelope(row.body)
    except DefinitionError as error:
        raise StoreError(f"the envelope {row.id} was changed: {error.message}") from None
    return EnvelopeShape(id=row.id, link_id=row.link, created_at=row.created_at, envelope=envelope)


def _link(row: LinkRow) -> dict[str, Any]:
    special = ("session_id", "tool_refs", "metadata")
    same = {name: getattr(row, name) for name in LinkShape.model_fields if name not in special}
    refs = [RefShape(name=ref.name, hash=ref.hash, code=ref.code) for ref in row.tool_refs]
    return {**same, "session_id": row.session, "tool_refs": refs, "metadata": _metadata(row)}


def _metadata(row: LinkRow) -> Any:  # LinkShape checks it
    try:
        return from_json(row.metadata)
    except ValueError:
        raise StoreError(f"the link {row.id} was changed: its metadata are not JSON") from None
