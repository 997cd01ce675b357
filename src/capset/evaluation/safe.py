"""What of an environment can be kept: JSON data, without what looks like a secret (spec 2, F27)."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final, cast

from capset.definitions.secrecy import is_secret_name

MAX_LEVELS: Final = 50
_DROPPED: Final = object()


def json_safe(values: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return what of some values is JSON data, in copies, and the paths of what is not, such as ``db.pool``.

    Dropped are values of other types, numbers that JSON has not, text with a lone surrogate, what is nested more than
    50 levels deep, and the values of names that secrets have.
    """
    dropped: list[str] = []
    kept = {key: _kept(value, str(key), key, 0, dropped) for key, value in values.items()}
    return {key: value for key, value in kept.items() if value is not _DROPPED}, tuple(dropped)


def _kept(value: Any, path: str, name: object, level: int, dropped: list[str]) -> Any:
    if isinstance(name, str) and (value is None or not is_secret_name(name)) and _is_text(name) and level < MAX_LEVELS:
        kind = cast("type[object]", type(value))
        if value is None or kind in (bool, int) or (kind is float and isfinite(value)):
            return value
        if kind is str and _is_text(value):
            return value
        if kind in (list, tuple):
            items = cast("list[Any]", value)
            kept = [_kept(one, f"{path}[{index}]", "", level + 1, dropped) for index, one in enumerate(items)]
            return [one for one in kept if one is not _DROPPED]
        if isinstance(value, Mapping):
            members = cast("Mapping[Any, Any]", value)
            inner = {key: _kept(one, f"{path}.{key}", key, level + 1, dropped) for key, one in members.items()}
            return {key: one for key, one in inner.items() if one is not _DROPPED}
    dropped.append(path)
    return _DROPPED


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
