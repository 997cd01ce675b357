"""Canonical JSON: RFC 8785, extended with a form for integers beyond ±2^53, and its reader (spec 2, F1)."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from json import JSONEncoder
from json.encoder import encode_basestring
from typing import Any, Final, cast

from pydantic_core import to_json

from capset.fingerprint.paths import has_surrogate, path_of, path_to
from capset.schemas.plain_data import is_flat

MAX_EXACT: Final = 2**53
MAX_DIGITS: Final = 4_300
"""Maximum number of digits of an integer; Python does not parse longer ones."""
_TAG: Final = re.compile(r"\$+int")
"""The key of an object that encodes an integer. An ordinary object that looks like one is escaped by another ``$``."""
_DIGITS: Final = re.compile(rf"-?([1-9][0-9]{{15,{MAX_DIGITS - 1}}})")


class _Unencodable(Exception):
    """A value has no canonical form. ``steps`` is the path to it, innermost first: ``["name", 2, "tools"]``."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.steps: list[str | int] = []


def _derived(value: object) -> str:
    """Write a value of a derived type as its base type: an ``IntEnum``, a mapping, a named tuple."""
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
            raise _Unencodable(f"{type(value).__name__} is not JSON data")


def _constant(value: bool | None) -> str:
    return "null" if value is None else "true" if value else "false"


def _integer(value: int) -> str:
    if -MAX_EXACT <= value <= MAX_EXACT:
        return str(value)
    try:
        text = str(value)
    except ValueError:  # a process may allow more or fewer digits
        text = ""
    if not _is_beyond(text):
        raise _Unencodable(f"an integer must have at most {MAX_DIGITS:,} digits")
    return f'{{"$int":"{text}"}}'


def _is_beyond(text: object) -> bool:
    """Whether a value is the canonical text of an integer beyond ±2^53."""
    match = _DIGITS.fullmatch(text) if isinstance(text, str) else None
    return match is not None and (len(match[1]) > 16 or match[1] > str(MAX_EXACT))


def _looks_tagged(members: Mapping[Any, Any]) -> bool:
    """Whether an object looks like an encoded integer, or like an escaped object."""
    if len(members) != 1:
        return False
    ((key, value),) = members.items()
    return isinstance(key, str) and _TAG.fullmatch(key) is not None and _is_beyond(value)


def _array(items: Iterable[object]) -> str:
    texts: list[str] = []
    try:
        for item in items:
            texts.append(_WRITERS.get(type(item), _derived)(item))  # noqa: PERF401  # their number gives the path
    except _Unencodable as error:
        error.steps.append(len(texts))
        raise
    return f"[{','.join(texts)}]"


def _object(members: Mapping[Any, Any]) -> str:
    # The C encoder also asks a mapping for its items, so both code paths see the same.
    plain = cast("dict[Any, object]", members if type(members) is dict else dict(members.items()))
    if len(plain) == 1 and _looks_tagged(plain):
        plain = {f"${key}": value for key, value in plain.items()}
    texts: list[str] = []
    key = None
    try:
        for key in _sorted(plain):
            value = plain[key]
            texts.append(f"{encode_basestring(key)}:{_WRITERS.get(type(value), _derived)(value)}")
    except _Unencodable as error:
        if key is not None:
            error.steps.append(key)
        raise
    return f"{{{','.join(texts)}}}"


def _sorted(keys: Iterable[Any]) -> list[str]:
    """Return keys in the order of their UTF-16 code units, which for ASCII is Python's own order."""
    try:
        is_ascii = "".join(keys).isascii()
    except TypeError:
        other = next(key for key in keys if not isinstance(key, str))
        raise _Unencodable(f"a key must be text; got {other!r}") from None
    return sorted(keys) if is_ascii else sorted(keys, key=lambda key: key.encode("utf-16-be", "surrogatepass"))


def _number(value: float) -> str:
    """Write a float as ECMAScript's Number::toString does (ECMA-262 §6.1.6.1.20), from Python's shortest digits."""
    if not math.isfinite(value):
        raise _Unencodable(f"{value} is not a JSON number")
    if value == 0:
        return "0"
    text = repr(value)
    if "e" not in text:
        return text.removesuffix(".0")
    # Python starts to use exponents below 1e-4 and at 1e16, ECMAScript below 1e-6 and at 1e21.
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


