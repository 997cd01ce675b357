"""The two sides of a comparison, from an envelope or a store (spec 2, F29, F31)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from capset.errors import DefinitionError, NotFound, StoreError
from capset.evaluation.snapshot.envelope import SnapshotEnvelope, read_envelope
from capset.fingerprint.canonical import PROFILE, NotCanonical, digest, read
from capset.fingerprint.diff import format_hash_short
from capset.fingerprint.hashes import Ref, runtime_hash
from capset.fingerprint.links import CapabilityLink
from capset.fingerprint.payloads import Payload, prompt_payload
from capset.stores.base import LineageStore, LinkRow


@dataclass(frozen=True, slots=True)
class Side:
    """One of two versions. ``payloads`` has the known payloads by hash; ``envelope`` is set if there is one.

    Raises ``DefinitionError`` if data does not match its hash: it was changed, and a comparison would mislead. Hashes
    of an unknown hash profile cannot be recomputed and are not checked.
    """

    link: CapabilityLink
    payloads: Mapping[str, Payload] = field(default_factory=dict[str, Payload])
    envelope: SnapshotEnvelope | None = None

    def __post_init__(self) -> None:
        if self.link.profile != PROFILE:
            return
        if runtime_hash(self.link.tool_refs) != self.link.runtime_hash:
            raise _changed_error("the tools of the link do not match its runtime hash", self.link.runtime_hash)
        for expected, payload in self.payloads.items():
            try:
                actual = digest(payload)
            except NotCanonical as error:
                raise _changed_error(f"a payload cannot be hashed, at {error},", expected) from None
            if actual != expected:
                raise _changed_error(f"the payload of {_payload_label(payload)} does not match its hash", expected)


def side_of(envelope: SnapshotEnvelope) -> Side:
    """Return the side for an envelope. Raises ``DefinitionError`` if its parts do not match its link or its hashes."""
    link, static = envelope.link, envelope.static
    if envelope.profile != link.profile:
        raise _changed_error("the profile is not that of the link", link.runtime_hash)
    if {Ref(tool.name, tool.hash) for tool in envelope.runtime.tools} != set(link.tool_refs):
        raise _changed_error("the tools are not those of the link", link.runtime_hash)
    if static is not None and static.hash != link.static_hash:
        raise _changed_error("the static part is not that of the link", link.static_hash)
    return Side(link, _payloads(envelope), envelope)


def _payloads(envelope: SnapshotEnvelope) -> dict[str, Payload]:
    runtime = envelope.runtime
    parts = (*(envelope.static.parts if envelope.static else ()), *runtime.tools)
    payloads: dict[str, Payload] = {part.hash: part.payload for part in parts}
    if envelope.static is not None:
        payloads[envelope.static.hash] = envelope.static.payload
    payloads[envelope.link.prompt_hash] = prompt_payload(runtime.system_prompt, runtime.instructions)
    return payloads


def refs_in(payload: Payload) -> Iterator[tuple[str, Ref]]:
    """Yield each ref in a payload with its key. Skips malformed refs."""
    if isinstance(root := payload.get("root"), str):
        yield "root", Ref("root", root)
    for key in ("capabilities", "children", "uses", "members", "tools"):
        refs = payload.get(key)
        for ref in cast("list[Any]", refs) if isinstance(refs, list) else ():
            match ref:
                case {"name": str(name), "hash": str(hash)}:
                    yield key, Ref(name, hash)
                case _:
                    pass


def _payload_label(payload: Payload) -> str:
    name = f" {payload['name']!r}" if "name" in payload else ""
    return f"the {payload.get('kind', 'nothing')}{name}"


def _changed_error(label: str, expected: str) -> DefinitionError:
    return DefinitionError(
        f"{label} {format_hash_short(expected)}…: it was changed after its capture",
        hint="compare unchanged data: to_json() of an envelope, or model_dump_json() of a link",
    )


_COMPARED_FIELDS: Final = {"static_hash", "runtime_hash", "prompt_hash", "profile"}


async def stored_side(lineage: LineageStore, org: str | None, id: str) -> Side:
    """Return the side for an org's stored link or envelope. Payloads missing from an envelope are read by their hash.

    Raises ``NotFound`` if ``id`` is neither, and ``StoreError`` if the stored data was changed.
    """
    try:
        return await _read_side(lineage, org, id)
    except (DefinitionError, ValueError) as error:
        raise StoreError(f"the stored data for {id} was changed: {error}", hint="restore it from a backup") from None


async def _read_side(lineage: LineageStore, org: str | None, id: str) -> Side:
    row = await lineage.link(org, id)
    envelope = await (lineage.envelope(org, id) if row is None else lineage.envelope_of(org, id))
    if envelope is not None:
        side = side_of(read_envelope(envelope.body))
        if row is not None and side.link.model_dump(include=_COMPARED_FIELDS) != _link(row).model_dump(
            include=_COMPARED_FIELDS
        ):
            raise StoreError(f"the envelope {envelope.id}, stored for the link {id}, contains another link")
    elif row is not None:
        side = Side(_link(row))
    else:
        latest = await lineage.latest_link(org, id)
        hint = f"it is a session; its latest link is {latest.id}" if latest else "for a file, give its path"
        raise NotFound(f"there is no link and no envelope {id!r}", hint=hint)
    return Side(side.link, await _stored_payloads(lineage, org, side), side.envelope)


async def _stored_payloads(lineage: LineageStore, org: str | None, side: Side) -> Mapping[str, Payload]:
    """Return the payloads of a link's hashes, as far as they are stored."""
    payloads = dict(side.payloads)
    link = side.link
    pending = [link.static_hash, link.prompt_hash, *(ref.hash for ref in link.tool_refs)]
    pending += [ref.code for ref in link.tool_refs if ref.code is not None]
    visited: set[str] = set()
    while pending:
        payload_hash = pending.pop()
        if payload_hash in visited:
            continue
        visited.add(payload_hash)
        if payload_hash not in payloads:
            row = await lineage.payload(org, payload_hash)
            if row is None or row.profile != link.profile:
                continue
            payload: Any = read(row.payload)
            if not isinstance(payload, dict):
                raise DefinitionError(f"the payload of {format_hash_short(payload_hash)}… is not a JSON object")
            payloads[payload_hash] = cast("Payload", payload)
        pending += [ref.hash for _, ref in refs_in(payloads[payload_hash])]
    return payloads


def _link(row: LinkRow) -> CapabilityLink:
    names = CapabilityLink.model_fields
    return CapabilityLink(**{name: getattr(row, name) for name in names})
