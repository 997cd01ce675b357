"""The input of a static hash: the definition, and every payload that it refers to (spec 2, F3–F7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from capset.composition.resolve import Chosen
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
    tool_hash,
    used_payload,
)
from capset.fingerprint.payloads import Payload, root_payload

if TYPE_CHECKING:
    from capset.composition.compose import Composition


class Fingerprinted(NamedTuple):
    """A name, a hash, and the payload that the hash covers."""

    name: str
    hash: str
    payload: Payload


def static_hash(block: Block, chosen: Iterable[Chosen], children: Iterable[Ref]) -> str:
    """Return the hash of a definition, its contributing capabilities, and the hashes of its nested blocks."""
    return definition_hash(block, [Ref(capability.name, capability.hash) for capability in _used(chosen)], children)


def static_parts(composition: Composition) -> tuple[Fingerprinted, ...]:
    """Return everything that ``static_hash`` covers, each part once: the definition, then what its payload refers to.

    These are the capabilities as used, the toolkits, every tool, and the nested blocks with all of theirs.
    """
    parts: dict[str, Fingerprinted] = {}
    for part in _parts(composition, set()):
        parts.setdefault(part.hash, part)
    return tuple(parts.values())


def collect_tool_hashes(composition: Composition) -> dict[str, str]:
    """Return the hash of every tool of a composition, by its name there, without tools made at run time."""
    return {name: tool_hash(installed.tool) for name, installed in composition.tools.items()}


def _parts(composition: Composition, visited: set[Composition]) -> Iterator[Fingerprinted]:
    if composition in visited:
        return
    visited.add(composition)
    block, children = composition.block, tuple(composition.children.values())
    used = list(_used(composition.chosen))
    payload = definition_payload(
        block,
        [Ref(entry.name, entry.hash) for entry in used],
        [Ref(entry.block.name, entry.static_hash) for entry in children],
    )
    yield Fingerprinted(block.name, composition.static_hash, payload)
    if block.part.members or block.part.policies:
        root = root_payload(block, [member_ref(member).payload for member in block.part.members])
        yield Fingerprinted("root", digest(root), root)
    yield from used
    yield from _members(block.part.members, {})
    for choice in composition.chosen:
        for _, part in choice.parts:
            yield from _members(part.members, choice.names)
    for child in children:
        yield from _parts(child, visited)


def _used(chosen: Iterable[Chosen]) -> Iterator[Fingerprinted]:
    hashes: dict[AnyCapability, str] = {}
    for choice in chosen:
        payload = used_payload(
            choice.capability,
            presets=choice.presets,
            config=choice.config,
            names=choice.names,
            uses=hashes,
            with_base=choice.is_base,
            prefix=choice.prefix,
        )
        payload_hash = digest(payload)
        hashes.setdefault(choice.capability, payload_hash)
        yield Fingerprinted(choice.capability.name, payload_hash, payload)


def _members(members: Iterable[Member], names: Mapping[str, str]) -> Iterator[Fingerprinted]:
    for member in members:
        ref = member_ref(member, names)
        yield Fingerprinted(ref.name, ref.hash, member_payload(member, names))
        if isinstance(member, Toolkit):
            yield from _members(member.members, names)
