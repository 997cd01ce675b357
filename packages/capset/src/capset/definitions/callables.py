"""The functions behind partials, methods and callable objects."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from capset.errors import DefinitionError


def inner_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the underlying function of a callable: that of a partial, or the ``__call__`` of an object."""
    inner: Any = function
    while not inspect.isroutine(inner) and not inspect.isclass(inner):
        inner = cast("Any", inner.func) if isinstance(inner, partial) else inner.__call__
    return inner


def bound_names(function: object) -> frozenset[str]:
    """Return the names of the parameters that a partial binds by keyword."""
    names: set[str] = set()
    while isinstance(function, partial):
        names |= function.keywords.keys()
        function = cast("object", function.func)
    return frozenset(names)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a function, or the one behind a partial or an object, is a coroutine function."""
    return inspect.iscoroutinefunction(inner_function(function))


def accepts_positional(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with ``count`` positional arguments; true if it has no signature."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # it has no signature
        return True
    return True


def refuse_wrapped_async(owner: str, function: Callable[..., Any]) -> None:
    """Raise ``DefinitionError`` for a sync function that wraps an async one: nothing would await its result."""
    if inspect.iscoroutinefunction(inspect.unwrap(function)) and not inspect.iscoroutinefunction(function):
        raise DefinitionError(
            f"{owner}: an async function is wrapped in a sync one",
            hint="make the decorator's inner function async def, and await the wrapped function in it",
        )


def checked_function(label: str, function: object, takes: str) -> Callable[..., Any]:
    """Return ``function`` if it takes exactly one argument, which ``takes`` describes in errors.

    Raises ``DefinitionError`` for anything else, also for classes and for functions of Python itself, such as ``bool``
    and ``any``: they would accept any argument, and only some versions of Python know their signatures.
    """
    if not callable(function):
        raise DefinitionError(f"{label} must be a function of one argument, {takes}; got {function!r:.80}")
    inner = inspect.unwrap(inner_function(function))
    if inspect.isclass(inner) or (inspect.isbuiltin(inner) and inner.__module__ in sys.stdlib_module_names):
        raise DefinitionError(
            f"{label} must be a function of one argument, {takes}; {inner.__name__} takes anything",
            hint=f"write a function that inspects {takes}",
        )
    try:
        inspect.signature(function).bind(object())
    except (TypeError, ValueError):
        raise DefinitionError(f"{label} must take exactly one argument, {takes}") from None
    return function
