"""Strict JSON, taken apart: what a text says, and the very text of each member (spec 3, K3)."""

from __future__ import annotations

import json
import re
from typing import Any, Final, cast

from pydantic_core import from_json

_MAX_NAME: Final = 100
_SPACE: Final = re.compile(r"[ \t\r\n]*")


def parse_strictly(text: bytes) -> tuple[Any, dict[str, str]]:  # any JSON
    """Return what JSON text says, and of an object the text of each member.

    Raises ``ValueError`` for what is not UTF-8, for NaN and infinities, lone surrogates, a depth beyond 200 and a key
    that stands twice in one object. A number beyond every float is an infinity; its text is there all the same.
    """
    said = from_json(text, allow_inf_nan=False)  # strict but for one thing: of a key that stands twice the last counts
    if isinstance(said, dict):
        return cast("dict[str, Any]", said), _members(text.decode())
    _ONCE.decode(text.decode())
    return said, {}


def _members(text: str) -> dict[str, str]:
    """Take the members of an object that is known to be JSON."""
    members: dict[str, str] = {}
    place = _after_space(text, text.index("{") + 1)
    while text[place] != "}":
        key, place = _ONCE.raw_decode(text, place)
        start = _after_space(text, text.index(":", place) + 1)
        _, end = _ONCE.raw_decode(text, start)
        if key in members:
            raise _twice(key)
        members[key] = text[start:end]
        place = _after_space(text, end)
        if text[place] == ",":
            place = _after_space(text, place + 1)
    return members


def _after_space(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return found.end() if found else place


def _refuse_twice(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise _twice(key)
        seen.add(key)


def _twice(key: str) -> ValueError:
    return ValueError(f"the key {key[:_MAX_NAME]!r} stands twice in one object")


_ONCE: Final = json.JSONDecoder(object_pairs_hook=_refuse_twice)
