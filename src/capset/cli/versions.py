"""The versions that ``capset diff`` compares: files, standard input, or what a store keeps."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast
from uuid import UUID

from pydantic import ValidationError
from pydantic_core import from_json

from capset.errors import DefinitionError, NotFound, StoreError, closest
from capset.evaluation.envelope import read_envelope
from capset.evaluation.sides import Side, refs_in, side_of
from capset.fingerprint.diff import format_hash_short
from capset.fingerprint.links import CapabilityLink
from capset.fingerprint.payloads import Payload
from capset.stores.base import LineageStore, LinkRow

MAX_BYTES: Final = 64 * 1024 * 1024
_HASHES: Final = {"static_hash", "runtime_hash", "prompt_hash", "profile"}
_KINDS: Final = "an envelope, as SnapshotEnvelope.to_json() writes it, or a link, as model_dump_json() does"


def find(named: str) -> Side | UUID:
    """Return the version that a file, or ``-`` for standard input, holds; or the id of a stored one.

    Raises ``DefinitionError`` for what is neither, cannot be read, or holds no link and no envelope.
    """
    path = Path(named)
    if named == "-":
        return _read("stdin", sys.stdin.buffer.read(MAX_BYTES + 1))
    try:
        if path.exists():
            with path.open("rb") as file:
                return _read(named, file.read(MAX_BYTES + 1))
    except OSError as error:
        raise DefinitionError(f"{named}: cannot be read: {error.strerror}") from None
    try:
        return UUID(named)
    except ValueError:
        raise _nowhere(path) from None


async def stored(lineage: LineageStore, id: str) -> Side:
    """Return what is kept of a link or of an envelope, by its id; what an envelope leaves out, by its hash.

    Raises ``NotFound`` if there is neither, ``StoreError`` for what was changed since it was kept.
    """
    try:
        return await _stored(lineage, id)
    except (DefinitionError, ValueError) as error:
        raise StoreError(f"what is kept for {id} was changed: {error}", hint="restore it from a backup") from None


async def _stored(lineage: LineageStore, id: str) -> Side:
    row = await lineage.link(None, id)
    envelope = await (lineage.envelope(None, id) if row is None else lineage.envelope_of(None, id))
    if envelope is not None:
        side = side_of(read_envelope(envelope.body))
        if row is not None and side.link.model_dump(include=_HASHES) != _link(row).model_dump(include=_HASHES):
            raise StoreError(f"the envelope {envelope.id}, kept for the link {id}, holds another link")
    elif row is not None:
        side = Side(_link(row))
    else:
        latest = await lineage.latest_link(None, id)
        hint = f"it is a session; its latest link is {latest.id}" if latest else "a file is named by its path"
        raise NotFound(f"there is no link and no envelope {id!r}", hint=hint)
    return Side(side.link, await _payloads(lineage, side), side.envelope)


async def _payloads(lineage: LineageStore, side: Side) -> Mapping[str, Payload]:
    """Return all that is known of what a link's hashes cover."""
    known = dict(side.payloads)
    link = side.link
    pending = [link.static_hash, link.prompt_hash, *(ref.hash for ref in link.tool_refs)]
    seen: set[str] = set()
    while pending:
        wanted = pending.pop()
        if wanted in seen:
            continue
        seen.add(wanted)
        if wanted not in known:
            row = await lineage.payload(None, wanted)
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


def _read(named: str, text: bytes) -> Side:
    if len(text) > MAX_BYTES:
        raise DefinitionError(f"{named}: at most {MAX_BYTES} bytes are read")
    try:
        data: Any = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise DefinitionError(f"{named} is not JSON: {error}", hint=f"it must hold {_KINDS}") from None
    if not isinstance(data, dict) or not {"runtime", "runtime_hash"} & cast("dict[str, Any]", data).keys():
        raise DefinitionError(f"{named} holds no link and no envelope", hint=f"it must hold {_KINDS}")
    try:
        if "runtime" in data:
            return side_of(read_envelope(text))
        return Side(CapabilityLink.model_validate_json(text))
    except DefinitionError as error:
        raise DefinitionError(f"{named}: {error.message}", hint=error.hint) from None
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:5])
        raise DefinitionError(f"{named}: this is no link: {problems}", hint=f"it must hold {_KINDS}") from None


def _nowhere(path: Path) -> DefinitionError:
    try:
        meant = closest(path.name, (one.name for one in path.parent.iterdir()))
    except OSError:
        meant = None
    told = f"; did you mean {str(path.with_name(meant))!r}?" if meant else ""
    return DefinitionError(
        f"there is no file {str(path)!r}{told}", hint="or give the id of a link or an envelope that a store keeps"
    )
