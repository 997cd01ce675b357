"""What dynamic ``uses`` add to a composition, asked until they add no further functions (spec 1, C27–C29)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from capset.composition.compose import Composition, compose
from capset.definitions.contexts import Context
from capset.definitions.references import AnyRef, DynamicUses, as_ref
from capset.errors import CapsetError, ContextError


def grown(composition: Composition, context: Context) -> Composition:
    """Return a composition with what its dynamic ``uses`` add here and now.

    Raises ``ContextError`` for a function that fails, and what ``compose`` raises of what it says.
    """
    decided: dict[DynamicUses, tuple[AnyRef, ...]] = {}
    block, within = composition.block, composition.data
    while pending := [one for one in composition.dynamic if one not in decided]:
        decided |= {function: ask_uses(function, context) for function in pending}
        composition = compose(block, decided, within=within)
    return composition


def ask_uses(function: DynamicUses, context: Context) -> tuple[AnyRef, ...]:
    """Return the references that one function among the ``uses`` gives here and now. Raises ``ContextError``."""
    name = getattr(function, "__name__", "uses")
    try:
        said = cast("object", function(context))
        if not isinstance(said, Iterable) or isinstance(said, str):
            raise ContextError(f"the dynamic uses {name!r} must return a list of capabilities; got {said!r:.80}")
        return tuple(as_ref(f"the dynamic uses {name!r}", one) for one in cast("Iterable[object]", said))
    except ContextError:
        raise
    except CapsetError as error:
        raise ContextError(error.message, hint=error.hint) from error
    except Exception as error:
        raise ContextError(f"the dynamic uses {name!r} failed: {type(error).__name__}") from error
