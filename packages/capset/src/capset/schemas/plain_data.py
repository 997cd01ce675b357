"""Conversion of any value to plain JSON data, to record values that may fit no schema.

A value that JSON cannot represent keeps its position and becomes something readable, so one odd argument does not
affect the others. Excessive depth or size, and cycles, end in "…".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite
from types import NoneType
from typing import Any, Final, TypeGuard, cast
from uuid import UUID

from pydantic import BaseModel, Secret, SecretBytes, SecretStr
from pydantic_core import from_json, to_json

_ELLIPSIS: Final = "…"
_LEAVES: Final = frozenset(
    {
        *(NoneType, bool, int, float, str, bytes, datetime, date, time, timedelta, Decimal, UUID),
        *(SecretStr, SecretBytes),
    }
)
"""Types that pydantic serialises itself, without running any other code."""
_NO_SECRETS: Final = _LEAVES - {SecretStr, SecretBytes}


def plain(value: Any) -> Any:
    """Return a validated value as plain JSON data; NaN and infinities become null, secrets stay masked."""
    if is_flat(value):
        return dict(value)
    try:
        if _is_tree(value, set()):
            return from_json(to_json(value, inf_nan_mode="null"))
    except (ValueError, RecursionError):
        pass
    return plain_unvalidated(value)


def plain_json(text: bytes) -> Any:
    """Return JSON text as plain data, or a note if the text is not JSON."""
    try:
        value = from_json(text, allow_inf_nan=False)
    except (ValueError, RecursionError):
        return {"unreadable": f"{len(text)} bytes that are not JSON"}
    try:
        # A number beyond every float, such as 1e999, is valid JSON and yet parsed as an infinity.
        return from_json(to_json(value, inf_nan_mode="null"))
    except (ValueError, RecursionError):
        return plain_unvalidated(value)


def plain_unvalidated(value: Any) -> Any:
    """Return any value as plain JSON data. Values that reading would consume, like generators, become a type name."""
    return _Converter().convert(value)


def unique_members(members: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return all members by name. Repeated names, such as masks, get numbers from the second one on."""
    by_name: dict[str, Any] = {}
    for name, member in members:
        by_name[unique_name(name, by_name)] = member
    return by_name


def unique_name(name: str, members: Mapping[str, Any]) -> str:
    """Return ``name``, with a number appended if it is taken."""
    while name in members:
        name = f"{name} #{len(members) + 1}"
    return name


def reveal_secrets(value: Any) -> Any:
    """Return data with the secrets that pydantic would mask in clear. Use it only for a keyed digest."""
    match value:
        case SecretStr() | SecretBytes() | Secret():
            return cast("Secret[Any]", value).get_secret_value()
        case dict():
            return {key: reveal_secrets(member) for key, member in cast("dict[Any, Any]", value).items()}
        case list():
            return [reveal_secrets(item) for item in cast("list[Any]", value)]
        case _:
            return value


def secrets_in(value: Any) -> list[Any]:
    """Return the secrets inside a validated value in clear, each with its path, as plain JSON data in a fixed order.

    Use it only for a keyed digest.
    """
    return _sorted(_Secrets().of(value, 0))


def plain_with_all_parts(value: Any) -> Any:
    """Return a validated value as plain JSON data with all its parts, including those that its JSON data leaves out.

    Secrets stay masked. Use it only for a keyed digest. Raises ``RecursionError`` if the value is nested too deeply.
    """
    match value:
        case BaseModel():
            return plain_with_all_parts({**vars(value), **(value.model_extra or {})})
        case Mapping():
            members = cast("Mapping[Any, Any]", value).items()
            return sorted(([plain(key), plain_with_all_parts(member)] for key, member in members), key=to_json)
        case list() | tuple() | deque():
            return [plain_with_all_parts(item) for item in cast("list[Any]", value)]
        case set() | frozenset():
            return sorted(map(plain_with_all_parts, cast("set[Any]", value)), key=to_json)
        case _ if is_dataclass(value) and not isinstance(value, type):
            return plain_with_all_parts({field.name: getattr(value, field.name) for field in fields(value)})
        case _:
            return plain(value)


