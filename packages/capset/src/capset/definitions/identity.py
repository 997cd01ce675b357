"""Definitions as objects: a copy of one is itself, and pickle refers to it by its place, as to a function.

Frozen values, which are compared by what they hold, are pickled with it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from importlib import import_module
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Self, cast

_MADE_OF = ("handler", "evaluate", "make", "function")
"""The attributes that may hold the function in whose place a decorator has put a definition."""


class _Frozen:
    """Something that cannot be changed, so that there is no need of a copy."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class Definition(_Frozen):
    """Something that is compared by identity, so that a copy would be another one."""

    __slots__ = ()

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Refer to the first module that has it. Raises ``PicklingError`` for one that no module has."""
        from pickle import PicklingError

        place = next(_places(self), None)
        if place is None:
            raise PicklingError(
                f"{self!r:.80} cannot be pickled: only a definition that is a name of a module can, and is found there "
                "again; give it a name at the top of a module, or make it in the process that needs it"
            )
        return _found, place


class FrozenValue(_Frozen):
    """A frozen dataclass whose mappings are read-only views, which pickle does not know."""

    __slots__ = ()

    def __reduce__(self) -> str | tuple[Any, ...]:
        instance: Any = self
        return _restored, (
            type(self),
            {attribute.name: _thawed(getattr(self, attribute.name)) for attribute in fields(instance)},
        )


class _View(dict[Any, Any]):
    """The members of a read-only view, on their way to another process."""


def _thawed(value: Any) -> Any:
    if not isinstance(value, MappingProxyType):
        return value
    return _View({key: _thawed(entry) for key, entry in cast("Mapping[Any, Any]", value).items()})


def _viewed(value: Any) -> Any:
    if not isinstance(value, _View):
        return value
    return MappingProxyType({key: _viewed(entry) for key, entry in value.items()})


def _restored(kind: type[Any], state: dict[str, Any]) -> object:
    instance = object.__new__(kind)
    for name, value in state.items():
        object.__setattr__(instance, name, _viewed(value))
    return instance


def _found(module: str, name: str) -> object:
    return attrgetter(name)(import_module(module))


def _places(definition: Definition) -> Iterator[tuple[str, str]]:
    """Yield the modules and names by which it can be found: those of its function first, those of a script last."""
    for attribute in _MADE_OF:
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
