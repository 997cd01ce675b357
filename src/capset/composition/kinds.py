"""Surfaces that a kind of block cannot have (spec 1, C38)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from capset.composition.resolve import resolve
from capset.composition.sources import ContributionSource
from capset.definitions.blocks import Block, BlockKind
from capset.definitions.parts import Part
from capset.errors import KindError

ONLY_FOR: Final[Mapping[str, BlockKind]] = {
    "context": "generator",
    "tools": "generator",
    "sequencer_state": "sequencer",
}
"""Surfaces that only one kind of block can have, even if empty; all others are for every kind."""


def check_block(block: Block) -> None:
    """Raise ``KindError`` for surfaces that a block, or its static ``uses`` with active presets, cannot have.

    Raises what ``resolve`` raises too. Nothing is merged: conflicts between children are found at the root.
    """
    check_kind(block.name, block.kind, ContributionSource((block.name,)), block.part)
    for one in resolve(block).chosen:
        for source, part in one.parts:
            check_kind(block.name, block.kind, source, part)


def check_kind(block: str, kind: BlockKind, source: ContributionSource, part: Part) -> None:
    """Raise ``KindError``, naming capability, preset, field, block and the fix, if this kind cannot have a part."""
    for surface, needed in ONLY_FOR.items():
        if surface in part.declared and kind != needed:
            raise KindError(
                f"{source} declares {surface}, which only a {needed} can have; {block!r} is a {kind}",
                hint=_mending(source),
            )


def _mending(source: ContributionSource) -> str:
    if source.preset is not None:
        return f"use {source.capability}.with_presets({source.preset}=False)"
    if source.capability is not None:
        return f"let {source.capability!r} have it in a preset, so that with_presets(…=False) can switch it off"
    return "leave it out, or declare it on a block of that kind"
