"""The identity of definitions: a copy is the same object, and pickle refers to it by name, as to a function.

Frozen values, which compare by value, are pickled by value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from importlib import import_module
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Self, cast

_FUNCTION_ATTRIBUTES = ("handler", "evaluate", "make", "function")
"""Attributes that may hold the function that a decorator has replaced with a definition."""


class _Frozen:
    """An immutable object: a copy is the object itself."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class Definition(_Frozen):
    """An immutable object that is compared by identity, so a copy must be the object itself."""

    __slots__ = ()

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle as a reference to the first module that has it. Raises ``PicklingError`` if no module does."""
        from pickle import PicklingError

        location = next(_locations(self), None)
        if location is None:
            raise PicklingError(
                f"{self!r:.80} cannot be pickled: a definition is pickled by its name in a module, and this one has "
                "none; give it a name at the top of a module, or make it in the process that needs it"
            )
        return _import_definition, location


class FrozenValue(_Frozen):
    """A frozen dataclass whose mappings are read-only views, which pickle does not support."""

    __slots__ = ()

    def __reduce__(self) -> str | tuple[Any, ...]:
        instance: Any = self
        return _restore, (
            type(self),
            {attribute.name: _pickled_view(getattr(self, attribute.name)) for attribute in fields(instance)},
        )


class _View(dict[Any, Any]):
    """The items of a read-only view, as they are pickled."""


def _pickled_view(value: Any) -> Any:
    if not isinstance(value, MappingProxyType):
        return value
    return _View({key: _pickled_view(entry) for key, entry in cast("Mapping[Any, Any]", value).items()})


def _unpickled_view(value: Any) -> Any:
    if not isinstance(value, _View):
        return value
    return MappingProxyType({key: _unpickled_view(entry) for key, entry in value.items()})


def _restore(kind: type[Any], state: dict[str, Any]) -> object:
    instance = object.__new__(kind)
    for name, value in state.items():
        object.__setattr__(instance, name, _unpickled_view(value))
    return instance


def _import_definition(module: str, name: str) -> object:
    return attrgetter(name)(import_module(module))


def _locations(definition: Definition) -> Iterator[tuple[str, str]]:
    """Yield the modules and names that have a definition: those of its function first, ``__main__`` last."""
    for attribute in _FUNCTION_ATTRIBUTES:
        function: Callable[..., Any] | None = getattr(definition, attribute, None)
        module, name = (getattr(function, key, None) for key in ("__module__", "__qualname__"))
        if isinstance(module, str) and isinstance(name, str) and module in sys.modules and "<" not in name:
            try:
                if attrgetter(name)(sys.modules[module]) is definition:
                    yield module, name
            except AttributeError:
                pass
    modules = sorted(sys.modules.items(), key=lambda item: item[0] == "__main__")
    for module, loaded in modules:
        for name, value in list(getattr(loaded, "__dict__", {}).items()):
            if value is definition:
                yield module, name
