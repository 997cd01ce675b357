"""Collection of resources and state from every block to the root, which has them all (spec 1, C20)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pydantic import BaseModel

from capset.composition.merge import Merged, ResourceKey, merge_resources
from capset.composition.sources import Contributed, ContributionSource
from capset.composition.states import MergedState, merge_states
from capset.definitions.blocks import Block
from capset.definitions.resources import SCOPES, AnyResource, Documents, Scope, ScopeState


@dataclass(frozen=True, eq=False, slots=True)
class SessionData:
    """All resources and state that a run can reach, joined; ``given`` are the resources as declared.

    Where a flow settles a conflict, ``resources`` has its version, and ``given`` also those that it replaces.
    """

    resources: Mapping[ResourceKey, Contributed[AnyResource | Documents]]
    states: Mapping[Scope, MergedState]
    given: frozenset[AnyResource | Documents]


def collect_data(block: Block, below_first: Iterable[Merged]) -> SessionData:
    """Join the merged resources and state of a root ``block`` and of all blocks below it, those first.

    Raises ``ResourceConflict`` or ``StateConflict``, naming both contributors, unless the block has the last word.
    """
    merged = tuple(below_first)
    if len(merged) == 1:
        (alone,) = merged
        return SessionData(alone.resources, alone.states, frozenset(one.value for one in alone.resources.values()))
    resources = [(one.source, one.value) for part in merged for one in part.resources.values()]
    settled = {(one.scope, one.name): one for one in block.part.resources if block.has_last_word}
    last: ScopeState = block.part.state if block.has_last_word else {}
    return SessionData(
        merge_resources((source, settled.get((one.scope, one.name), one)) for source, one in resources),
        MappingProxyType(
            {
                scope: merge_states(f"{scope} state", models, last_word=last.get(scope))
                for scope in SCOPES
                if (models := _models(scope, merged))
            }
        ),
        frozenset(one for _, one in resources),
    )


def _models(scope: Scope, merged: Iterable[Merged]) -> list[tuple[ContributionSource, type[BaseModel]]]:
    found: list[Contributed[type[BaseModel]]] = [
        one for part in merged if scope in part.states for one in part.states[scope].models
    ]
    return [(one.source, one.value) for one in found]
