"""The input of a static hash: the definition, and every payload that it refers to (spec 2, F3–F7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from capset.composition.resolve import CapabilityUse
from capset.definitions.blocks import Block
from capset.definitions.capabilities import AnyCapability
from capset.definitions.tools.toolkits import Member, Toolkit
from capset.fingerprint.canonical import digest
from capset.fingerprint.hashes import (
    Ref,
    definition_hash,
    definition_payload,
    member_payload,
    member_ref,
    reference_payload,
    tool_hash,
)
from capset.fingerprint.payloads import Payload, root_payload

if TYPE_CHECKING:
    from capset.composition.compose import Composition


class FingerprintedPart(NamedTuple):
    """A name, a hash, and the payload that the hash covers."""

    name: str
    hash: str
    payload: Payload


def static_hash(block: Block, uses: Iterable[CapabilityUse], children: Iterable[Ref]) -> str:
    """Return the hash of a definition, its contributing capabilities, and the hashes of its nested blocks."""
    return definition_hash(block, [Ref(capability.name, capability.hash) for capability in _used(uses)], children)


def static_parts(composition: Composition) -> tuple[FingerprintedPart, ...]:
    """Return everything that ``static_hash`` covers, each part once: the definition, then what its payload refers to.

    These are the capabilities as used, the toolkits, every tool, and the nested blocks with all of theirs.
    """
    parts: dict[str, FingerprintedPart] = {}
    for part in _parts(composition, set()):
        parts.setdefault(part.hash, part)
    return tuple(parts.values())


def collect_tool_hashes(composition: Composition) -> dict[str, str]:
    """Return the hash of every tool of a composition, by its name there, without tools made at run time."""
    return {name: tool_hash(installed.tool) for name, installed in composition.tools.items()}


def _parts(composition: Composition, visited: set[Composition]) -> Iterator[FingerprintedPart]:
    if composition in visited:
        return
    visited.add(composition)
    block, children = composition.block, tuple(composition.children.values())
    used = list(_used(composition.capability_uses))
    payload = definition_payload(
        block,
        [Ref(entry.name, entry.hash) for entry in used],
        [Ref(entry.block.name, entry.static_hash) for entry in children],
    )
    yield FingerprintedPart(block.name, composition.static_hash, payload)
    if block.part.members or block.part.policies:
        root = root_payload(block, [member_ref(member).payload for member in block.part.members])
        yield FingerprintedPart("root", digest(root), root)
    yield from used
    yield from _members(block.part.members, {})
    for use in composition.capability_uses:
        for _, part in use.parts:
            yield from _members(part.members, use.names)
    for child in children:
        yield from _parts(child, visited)


def _used(uses: Iterable[CapabilityUse]) -> Iterator[FingerprintedPart]:
    hashes: dict[AnyCapability, str] = {}
    for use in uses:
        payload = reference_payload(
            use.capability,
            presets=use.presets,
            config=use.config,
            names=use.names,
            uses=hashes,
            with_base=use.is_base,
            prefix=use.prefix,
        )
        payload_hash = digest(payload)
        hashes.setdefault(use.capability, payload_hash)
        yield FingerprintedPart(use.capability.name, payload_hash, payload)


def _members(members: Iterable[Member], names: Mapping[str, str]) -> Iterator[FingerprintedPart]:
    for member in members:
        ref = member_ref(member, names)
        yield FingerprintedPart(ref.name, ref.hash, member_payload(member, names))
        if isinstance(member, Toolkit):
            yield from _members(member.members, names)
