"""What a store keeps of a version, as one side of a comparison (spec 2, F29, F31)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from pydantic_core import from_json

from capset.errors import DefinitionError, NotFound, StoreError
from capset.evaluation.envelope import read_envelope
from capset.evaluation.sides import Side, refs_in, side_of
from capset.fingerprint.diff import format_hash_short
from capset.fingerprint.links import CapabilityLink
from capset.fingerprint.payloads import Payload
from capset.stores.base import LineageStore, LinkRow

_HASHES: Final = {"static_hash", "runtime_hash", "prompt_hash", "profile"}


async def stored_side(lineage: LineageStore, org: str | None, id: str) -> Side:
    """Return what an org keeps of a link or of an envelope, by its id; what an envelope leaves out, by its hash.

    Raises ``NotFound`` if there is neither, ``StoreError`` for what was changed since it was kept.
    """
    try:
        return await _stored(lineage, org, id)
    except (DefinitionError, ValueError) as error:
        raise StoreError(f"what is kept for {id} was changed: {error}", hint="restore it from a backup") from None


async def _stored(lineage: LineageStore, org: str | None, id: str) -> Side:
    row = await lineage.link(org, id)
    envelope = await (lineage.envelope(org, id) if row is None else lineage.envelope_of(org, id))
    if envelope is not None:
        side = side_of(read_envelope(envelope.body))
        if row is not None and side.link.model_dump(include=_HASHES) != _link(row).model_dump(include=_HASHES):
            raise StoreError(f"the envelope {envelope.id}, kept for the link {id}, holds another link")
    elif row is not None:
        side = Side(_link(row))
    else:
        latest = await lineage.latest_link(org, id)
        hint = f"it is a session; its latest link is {latest.id}" if latest else "a file is named by its path"
        raise NotFound(f"there is no link and no envelope {id!r}", hint=hint)
    return Side(side.link, await _payloads(lineage, org, side), side.envelope)


async def _payloads(lineage: LineageStore, org: str | None, side: Side) -> Mapping[str, Payload]:
    """Return all that is known of what a link's hashes cover."""
    known = dict(side.payloads)
    link = side.link
    pending = [link.static_hash, link.prompt_hash, *(ref.hash for ref in link.tool_refs)]
    pending += [ref.code for ref in link.tool_refs if ref.code is not None]
    seen: set[str] = set()
    while pending:
        wanted = pending.pop()
        if wanted in seen:
            continue
        seen.add(wanted)
        if wanted not in known:
            row = await lineage.payload(org, wanted)
            if row is None or row.profile != link.profile:
                continue
            payload: Any = from_json(row.payload, allow_inf_nan=False)
            if not isinstance(payload, dict):
                raise DefinitionError(f"the payload of {format_hash_short(wanted)}… is no JSON object")
            known[wanted] = cast("Payload", payload)
        pending += [ref.hash for _, ref in refs_in(known[wanted])]
    return known


def _link(row: LinkRow) -> CapabilityLink:
    names = CapabilityLink.model_fields
    return CapabilityLink(**{name: getattr(row, name) for name in names})
