"""All conflicts of an agent at once: ``compose`` raises only the first (spec 1, C12; spec 5, P7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from capset.composition.compose import compose
from capset.definitions.blocks import Block
from capset.definitions.references import AnyRef
from capset.errors import DefinitionError


@dataclass(frozen=True, eq=False, slots=True)
class CompositionConflict:
    """A reason why a block cannot be composed; ``capability`` is the one that conflicts with those before it.

    ``capability`` is ``None`` for a conflict of the block itself, and for one that no single capability causes.
    """

    error: DefinitionError
    capability: str | None = None


def conflicts_of(make: Callable[[Sequence[AnyRef]], Block], refs: Sequence[AnyRef]) -> tuple[CompositionConflict, ...]:
    """Return the conflict of every reference with those before it; empty if all of them can be composed.

    ``make`` returns a block that uses the given references; if it raises ``DefinitionError``, that counts as a
    conflict, too. A conflicting reference is left out when later ones are checked, so each conflict is reported once.
    If the block itself cannot be composed, only that is reported.
    """
    conflict = _conflict(make, refs)
    if conflict is None:
        return ()
    if (base_conflict := _conflict(make, ())) is not None:
        return (CompositionConflict(base_conflict),)
    accepted: list[AnyRef] = []
    remaining, conflicts = list(refs), list[CompositionConflict]()
    for _ in range(3):  # a refused reference may need a later one, which may need another
        refused, conflicts = _partition(make, accepted, remaining)
        if len(refused) == len(remaining):
            break
        remaining = refused
    return tuple(conflicts) or (CompositionConflict(conflict),)


def _partition(
    make: Callable[[Sequence[AnyRef]], Block], accepted: list[AnyRef], remaining: list[AnyRef]
) -> tuple[list[AnyRef], list[CompositionConflict]]:
    """Accept references that compose with the accepted ones, in batches if possible; return the rest and conflicts."""
    refused, conflicts = list[AnyRef](), list[CompositionConflict]()
    start, size = 0, len(remaining)
    while start < len(remaining):
        batch = remaining[start : start + size]
        conflict = _conflict(make, (*accepted, *batch))
        if conflict is not None and len(batch) > 1:
            size = len(batch) // 2
            continue
        if conflict is None:
            accepted += batch
            size *= 2
        else:
            refused += batch
            conflicts.append(CompositionConflict(conflict, batch[0].name))
        start += len(batch)
    return refused, conflicts


def _conflict(make: Callable[[Sequence[AnyRef]], Block], refs: Sequence[AnyRef]) -> DefinitionError | None:
    try:
        compose(make(refs))
    except DefinitionError as error:
        return error
    return None
