"""Any value as plain JSON data, for a record of what may fit no schema. Nothing here raises, and nothing hides.

A value that JSON cannot carry keeps its place and becomes something that can be read, so that one odd argument takes no
other with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from pydantic import BaseModel
from pydantic_core import from_json, to_json

_MAX_LEVELS: Final = 100
_MAX_DIGITS: Final = 4000
"""Python writes no integer of more than 4,300 decimal digits."""


def plain(value: Any) -> Any:
    """Return a validated value as plain JSON data; NaN and infinities become null."""
    try:
        return from_json(to_json(value, fallback=_named, inf_nan_mode="null"))
    except (ValueError, RecursionError):
        return _plain(value, 0)


def plain_json(text: bytes) -> Any:
    """Return JSON text as plain data, or what can be said of text that is not JSON."""
    try:
        # A number beyond every float, such as 1e999, is JSON and yet is read as an infinity.
        return plain(from_json(text, allow_inf_nan=False))
    except (ValueError, RecursionError):
        return {"unreadable": f"{len(text)} bytes that are not JSON"}


def plain_unvalidated(value: Any) -> Any:
    """Return any value as plain JSON data; what would be used up by looking, such as a generator, is only named."""
    return _plain(value, 0)


def _plain(value: Any, level: int) -> Any:
    if level > _MAX_LEVELS:
        return "…"
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case bytes() | bytearray():
            return f"bytes {value.hex()}"
        case int() if not isinstance(value, bool):
            return int(value) if value.bit_length() < _MAX_DIGITS * 3 else hex(value)
        case BaseModel():
            return _plain(dict(value), level)
        case Mapping():
            members = cast("Mapping[Any, Any]", value)
            return {_plain(str(key), level): _plain(member, level + 1) for key, member in members.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(item, level + 1) for item in cast("list[Any]", value)]
        case Iterator():
            return _named(cast("object", value))
        case _:
            try:
                return from_json(to_json(value, fallback=_named, inf_nan_mode="null"))
            except (ValueError, RecursionError):
                return _named(value)


def _named(value: object) -> str:
    return type(value).__name__