_encode: Final = JSONEncoder(
    sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False
).encode
_CONTAINERS: Final = frozenset({dict, list, tuple})
_MAX_LEVELS: Final = 100
"""Levels of nesting for which the walk has enough stack, wherever it is called."""
_LONG_INTEGER: Final = b"0" * 16
_BASIC_PLANE: Final = bytes(range(0xF0))
"""The UTF-8 bytes of all characters up to U+FFFF."""
_TO_SHAPE: Final = bytes.maketrans(b"123456789-[", b"000000000+{")
_IRRELEVANT: Final = bytes(set(range(256)) - set(b"0123456789.e+-[{"))
"""Bytes to delete from a text. The rest quickly shows that most texts have no unusual number and few containers."""
_COLONS: Final = bytes.maketrans(b",[", b"::")
"""Makes every number start after a colon and end at a colon or bracket, since a search from one fixed byte is fast."""
_UNUSUAL_NUMBER: Final = re.compile(
    rb":[-0-9](?:[0-9]{15}|[0-9]*(?:\.[0-9]+(?:e[-+][0-9]+)?|e[-+][0-9]+)[:}\]])",
)
"""An integer that may be beyond 2^53, or a float: Python writes all floats with a point, or a signed exponent."""
_TAGGED: Final = b'$int":"'
"""Part of an encoded integer. Inside a text, its quotes are escaped."""
_NON_STRING_KEY: Final = re.compile(rb'\{"(?:-?[0-9][-+.e0-9]*|true|false|null)":')
"""A first key that may not be a string. Such keys cannot be sorted with strings, so the first key shows them."""


def flat(value: Any) -> bytes | None:
    """Return the canonical bytes of a dict that ``is_flat``, as most arguments are, or ``None`` for anything else."""
    return to_json(dict(sorted(value.items()))) if is_flat(value) and not _looks_tagged(value) else None


def encoded(value: Any) -> bytes | None:
    """Return the canonical bytes of a dict, a list or a tuple, or ``None`` if the walk must write them.

    The walk also handles all data without a canonical form. For flat data except the simplest, it is equally fast.
    """
    kind = cast("type[Any]", type(value))
    if kind not in _CONTAINERS:
        return None
    if _CONTAINERS.isdisjoint(map(type, value.values() if kind is dict else value)):
        return flat(value)
    try:
        data = _encode(value).encode()
    except (TypeError, ValueError, RecursionError):
        return None
    if not data.isascii() and data.translate(None, _BASIC_PLANE):
        return None
    if _TAGGED in data or _NON_STRING_KEY.search(data):
        return None
    shape = data.translate(_TO_SHAPE, _IRRELEVANT)
    may_be_unusual = b"0.0" in shape or b"0e+0" in shape or _LONG_INTEGER in shape
    if may_be_unusual and _UNUSUAL_NUMBER.search(data.translate(_COLONS)):
        return None
    if shape.count(b"{") > _MAX_LEVELS and not _is_nested_within(value, _MAX_LEVELS):
        return None
    return data


def _is_nested_within(value: Any, levels: int) -> bool:
    """Whether a value is nested at most ``levels`` deep. It has been encoded, so it has no cycles."""
    items = cast("dict[Any, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
    return levels > 0 and all(
        _is_nested_within(item, levels - 1) for item in items if isinstance(item, dict | list | tuple)
    )


PROFILE: Final = "jcs-1"
"""The name of these rules, stored with every hash."""


class NotCanonical(ValueError):
    """A value has no canonical form. ``path`` locates it: ``$.tools[2].name``, or ``$["my key"]`` for other keys."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path


def canonical(value: Any) -> bytes:
    """Return the canonical UTF-8 bytes of plain JSON data (mappings, lists, tuples, text, numbers, booleans, None).

    Different data have different bytes, and ``read`` returns the data. Raises ``NotCanonical`` for NaN, infinities,
    integers of more than 4,300 digits, keys that are not text, lone surrogates, cycles and anything else.
    """
    # Both give the same bytes: the shortcut only avoids the walk where it is not needed.
    data = encoded(value)
    return canonical_by_walk(value) if data is None else data


def canonical_by_walk(value: object) -> bytes:
    """Return the same bytes as ``canonical``, without the shortcut."""
    try:
        return _WRITERS.get(type(value), _derived)(value).encode()
    except _Unencodable as error:
        raise NotCanonical(path_of(reversed(error.steps)), str(error)) from None
    except UnicodeEncodeError:
        raise NotCanonical(path_to(value, has_surrogate), "text holds a lone surrogate, which has no UTF-8") from None
    except RecursionError:
        raise NotCanonical(path_to(value), "nested too deeply, or a cycle") from None


def read(text: str | bytes) -> Any:
    """Parse canonical text. Raises ``ValueError`` for text that is not JSON, or is nested too deeply."""
    try:
        return json.loads(text, object_hook=_decode_tagged, parse_int=_read_digits)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def as_json(text: str | bytes) -> str:
    """Return canonical text as ordinary JSON, with integers beyond ±2^53 as numbers, for parsers that read those."""
    return json.dumps(read(text), ensure_ascii=False, separators=(",", ":"))


def _read_digits(text: str) -> int | float:
    """Parse digits as an integer, or as a float beyond ±2^53, where integers are written as tagged objects."""
    return float(text) if _is_beyond(text) else int(text)


def _decode_tagged(members: dict[str, Any]) -> Any:
    if not _looks_tagged(members):
        return members
    ((key, value),) = members.items()
    return int(value) if key == "$int" else {key[1:]: value}


def digest(payload: Any) -> str:
    """Return the lower-case hexadecimal SHA-256 of a payload's canonical bytes."""
    return hashlib.sha256(canonical(payload)).hexdigest()
