"""What of an environment can be kept: JSON data, without what looks like a secret (spec 2, F27)."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final, cast

from capset.definitions.secrecy import is_secret_name

MAX_LEVELS: Final = 50
MAX_BITS: Final = 4000 * 3
"""An integer of more than 4,300 decimal digits is written by nobody, and read by nobody."""
_DROPPED: Final = object()


def json_safe(values: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return what of some values is JSON data, in copies, and the paths of what is not, such as ``db.pool``.

    Dropped are values of other types, numbers that JSON has not or nobody reads, text with a lone surrogate, what holds
    itself or is nested more than 50 levels deep, and the values of names that secrets have.
    """
    look = _Look()
    kept = look.members(values, "")
    return kept, tuple(look.dropped)


def thawed(value: Any) -> Any:
    """Return JSON data in plain dicts and lists of its own."""
    if isinstance(value, Mapping):
        return {key: thawed(one) for key, one in cast("Mapping[str, Any]", value).items()}
    return [thawed(one) for one in cast("list[Any]", value)] if isinstance(value, list | tuple) else value


class _Look:
    """One look at some values; ``above`` are the ids of what holds the value looked at."""

    def __init__(self) -> None:
        self.dropped: list[str] = []
        self._above: set[int] = set()

    def members(self, members: Mapping[Any, Any], path: str) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for name, value in members.items():
            here = f"{path}.{_shown(name)}" if path else _shown(name)
            is_kept = isinstance(name, str) and _is_text(name) and (value is None or not is_secret_name(name))
            safe = self._kept(value, here) if is_kept else self._drop(here)
            if safe is not _DROPPED:
                kept[name] = safe
        return kept

    def _kept(self, value: Any, path: str) -> Any:
        if _is_leaf(value):
            return value
        itself = id(cast("object", value))
        if len(self._above) >= MAX_LEVELS or itself in self._above:
            return self._drop(path)
        self._above.add(itself)
        try:
            if type(value) in (list, tuple):
                items = [self._kept(one, f"{path}[{index}]") for index, one in enumerate(value)]
                return [one for one in items if one is not _DROPPED]
            if isinstance(value, Mapping):
                return self.members(cast("Mapping[Any, Any]", value), path)
        finally:
            self._above.discard(itself)
        return self._drop(path)

    def _drop(self, path: str) -> Any:
        self.dropped.append(path)
        return _DROPPED


def _is_leaf(value: Any) -> bool:
    kind = cast("type[object]", type(value))
    if kind is int:
        return value.bit_length() <= MAX_BITS
    return value is None or kind is bool or (kind is float and isfinite(value)) or (kind is str and _is_text(value))


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(name: object) -> str:
    return str(name).encode(errors="backslashreplace").decode()
