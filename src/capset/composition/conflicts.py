"""Every conflict of an agent at once: ``compose`` raises the first that it meets (spec 1, C12; spec 5, P7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from capset.composition.compose import compose
from capset.definitions.blocks import Block
from capset.definitions.references import AnyRef
from capset.errors import DefinitionError


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
    while left:
        refused, found = list[AnyRef](), list[DefinitionError]()
        for ref in left:
            if (conflict := _conflict(make, (*accepted, ref))) is None:
                accepted.append(ref)
            else:
                refused.append(ref)
                found.append(conflict)
        if len(refused) == len(left):
            break
        left = refused  # one may need another that stands behind it
    return tuple(found) or (whole,)


def _conflict(make: Callable[[Sequence[AnyRef]], Block], refs: Sequence[AnyRef]) -> DefinitionError | None:
    try:
        compose(make(refs))
    except DefinitionError as error:
        return error
    return None