def is_flat(value: Any) -> TypeGuard[dict[str, str | int | bool | None]]:
    """Whether a value is a flat JSON object that every serialiser writes identically, as most arguments are.

    Its keys and strings are ASCII, its integers exact, and it has no floats.
    """
    if type(value) is not dict:
        return False
    for key, member in cast("dict[Any, Any]", value).items():
        if type(key) is not str or not key.isascii():
            return False
        kind = cast("type[Any]", type(member))
        if kind is str:
            if not member.isascii():
                return False
        elif kind is int:
            if not -(2**53) <= member <= 2**53:  # every JSON parser reads these exactly
                return False
        elif kind is not bool and member is not None:
            return False
    return True


def _is_tree(value: Any, visited: set[int]) -> bool:
    """Whether a value has only plain types and string keys, and no part twice, so that serialising it is safe."""
    kind = cast("type[Any]", type(value))
    if kind in _LEAVES:
        return True
    if kind not in (dict, list) or id(value) in visited:
        return False
    visited.add(id(value))
    if kind is list:
        return all(_is_tree(item, visited) for item in value)
    return all(type(key) is str and _is_tree(member, visited) for key, member in value.items())


_Path = tuple[str | int, ...]


class _Secrets:
    """One search for secrets. Each container is searched once; its secrets are listed for every path to it."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, list[tuple[_Path, Any]]]] = {}

    def of(self, value: Any, level: int) -> list[tuple[_Path, Any]]:
        kind = cast("type[Any]", type(value))
        if kind in _NO_SECRETS or level > 300:  # more levels than pydantic validates and serialises
            return []
        if (cached := self._known.get(id(value))) is not None:
            return cached[1]
        secrets: list[tuple[_Path, Any]] = []
        # The reference to the value keeps its id from being reused.
        self._known[id(value)] = value, []
        for step, member in enumerate(value) if kind is list else self._members(value, level, secrets):
            if type(member) not in _NO_SECRETS and (inner := self.of(member, level + 1)):
                secrets += [((step, *path), clear) for path, clear in inner]
        self._known[id(value)] = value, secrets
        return secrets

    def _members(self, value: Any, level: int, secrets: list[tuple[_Path, Any]]) -> Iterator[tuple[str | int, Any]]:
        """Yield the members of a value, each with its path segment; add secrets without such a path to ``secrets``."""
        match value:
            case SecretStr() | SecretBytes() | Secret():
                clear = cast("Secret[Any]", value).get_secret_value()
                secrets.append(((), plain(clear)))
                yield "secret", clear
            case BaseModel():
                yield from vars(value).items()
                yield from (value.model_extra or {}).items()
            case dict() | Mapping():
                for key, member in cast("Mapping[Any, Any]", value).items():
                    if isinstance(key, SecretStr | SecretBytes | Secret):  # all have the same masked key in JSON
                        clear = plain(cast("Secret[Any]", key).get_secret_value())
                        secrets.append((("key",), [clear, plain(member)]))
                        yield f"key {to_json(clear).decode()}", member
                    else:
                        yield _text(key) if isinstance(key, str) else to_json(plain(key)).decode(), member
            case list() | tuple() | deque():
                yield from enumerate(cast("list[Any]", value))
            case set() | frozenset():
                # Sets have no order, so each item is listed with its own secrets.
                items = ((item, self.of(item, level + 1)) for item in cast("set[Any]", value))
                secrets += [(("*",), [plain(item), _sorted(inner)]) for item, inner in items if inner]
            case _ if is_dataclass(value) and not isinstance(value, type):
                yield from ((field.name, getattr(value, field.name)) for field in fields(value))
            case _:
                pass


def _sorted(secrets: list[tuple[_Path, Any]]) -> list[Any]:
    return sorted(([list(path), clear] for path, clear in secrets), key=to_json)


class _Converter:
    """One conversion of a value. Errors in the value's own code are caught."""

    def __init__(self) -> None:
        # A few lists that contain each other twice have far too many paths.
        self._values_left = 10_000
        self._ancestor_ids: set[int] = set()
        """The ids of the enclosing values."""

    def convert(self, value: Any) -> Any:
        if self._values_left <= 0 or len(self._ancestor_ids) > 100 or id(value) in self._ancestor_ids:
            return _ELLIPSIS
        self._values_left -= 1
        self._ancestor_ids.add(id(value))
        try:
            return self._to_plain(value)
        except Exception:  # an object may raise anything, even when its type is read
            return _type_name(value)
        finally:
            self._ancestor_ids.discard(id(value))

    def _to_plain(self, value: Any) -> Any:
        match value:
            case None | True | False:
                return value
            case str():
                return _text(value)
            case bytes() | bytearray():
                return f"bytes {value.hex()}"
            case Enum():
                return self.convert(value.value)
            case int():
                # Python does not write integers of more than 4,300 decimal digits, of at least 3 bits each.
                return int(value) if value.bit_length() < 4_000 * 3 else hex(value)
            case float():
                return float(value) if isfinite(value) else None
            case BaseModel():
                return self._members(dict(value))
            case Mapping():
                return self._members(cast("Mapping[Any, Any]", value))
            case list() | tuple() | set() | frozenset() | deque():
                plain_items = self._items(cast("list[Any]", value))
                return sorted(plain_items, key=to_json) if isinstance(value, set | frozenset) else plain_items
            case Iterator():
                return _type_name(cast("object", value))
            case _ if is_dataclass(value) and not isinstance(value, type):
                return self._members({field.name: getattr(value, field.name) for field in fields(value)})
            case _:
                return from_json(to_json(value, fallback=_type_name, inf_nan_mode="null"))

    def _members(self, members: Mapping[Any, Any]) -> dict[str, Any]:
        plain_members: dict[str, Any] = {}
        for key, member in members.items():
            if self._values_left <= 0:
                plain_members[_ELLIPSIS] = _ELLIPSIS
                break
            name = _text(key) if isinstance(key, str) else self._key(key)
            plain_members[unique_name(name, plain_members)] = self.convert(member)  # 1 and "1" are two keys
        return plain_members

    def _key(self, key: Any) -> str:
        plain_key = self.convert(key)
        return plain_key if isinstance(plain_key, str) else to_json(plain_key).decode()

    def _items(self, items: list[Any]) -> list[Any]:
        plain_items: list[Any] = []
        for item in items:
            if self._values_left <= 0:
                plain_items.append(_ELLIPSIS)
                break
            plain_items.append(self.convert(item))
        return plain_items


def _text(text: str) -> str:
    return str.encode(text, errors="backslashreplace").decode()


def _type_name(value: object) -> str:
    try:
        return _text(type(value).__name__[:100])
    except Exception:  # a metaclass may raise anything too
        return "object"


LONG_TEXT_LENGTH: Final = 262_144
"""Strings of at least this many characters are passed on without copying."""


def has_long_text(value: object) -> bool:
    """Whether a value is a dict with a long string among its members."""
    if type(value) is dict:
        for member in cast("dict[Any, Any]", value).values():
            if type(member) is str and len(member) >= LONG_TEXT_LENGTH:
                return True
    return False


def to_json_data(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON-compatible members as JSON data, reusing the long string objects of ``plain``.

    Raises ``ValueError`` for a string with a lone surrogate, and for anything that JSON text cannot represent.
    """
    texts = {name: member for name, member in plain.items() if type(member) is str and len(member) >= LONG_TEXT_LENGTH}
    for text in texts.values():
        _check_surrogates(text)
    return from_json(to_json({**plain, **dict.fromkeys(texts, "")})) | texts


def _check_surrogates(text: str) -> None:
    if not text.isascii():
        size = 65_536  # characters
        for at in range(0, len(text), size):
            text[at : at + size].encode()
