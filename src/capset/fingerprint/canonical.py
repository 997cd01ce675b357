"""Canonical JSON: RFC 8785 (JCS), with a written form for integers that JSON readers would round (spec 2, F1).

Profile ``jcs-1``: keys sorted by their UTF-16 code units, no white space, strings escaped as in RFC 8785 §3.2.2.2,
numbers written as ECMAScript does. An integer beyond ±2^53 is written ``{"$int": "…"}``.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from json import JSONEncoder
from json.encoder import encode_basestring
from typing import Any, Final, cast

PROFILE: Final = "jcs-1"
"""The name of these rules, stored beside every hash (spec 2, F2)."""

_MAX_EXACT: Final = 2**53
_TEXT: Final = frozenset({str})
_FLAT: Final = frozenset({str, int, bool, type(None)})
_encode: Final = JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class NotCanonical(ValueError):
    """A value has no canonical form. ``path`` says where it stands, such as ``$.tools[2].name``."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path


def canonical(value: Any) -> bytes:
    """Return the canonical UTF-8 bytes of plain JSON data (mappings, lists, tuples, text, numbers, booleans, None).

    Raises ``NotCanonical`` for NaN, infinities, keys that are not text, lone surrogates, cycles and anything else.
    """
    try:
        if type(value) is dict and _is_flat(cast("dict[Any, Any]", value)):
            return _encode(value).encode()
        return _write(value, "$").encode()
    except UnicodeEncodeError:
        raise NotCanonical("$", "text holds a lone surrogate, which has no UTF-8") from None
    except RecursionError:
        raise NotCanonical("$", "nested too deeply, or a cycle") from None


def digest(payload: Any) -> str:
    """Return the lower-case hexadecimal SHA-256 of a payload's canonical bytes."""
    return hashlib.sha256(canonical(payload)).hexdigest()


def _is_flat(members: dict[Any, Any]) -> bool:
    """Whether a mapping is one that Python's own C encoder writes in just the same way, as most arguments are.

    ASCII keys sort alike by code points and by UTF-16 units, the escapes of texts are the same, and there is no float.
    """
    # Every record comes by here, so the loops are those of C.
    if not _TEXT.issuperset(map(type, members)) or not _FLAT.issuperset(map(type, members.values())):
        return False
    is_exact = all(-_MAX_EXACT <= value <= _MAX_EXACT for value in members.values() if type(value) is int)
    return is_exact and "".join(members).isascii()


def _write(value: Any, path: str) -> str:
    match value:
        case str():
            return encode_basestring(value)
        case None:
            return "null"
        case True:
            return "true"
        case False:
            return "false"
        case int():
            return str(int(value)) if -_MAX_EXACT <= value <= _MAX_EXACT else f'{{"$int":"{int(value)}"}}'
        case float():
            return _number(value, path)
        case list() | tuple():
            items = cast("list[Any]", value)
            return f"[{','.join([_write(item, f'{path}[{index}]') for index, item in enumerate(items)])}]"
        case Mapping():
            members = cast("Mapping[Any, Any]", value)
            return f"{{{','.join([_member(key, members[key], path) for key in _sorted(members, path)])}}}"
        case _:
            raise NotCanonical(path, f"{type(value).__name__} is not JSON data")


def _member(key: str, value: Any, path: str) -> str:
    return f"{encode_basestring(key)}:{_write(value, f'{path}.{key}')}"


def _sorted(members: Mapping[Any, Any], path: str) -> list[str]:
    for key in members:
        if not isinstance(key, str):
            raise NotCanonical(path, f"a key must be text; got {key!r}")
    keys = cast("list[str]", list(members))
    if all(map(str.isascii, keys)):
        return sorted(keys)
    return sorted(keys, key=lambda key: key.encode("utf-16-be", "surrogatepass"))


def _number(value: float, path: str) -> str:
    """Write a float as ECMAScript's Number::toString does (ECMA-262 §6.1.6.1.20), from Python's shortest digits."""
    if not math.isfinite(value):
        raise NotCanonical(path, f"{value} is not a JSON number")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(float(value))).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    # The value is 0.DIGITS × 10^point.
    point = int(exponent or 0) + (len(whole) if whole != "0" else len(digits) - len(fraction))
    digits = digits.rstrip("0")
    if 0 < point <= 21:
        if len(digits) <= point:
            return sign + digits.ljust(point, "0")
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'+' if point > 0 else '-'}{abs(point - 1)}"
