"""Checks that the fields of frozen dataclasses declare, and that are made when an object is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, field
from math import inf, ulp
from typing import Any, Final

from capset.errors import DefinitionError

Check = Callable[[str, Any], Any]
"""Returns the value to store for a field of this name, or raises ``DefinitionError``."""
REAL: Final = (int, float)
POSITIVE: Final = ulp(0.0)
"""The lowest number above 0."""


def checked_field(check: Check, default: Any = MISSING) -> Any:  # like that of dataclasses.field
    """Declare a field together with its check."""
    return field(default=default, metadata={"check": check})


def store_checked(instance: Any, values: Mapping[str, Any] | None = None) -> None:
    """Set the fields of a frozen dataclass to what their checks return, in order.

    ``values`` has the values to check, such as the arguments of its ``__init__``; without it, the fields have them.
    """
    for name, field_info in instance.__dataclass_fields__.items():
        value = getattr(instance, name) if values is None else values[name]
        object.__setattr__(instance, name, field_info.metadata["check"](name, value))


def requiring(text: str, fits: Callable[[Any], bool], *, optional: bool = False) -> Check:
    """Return a check that keeps a value that ``fits``; its error begins with ``text``, ``{}`` being the field's name.

    An ``optional`` value may be ``None``.
    """

    def check(name: str, value: Any) -> Any:
        if (value is not None or not optional) and not fits(value):
            raise DefinitionError(f"{text.format(name)}; got {value!r:.80}")
        return value

    return check


def within(kinds: type | tuple[type, ...], lowest: float, highest: float = inf) -> Callable[[Any], bool]:
    """Return whether a value is a number of these types and in this range; no ``bool`` is."""
    types = kinds if isinstance(kinds, tuple) else (kinds,)
    return lambda value: type(value) in types and lowest <= value <= highest


def instance_of(kind: type) -> Callable[[Any], bool]:
    """Return whether a value is an object of a class."""
    return lambda value: isinstance(value, kind)
