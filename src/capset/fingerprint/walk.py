"""Canonical JSON written value by value, rule for rule: RFC 8785 with a form for integers beyond ±2^53 (spec 2, F1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from json.encoder import encode_basestring
from typing import Any, Final, cast

MAX_EXACT: Final = 2**53


class Refused(Exception):
    """A value has no canonical form. ``steps`` lead to it, the last one first: ``[".name", "[2]", ".tools"]``."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.steps: list[str] = []


def written(value: object) -> str:
    """Return a value's canonical text, in which lone surrogates still stand as they are.

    Raises ``Refused`` for what is not JSON data, and ``RecursionError`` for cycles and what is nested too deeply.
    """
    return _WRITERS.get(type(value), _other)(value)


def _other(value: object) -> str:
    """Write what is not of a plain type by the type that it is one of: an ``IntEnum``, a mapping, a named tuple."""
    match value:
        case str():
            return encode_basestring(value)
        case int():
            return _integer(int.__pos__(value))
        case float():
            return _number(float.__pos__(value))
        case list() | tuple():
            return _array(cast("list[object]", value))
        case Mapping():
            return _object(cast("Mapping[Any, Any]", value))
        case _:
            raise Refused(f"{type(value).__name__} is not JSON data")


def _constant(value: bool | None) -> str:
    return "null" if value is None else "true" if value else "false"


def _integer(value: int) -> str:
    return str(value) if -MAX_EXACT <= value <= MAX_EXACT else f'{{"$int":"{value}"}}'


def _array(items: Iterable[object]) -> str:
    texts: list[str] = []
    try:
        for item in items:
            texts.append(_WRITERS.get(type(item), _other)(item))  # noqa: PERF401  # their number is the path
    except Refused as refused:
        refused.steps.append(f"[{len(texts)}]")
        raise
    return f"[{','.join(texts)}]"


def _object(members: Mapping[Any, Any]) -> str:
    # The C encoder asks a mapping for its items too, so both roads see the same.
    plain = cast("dict[Any, object]", members if type(members) is dict else dict(members.items()))
    texts: list[str] = []
    key = None
    try:
        for key in _sorted(plain):
            value = plain[key]
            texts.append(f"{encode_basestring(key)}:{_WRITERS.get(type(value), _other)(value)}")
    except Refused as refused:
        if key is not None:
            refused.steps.append(f".{key}")
        raise
    return f"{{{','.join(texts)}}}"


def _sorted(keys: Iterable[Any]) -> list[str]:
    """Return keys in the order of their UTF-16 code units, which for ASCII is that of Python."""
    try:
        is_ascii = "".join(keys).isascii()
    except TypeError:
        odd = next(key for key in keys if not isinstance(key, str))
        raise Refused(f"a key must be text; got {odd!r}") from None
    return sorted(keys) if is_ascii else sorted(keys, key=lambda key: key.encode("utf-16-be", "surrogatepass"))


def _number(value: float) -> str:
    """Write a float as ECMAScript's Number::toString does (ECMA-262 §6.1.6.1.20), from Python's shortest digits."""
    if not math.isfinite(value):
        raise Refused(f"{value} is not a JSON number")
    if value == 0:
        return "0"
    text = repr(value)
    if "e" not in text:
        return text.removesuffix(".0")
    # Python begins with exponents below 1e-4 and at 1e16, ECMAScript below 1e-6 and at 1e21.
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = text.removeprefix("-").partition("e")
    digits, power = mantissa.replace(".", ""), int(exponent)
    if 0 < power < 21:
        return sign + digits.ljust(power + 1, "0")
    if -7 < power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'+' if power > 0 else '-'}{abs(power)}"


_WRITERS: Final[dict[type[Any], Callable[[Any], str]]] = {
    str: encode_basestring,
    type(None): _constant,
    bool: _constant,
    int: _integer,
    float: _number,
    list: _array,
    tuple: _array,
    dict: _object,
}
