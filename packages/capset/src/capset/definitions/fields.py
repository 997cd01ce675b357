"""Checks that the fields of frozen dataclasses declare, and that run when an object is created."""

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
"""The smallest float above 0."""


def checked_field(check: Check, default: Any = MISSING) -> Any:  # like that of dataclasses.field
    """Declare a field together with its check."""
    return field(default=default, metadata={"check": check})


def store_checked(instance: Any, values: Mapping[str, Any] | None = None) -> None:
    """Set each field of a frozen dataclass to the value that its check returns, in order.

    ``values`` has the values to check, such as the arguments of its ``__init__``; by default, those of the fields.
    """
    for name, field_info in instance.__dataclass_fields__.items():
        value = getattr(instance, name) if values is None else values[name]
        object.__setattr__(instance, name, field_info.metadata["check"](name, value))


def requiring(text: str, is_valid: Callable[[Any], bool], *, optional: bool = False) -> Check:
    """Return a check that accepts a value if ``is_valid`` returns true.

    Its error begins with ``text``, in which ``{}`` stands for the name of the field. An ``optional`` value may be
    ``None``.
    """

    def check(name: str, value: Any) -> Any:
        if (value is not None or not optional) and not is_valid(value):
            raise DefinitionError(f"{text.format(name)}; got {value!r:.80}")
        return value

    return check


def within(kinds: type | tuple[type, ...], lowest: float, highest: float = inf) -> Callable[[Any], bool]:
    """Return a predicate for numbers of these types in this range; a ``bool`` is not a number."""
    types = kinds if isinstance(kinds, tuple) else (kinds,)
    return lambda value: type(value) in types and lowest <= value <= highest


def instance_of(kind: type) -> Callable[[Any], bool]:
    """Return a predicate for instances of a class."""
    return lambda value: isinstance(value, kind)
