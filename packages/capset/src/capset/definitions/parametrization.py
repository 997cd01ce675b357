"""Parameterised capabilities: equal arguments return the same object (spec 1, C8, C32)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from threading import RLock
from typing import Any, Final, ParamSpec, cast

from typing_extensions import TypeVar

from capset.definitions.capabilities import Capability
from capset.errors import CapabilityCycle, DefinitionError

P = ParamSpec("P")
K = TypeVar("K", bound=Capability[Any, Any])

# The calls in progress, by function and arguments: a capability that needs itself would never finish.
_MAKING: Final[ContextVar[tuple[tuple[object, object, str], ...]]] = ContextVar("capset_making", default=())
# One lock for all, since two functions may make capabilities from each other, in two threads at once.
_LOCK: Final = RLock()


def parameterised(make: Callable[P, K], /) -> Callable[P, K]:
    """Cache the capabilities that a function makes, by its arguments: ``storage("user")`` is always the same object.

    The cache never expires. Arguments are distinguished by type, too (``1`` is not ``True``); passing them by position
    or by name makes no difference. A call raises ``DefinitionError`` if its arguments cannot be hashed or its result is
    not a ``Capability``, and ``CapabilityCycle``, with the whole chain, if a capability needs itself.
    """
    cache: dict[object, K] = {}
    signature = inspect.signature(make)
    name = getattr(make, "__name__", "capability")

    @functools.wraps(make)
    def build_once(*args: P.args, **kwargs: P.kwargs) -> K:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        try:
            key = _typed_key(bound.args), frozenset((name, _typed_key(value)) for name, value in bound.kwargs.items())
            cached = cache.get(key)
        except TypeError:
            call_text = _call_text(name, args, kwargs)
            raise DefinitionError(
                f"{call_text}: the arguments of a parameterised capability must be hashable"
            ) from None
        if cached is not None:
            return cached
        with _LOCK:
            if (cached := cache.get(key)) is not None:  # another thread has made it
                return cached
            call_text = _call_text(name, args, kwargs)
            above = _MAKING.get()
            chain = " → ".join((*(label for _, _, label in above), call_text))
            if any(function is cache and of == key for function, of, _ in above):
                raise CapabilityCycle(f"a capability needs itself: {chain}")
            if len(above) >= 100:
                raise DefinitionError(
                    f"more than 100 capabilities are made inside each other: {chain:.200} …",
                    hint="a function that calls itself with other arguments each time never ends",
                )
            token = _MAKING.set((*above, (cache, key, call_text)))
            try:
                capability = make(*args, **kwargs)
            finally:
                _MAKING.reset(token)
            if not isinstance(capability, Capability):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped callers
                raise DefinitionError(f"{call_text} must return a Capability; it returned {capability!r}")
            cache[key] = capability
            return capability

    vars(build_once)["makes_capabilities"] = True
    return build_once


def _typed_key(value: object) -> object:
    """Return a key that is equal only for equal values of equal types, also inside tuples and frozen sets."""
    match value:
        case tuple() | frozenset():
            inner = cast("tuple[object, ...]", value)
            return type(inner), (tuple if isinstance(value, tuple) else frozenset)(map(_typed_key, inner))
        case float():
            return float, repr(value)  # -0.0 is equal to 0.0, and NaN not even to itself
        case _:
            return type(value), value


def _call_text(name: str, args: tuple[object, ...], kwargs: Mapping[str, object]) -> str:
    return f"{name}({', '.join((*map(repr, args), *(f'{key}={value!r}' for key, value in kwargs.items())))})"
