"""Changes of stored JSON data that one write transaction makes: to replace members, to add, to append (spec 1, C34)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final, NamedTuple, cast

from capset.errors import StateError

MISSING: Final = object()
Data = Any
"""JSON data."""


class Amendment(NamedTuple):
    """A change of JSON data; ``fields`` are those of an object that it writes, ``None`` for a change of the whole."""

    make: Callable[[Data], Data]
    fields: frozenset[str] | None = None


def merge_into(given: Mapping[str, Data]) -> Amendment:
    """Return the change that replaces some fields of an object."""

    def change(data: Data) -> Data:
        there = _object(data)
        return {**there, **given}

    return Amendment(change, frozenset(given))


def add(field: str | None, by: float) -> Amendment:
    """Return the change that adds to a number; a missing one is 0."""
    if type(by) is not int and not (isinstance(by, float) and isfinite(by)):
        raise StateError(f"increment takes a finite number; got {by!r:.80}")

    def change(number: Data) -> Data:
        there = 0 if number is MISSING or number is None else number
        if isinstance(there, bool) or not isinstance(there, int | float):
            raise StateError(
                f"only a number can be incremented; {field or 'the value'} is kept as {type(there).__name__}",
                hint="use update() for anything else, such as a Decimal, which JSON keeps as text",
            )
        try:
            return there + by
        except OverflowError:
            raise StateError(f"{field or 'the value'} would be more than a float can hold") from None

    return _at(field, change)


def append(field: str | None, items: list[Data]) -> Amendment:
    """Return the change that appends to a list; a missing one is empty."""

    def change(data: Data) -> Data:
        there: object = [] if data is MISSING or data is None else data
        if not isinstance(there, list):
            raise StateError(f"only a list can be pushed to; {field or 'the value'} is {type(there).__name__}")
        return [*cast("list[Any]", there), *items]

    return _at(field, change)


def _at(field: str | None, change: Callable[[Data], Data]) -> Amendment:
    if field is None:
        return Amendment(change)

    def within(data: Data) -> Data:
        there = _object(data)
        return {**there, field: change(there.get(field, MISSING))}

    return Amendment(within, frozenset({field}))


def _object(data: Data) -> dict[str, Any]:
    there: object = {} if data is MISSING or data is None else data
    if not isinstance(there, dict):
        raise StateError(f"only an object has fields; the value is {type(there).__name__}")
    return cast("dict[str, Any]", there)
