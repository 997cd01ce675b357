"""Every conflict of an agent at once: ``compose`` raises the first that it meets (spec 1, C12; spec 5, P7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from capset.composition.compose import compose
from capset.definitions.blocks import Block
from capset.definitions.references import AnyRef
from capset.errors import DefinitionError

_PASSES: Final = 3
"""How often what was refused is tried again: a reference may need one that stands behind it, and that another."""


def conflicts_of(make: Callable[[Sequence[AnyRef]], Block], refs: Sequence[AnyRef]) -> tuple[DefinitionError, ...]:
    """Return the conflict of every reference that does not go with those before it; none if all can be composed.

    ``make`` returns the block that uses some references; what it raises counts too. One that is in conflict is left out
    for those after it, so that each conflict is told once. Where the block itself cannot be composed, that alone is
    told.
    """
    whole = _conflict(make, refs)
    if whole is None:
        return ()
    if (own := _conflict(make, ())) is not None:
        return (own,)
    accepted: list[AnyRef] = []
    left, found = list(refs), list[DefinitionError]()
    for _ in range(_PASSES):
        refused, found = _sorted_out(make, accepted, left)
        if len(refused) == len(left):
            break
        left = refused
    return tuple(found) or (whole,)


def _sorted_out(
    make: Callable[[Sequence[AnyRef]], Block], accepted: list[AnyRef], left: list[AnyRef]
) -> tuple[list[AnyRef], list[DefinitionError]]:
    """Accept what goes with what is accepted, many at once where that works; return the rest, and why."""
    refused, found = list[AnyRef](), list[DefinitionError]()
    place, step = 0, len(left)
    while place < len(left):
        some = left[place : place + step]
        conflict = _conflict(make, (*accepted, *some))
        if conflict is not None and len(some) > 1:
            step = len(some) // 2
            continue
        if conflict is None:
            accepted += some
            step *= 2
        else:
            refused += some
            found.append(conflict)
        place += len(some)
    return refused, found


def _conflict(make: Callable[[Sequence[AnyRef]], Block], refs: Sequence[AnyRef]) -> DefinitionError | None:
    try:
        compose(make(refs))
    except DefinitionError as error:
        return error
    return None
