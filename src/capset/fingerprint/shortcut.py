"""Canonical JSON by Python's own C encoder, where its text shows that it is canonical; by pydantic's where it is flat.

The encoder escapes texts as RFC 8785 does. It differs in floats, in integers beyond ±2^53, in keys that are no text,
and in the order of keys beyond the basic plane; it also goes deeper than the walk. Whatever in its text could be one of
these is left to the walk, so no byte depends on the road.
"""

from __future__ import annotations

import re
from json import JSONEncoder
from typing import Any, Final, cast

from pydantic_core import to_json

from capset.schemas.plain_data import is_flat

_encode: Final = JSONEncoder(
    sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False
).encode
_CONTAINERS: Final = frozenset({dict, list, tuple})
_MAX_LEVELS: Final = 100
"""Levels of nesting for which the walk has stack wherever it is called."""
_LONG: Final = b"0" * 16
_BASIC_PLANE: Final = bytes(range(0xF0))
"""The bytes of UTF-8 for all characters but those beyond U+FFFF."""
_SKELETON: Final = bytes.maketrans(b"123456789-[", b"000000000+{")
_FLESH: Final = bytes(set(range(256)) - set(b"0123456789.e+-[{"))
"""What is left of a text without these bytes tells at once that most have no odd number, and few containers."""
_COLONS: Final = bytes.maketrans(b",[", b"::")
"""With these, a number stands after a colon and before one or a bracket; a search that begins with one byte is fast."""
_ODD_NUMBER: Final = re.compile(
    rb":[-0-9](?:[0-9]{15}|[0-9]*(?:\.[0-9]+(?:e[-+][0-9]+)?|e[-+][0-9]+)[:}\]])",
)
"""An integer that may be beyond 2^53, or a float: Python writes all with a point, or an exponent and its sign."""
_ODD_KEY: Final = re.compile(rb'\{"(?:-?[0-9][-+.e0-9]*|true|false|null)":')
"""A key that may be no text: such have no order among texts, so one is the first, and is written as it would be."""


def encoded(value: Any) -> bytes | None:
    """Return the canonical bytes of a dict, a list or a tuple, or ``None`` if the walk must write them.

    It must, too, for all that has no canonical form; of what is flat, but for the plainest, it is as fast.
    """
    kind = cast("type[Any]", type(value))
    if kind not in _CONTAINERS:
        return None
    if _CONTAINERS.isdisjoint(map(type, value.values() if kind is dict else value)):
        return to_json(dict(sorted(value.items()))) if is_flat(value) else None
    try:
        data = _encode(value).encode()
    except (TypeError, ValueError, RecursionError):
        return None
    if not data.isascii() and data.translate(None, _BASIC_PLANE):
        return None
    if _ODD_KEY.search(data):
        return None
    bones = data.translate(_SKELETON, _FLESH)
    may_be_odd = b"0.0" in bones or b"0e+0" in bones or _LONG in bones
    if may_be_odd and _ODD_NUMBER.search(data.translate(_COLONS)):
        return None
    if bones.count(b"{") > _MAX_LEVELS and not _fits(value, _MAX_LEVELS):
        return None
    return data


def _fits(value: Any, levels: int) -> bool:
    """Whether a value is nested no deeper than so many levels. It has been encoded, so it has an end."""
    items = cast("dict[Any, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
    return levels > 0 and all(_fits(item, levels - 1) for item in items if isinstance(item, dict | list | tuple))
