"""What frozen, slotted dataclasses get wrong when they are generic."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Never

from typing_extensions import TypeVar

K = TypeVar("K", bound=type)


def sealed(cls: K) -> K:
    """Have a frozen dataclass refuse every attribute, not only its fields.

    ``Capability[Helpers](…)`` tries to note on the instance how the class was written. The method that the dataclass
    makes for a class with slots answers that with a ``TypeError`` instead of the ``AttributeError`` that
    ``typing`` expects.
    """
    setattr(cls, "__setattr__", _refuse)  # noqa: B010  # a type checker would look for a field
    setattr(cls, "__delattr__", _refuse)  # noqa: B010
    return cls


def _refuse(self: object, name: str, *value: object) -> Never:
    raise FrozenInstanceError(f"cannot assign to {name!r}: a {type(self).__name__} is frozen")
