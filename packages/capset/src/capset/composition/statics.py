"""The input of a static hash: the definition, and every payload that it names (spec 2, F3–F7)."""

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
    """Return the hash of a definition with its contributing capabilities, and the blocks inside by their hashes."""
    return definition_hash(block, [Ref(one.name, one.hash) for one in _used(chosen)], children)


def static_parts(composition: Composition) -> tuple[Fingerprinted, ...]:
    """Return everything that ``static_hash`` covers, each once: the definition first, then what its payload names.

    Those are the capabilities as used, the toolkits, every tool, and the blocks inside with all of theirs.
    """
    found: dict[str, Fingerprinted] = {}
    for one in _parts(composition, set()):
        found.setdefault(one.hash, one)
    return tuple(found.values())


def collect_tool_hashes(composition: Composition) -> dict[str, str]:
    """Return the hash of every tool of a composition, by its name there; tools made at run time have none yet."""
    return {name: tool_hash(one.tool) for name, one in composition.tools.items()}


def _parts(composition: Composition, seen: set[Composition]) -> Iterator[Fingerprinted]:
    if composition in seen:
        return
    seen.add(composition)
    block, children = composition.block, tuple(composition.children.values())
    used = list(_used(composition.chosen))
    payload = definition_payload(
        block, [Ref(one.name, one.hash) for one in used], [Ref(one.block.name, one.static_hash) for one in children]
    )
    yield Fingerprinted(block.name, composition.static_hash, payload)
    if block.part.members or block.part.policies:
        root = root_payload(block, [member_ref(one).payload for one in block.part.members])
        yield Fingerprinted("root", digest(root), root)
    yield from used
    yield from _members(block.part.members, {})
    for one in composition.chosen:
        for _, part in one.parts:
            yield from _members(part.members, one.names)
    for child in children:
        yield from _parts(child, seen)


def _used(chosen: Iterable[Chosen]) -> Iterator[Fingerprinted]:
    hashes: dict[AnyCapability, str] = {}
    for one in chosen:
        payload = used_payload(
            one.capability,
            presets=one.presets,
            config=one.config,
            names=one.names,
            uses=hashes,
            with_base=one.is_base,
            prefix=one.prefix,
        )
        shown = digest(payload)
        hashes.setdefault(one.capability, shown)
        yield Fingerprinted(one.capability.name, shown, payload)


def _members(members: Iterable[Member], names: Mapping[str, str]) -> Iterator[Fingerprinted]:
    for one in members:
        ref = member_ref(one, names)
        yield Fingerprinted(ref.name, ref.hash, member_payload(one, names))
        if isinstance(one, Toolkit):
            yield from _members(one.members, names)
