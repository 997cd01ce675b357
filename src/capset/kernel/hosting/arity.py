"""Whether a function takes what it will be given: asked when it is declared, not when a turn needs it."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature

from capset.errors import DefinitionError


def check_arity(what: str, function: Callable[..., object], *names: str) -> None:
    """Raise ``DefinitionError`` for a function that cannot be called with these, by position."""
    try:
        known = signature(function)
    except (TypeError, ValueError):  # some of C have none
        return
    try:
        known.bind(*names)
    except TypeError as error:
        taken = " and ".join(names)
        raise DefinitionError(f"{what} is called with the {taken}; got a function of {known} ({error})") from None
