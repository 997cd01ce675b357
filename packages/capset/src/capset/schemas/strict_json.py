"""Strict parsing and copying of untrusted JSON data. Errors contain no values."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, Final, cast

from capset.errors import Field
from capset.schemas.validation_errors import SchemaMismatch, dotted_path

MAX_LEVELS: Final = 100
"""The maximum number of nested lists and objects. Deeper data would need special care wherever it is walked."""
MAX_INTEGER: Final = 10**4000
"""Python does not write integers of more than 4,300 decimal digits."""
MAX_SIZE: Final = 1_048_576
"""The maximum number of values and characters in a definition's data, counting values that YAML repeats."""


def parse_json(text: bytes | str) -> Any:  # JSON has many types
    """Parse JSON text in UTF-8 without NaN, infinities, lone surrogates and duplicate names in objects.

    Raises ``SchemaMismatch`` for anything else.
    """
    try:
        decoded = text.decode() if isinstance(text, bytes) else text
        value = json.loads(decoded, object_pairs_hook=_unique_members, parse_constant=_no_constant)
        _check_parsed(value)
        return value
    except SchemaMismatch:
        raise
    except UnicodeDecodeError:
        raise _mismatch((), "Input should be JSON text in UTF-8") from None
    except RecursionError:
        raise _too_deep(MAX_LEVELS) from None
    except json.JSONDecodeError as error:
        raise _mismatch((), f"Invalid JSON at line {error.lineno}, column {error.colno}") from None
    except ValueError:  # Python does not parse integers of more than 4,300 digits
        raise _mismatch((), "Input should have no integer of more than 4,000 digits") from None


class ValueCounter:
    """A counter of the values in JSON text that arrives in pieces: lists, objects and their members, without names.

    The text is not parsed, and counting takes linear time. An empty list or object counts as two. For text that is not
    JSON, the number is meaningless.
    """

    __slots__ = ("_cut", "_is_inside", "count")

    def __init__(self) -> None:
        self.count = 1
        self._is_inside = False
        self._cut = b""  # a backslash whose escaped character is in the next piece

    def feed(self, piece: bytes) -> int:
        """Count the values in the next piece, and return the total so far."""
        piece = self._cut + piece
        self._cut = b"\\" if (len(piece) - len(piece.rstrip(b"\\"))) % 2 else b""
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        unquoted = b"".join(parts[self._is_inside :: 2])
        self._is_inside ^= len(parts) % 2 == 0
        self.count += unquoted.count(b",") + unquoted.count(b"[") + unquoted.count(b"{")
        return self.count


def copy_json(value: Any, place: tuple[int | str, ...] = (), max_levels: int = MAX_LEVELS) -> Any:
    """Return a copy of plain JSON data: dict, list, str, int, float, bool and None.

    Raises ``SchemaMismatch`` for a value of another type, a key that is not a string, NaN, an infinity or a lone
    surrogate, none of which JSON can represent, and for more than ``max_levels`` levels.
    """
    match value:
        case list() | dict() if len(place) >= max_levels:
            raise _too_deep(max_levels)
        case None | True | False:
            return value
        case str():
            return _text(value, place)
        case int():
            if not -MAX_INTEGER < value < MAX_INTEGER:
                raise _mismatch(place, "Input should be an integer of at most 4,000 digits")
            return int(value)
        case float():
            if not isfinite(value):
                raise _mismatch(place, "Input should be a finite number")
            return float(value)
        case list():
            return [copy_json(item, (*place, at), max_levels) for at, item in enumerate(cast("list[Any]", value))]
        case dict():
            members: dict[str, Any] = {}
            for key, member in cast("dict[Any, Any]", value).items():
                if not isinstance(key, str):
                    raise _mismatch(place, "Input should have only strings as names of its fields")
                name = _text(key, place)
                members[name] = copy_json(member, (*place, name), max_levels)
            return members
        case _:
            raise _mismatch(
                place, "Input should be JSON data: an object, an array, a string, a number, a boolean or null"
            )


def _check_parsed(value: Any, place: tuple[int | str, ...] = ()) -> None:
    """Raise the errors of ``copy_json``, but do not copy: that would double the memory of the parsed data."""
    match value:
        case list() if len(place) < MAX_LEVELS:
            for at, item in enumerate(cast("list[Any]", value)):
                _check_parsed(item, (*place, at))
        case dict() if len(place) < MAX_LEVELS:
            for name, member in cast("dict[str, Any]", value).items():
                _check_parsed(member, (*place, _text(name, place)))
        case _:
            copy_json(value, place)


def copy_bounded(value: Any) -> Any:
    """Copy like ``copy_json``. Raises ``SchemaMismatch`` also beyond ``MAX_SIZE`` values and characters."""
    try:
        size = size_of(value)
    except RecursionError:
        raise _too_deep(MAX_LEVELS) from None
    if size > MAX_SIZE:
        raise _mismatch((), f"Input should have at most {MAX_SIZE} values and characters")
    return copy_json(value)


def size_of(value: object, sizes: dict[int, int] | None = None) -> int:
    """Return the number of values and characters, counting repeats; shared objects are visited once.

    Raises ``RecursionError`` for data that is nested too deeply.
    """
    sizes = {} if sizes is None else sizes
    place = id(value)
    match value:
        case str():
            return len(value) + 1
        case dict():
            mapping = cast("dict[object, object]", value)
            members = [*mapping, *mapping.values()]
        case list():
            members = cast("list[object]", value)
        case _:
            return 1
    if place not in sizes:
        sizes[place] = MAX_SIZE + 1  # in case it contains itself
        sizes[place] = 1 + sum(size_of(member, sizes) for member in members)
    return sizes[place]


def _text(text: str, place: tuple[int | str, ...]) -> str:
    plain_text = str.__str__(text)
    if not plain_text.isascii():
        try:
            plain_text.encode()
        except UnicodeEncodeError:
            raise _mismatch(place, "Input should have no lone surrogates") from None
    return plain_text


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _mismatch((), "Invalid JSON: an object has a duplicate name")
    return members


def _no_constant(_: str) -> None:
    raise _mismatch((), "Invalid JSON: NaN and infinities are not allowed")


def _too_deep(max_levels: int) -> SchemaMismatch:
    return _mismatch((), f"Input should be nested at most {max_levels} levels deep")


def _mismatch(place: tuple[int | str, ...], expected: str) -> SchemaMismatch:
    return SchemaMismatch([Field(dotted_path(place), expected)])
