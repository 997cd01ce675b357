"""The merge of the contributions of capabilities, presets and blocks, one surface at a time (spec 1, C12–C20)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from pydantic import BaseModel
from typing_extensions import TypeVar

from capset.composition.installation import (
    InstalledTool,
    InstalledToolkit,
    Level,
    PolicyBinding,
    ToolInstaller,
    ToolNames,
)
from capset.composition.resolve import resolve
from capset.composition.sources import Contributed, ContributionSource
from capset.composition.states import MergedState, merge_states
from capset.definitions.blocks import Block, BlockKind
from capset.definitions.governance.policies import Policy
from capset.definitions.model_context import ContextEntry
from capset.definitions.parts import Part, file_within_file
from capset.definitions.resources import SCOPES, AnyResource, Documents, Scope
from capset.errors import DefinitionError, KindError, MountConflict, PolicyConflict, ResourceConflict, TargetConflict

K = TypeVar("K")
V = TypeVar("V")
ResourceKey = tuple[Scope, str]

_KIND_OF_SURFACE: Final[Mapping[str, BlockKind]] = {
    "context": "generator",
    "tools": "generator",
    "sequencer_state": "sequencer",
}
"""Surfaces that only one kind of block may declare, even if empty; every kind may declare the others."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """A part to merge, with its source. ``names`` has the names of its tools in the composition.

    ``outer_levels`` lists the layers that apply to every tool in the part, outermost first.
    """

    source: ContributionSource
    part: Part
    names: ToolNames = field(default_factory=ToolNames)
    outer_levels: tuple[Level, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class MergedParts:
    """The merged contributions, each value with its first contributor, in the order of the contributions.

    ``members`` lists the tools and toolkits in traversal order, ``steps`` the policies and dynamic toolkits in order of
    evaluation.
    """

    tools: Mapping[str, InstalledTool]
    members: tuple[InstalledTool | InstalledToolkit, ...]
    steps: tuple[PolicyBinding | InstalledToolkit, ...]
    instructions: tuple[Contributed[str], ...]
    context: tuple[Contributed[ContextEntry], ...]
    resources: Mapping[ResourceKey, Contributed[AnyResource | Documents]]
    states: Mapping[Scope, MergedState]
    sequencer_state: MergedState | None
    targets: Mapping[str, Contributed[type[BaseModel]]]
    files: Mapping[str, Contributed[bytes]]
    policies: Mapping[str, Contributed[Policy]]
    model_settings: Mapping[str, Any]


def merge(block: str, kind: BlockKind, contributions: Iterable[Contribution]) -> MergedParts:
    """Merge contributions in order; ``block`` and ``kind`` are the name and kind of the block that they are for.

    Raises ``KindError`` for a surface that this kind cannot have, and ``ToolNameConflict``, ``PolicyConflict``,
    ``ResourceConflict``, ``StateConflict``, ``TargetConflict`` or ``MountConflict``, each naming both contributors.
    """
    contributions = tuple(contributions)
    parts = [(contribution.source, contribution.part) for contribution in contributions]
    for source, part in parts:
        check_kind(block, kind, source, part)
    files = _merge_surface(
        "file",
        MountConflict,
        ((path, content, source) for source, part in parts for path, content in part.files.items()),
        "give one of them another path",
    )
    _check_paths(files)
    installer = ToolInstaller()
    for contribution in contributions:
        source, part = contribution.source, contribution.part
        level = Level(source.capability or block, part.policies, part.hooks)
        installer.add(part.members, source, contribution.names, (*contribution.outer_levels, level))
    sequencer_states = [(source, part.sequencer_state) for source, part in parts if part.sequencer_state]
    states = {scope: [(source, part.state[scope]) for source, part in parts if scope in part.state] for scope in SCOPES}
    return MergedParts(
        tools=MappingProxyType(installer.tools),
        members=installer.members,
        steps=tuple(installer.steps),
        instructions=tuple(
            Contributed(contribution.names.rename_in(text), contribution.source)
            for contribution in contributions
            for text in contribution.part.instructions
        ),
        context=tuple(Contributed(entry, source) for source, part in parts for entry in part.context),
        resources=merge_resources((source, resource) for source, part in parts for resource in part.resources),
        states=MappingProxyType(
            {scope: merge_states(f"{scope} state", states[scope]) for scope in SCOPES if states[scope]}
        ),
        sequencer_state=merge_states("sequencer state", sequencer_states) if sequencer_states else None,
        targets=_merge_surface(
            "target",
            TargetConflict,
            ((name, model, source) for source, part in parts for name, model in part.targets.items()),
            "use one model for the target, or other names",
        ),
        files=files,
        policies=_merge_surface(
            "policy",
            PolicyConflict,
            ((policy.id, policy, source) for source, part in parts for policy in part.every_policy),
            "share one Policy object, or give one of them another id",
        ),
        model_settings=MappingProxyType(
            {key: value for _, part in parts for key, value in part.model_settings.items()}
        ),
    )


def merge_resources(
    resources: Iterable[tuple[ContributionSource, AnyResource | Documents]],
) -> Mapping[ResourceKey, Contributed[AnyResource | Documents]]:
    """Return every resource by its scope and name. Raises ``ResourceConflict``, naming both contributors."""
    return _merge_surface(
        "resource",
        ResourceConflict,
        (((resource.scope, resource.name), resource, source) for source, resource in resources),
        "share one Resource object, or give one of them another name",
    )


def _merge_surface(
    surface: str, conflict: type[DefinitionError], entries: Iterable[tuple[K, V, ContributionSource]], hint: str
) -> Mapping[K, Contributed[V]]:
    """Merge one surface: equal values under a key become one, different values conflict.

    Definitions are compared by identity, since they have no other equality, and file contents by their bytes.
    """
    merged: dict[K, Contributed[V]] = {}
    for key, value, source in entries:
        first = merged.setdefault(key, Contributed(value, source))
        if first.value is not value and first.value != value:
            name = " ".join(map(str, key)) if isinstance(key, tuple) else str(key)  # pyright: ignore[reportUnknownArgumentType]  # any key
            raise conflict(
                f"{first.source} and {source} have two different {_CONFLICTING_VALUES[surface]} {name!r}", hint=hint
            )
    return MappingProxyType(merged)


_CONFLICTING_VALUES: Final = {
    "resource": "resources named",
    "target": "models for the target",
    "file": "contents for the file",
    "policy": "policies with the id",
}


def _check_paths(files: Mapping[str, Contributed[bytes]]) -> None:
    if inside := file_within_file(files):
        outer, inner = (files[path].source for path in inside)
        raise MountConflict(
            f"{outer} has the file {inside[0]!r}, and {inner} has {inside[1]!r} inside it",
            hint="give one of them another path",
        )


def check_block(block: Block) -> None:
    """Raise ``KindError`` for surfaces that a block, or its static ``uses`` with active presets, cannot have.

    Raises the errors of ``resolve``, too. Nothing is merged: conflicts between children are found at the root.
    """
    check_kind(block.name, block.kind, ContributionSource((block.name,)), block.part)
    for use in resolve(block).capability_uses:
        for source, part in use.parts:
            check_kind(block.name, block.kind, source, part)


def check_kind(block: str, kind: BlockKind, source: ContributionSource, part: Part) -> None:
    """Raise ``KindError``, naming the source, surface, block and fix, if this kind of block cannot have a part."""
    for surface, needed in _KIND_OF_SURFACE.items():
        if surface in part.declared and kind != needed:
            raise KindError(
                f"{source} declares {surface}, which only a {needed} can have; {block!r} is a {kind}",
                hint=_kind_hint(source),
            )


def _kind_hint(source: ContributionSource) -> str:
    if source.preset is not None:
        return f"use {source.capability}.with_presets({source.preset}=False)"
    if source.capability is not None:
        return f"move it to a preset of {source.capability!r}, so that with_presets(…=False) can switch it off"
    return "leave it out, or declare it on a block of that kind"
