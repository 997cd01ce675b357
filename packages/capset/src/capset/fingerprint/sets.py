"""Sets in JSON data, sorted so that their order is the same in every process."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Set
from typing import Any, cast

from pydantic import RootModel
from pydantic.fields import FieldInfo

from capset.fingerprint.canonical import canonical


def sorted_sets(value: Any, data: Any) -> Any:
    """Return ``data``, the JSON form of ``value``, with those lists sorted that are sets in ``value``."""
    while isinstance(value, RootModel):
        value = cast("RootModel[Any]", value).root
    if isinstance(data, list):
        items = cast("list[Any]", data)
        if not isinstance(value, list | tuple | deque | Set) or len(cast("list[Any]", value)) != len(items):
            return items
        sorted_items = [sorted_sets(*pair) for pair in zip(cast("list[Any]", value), items, strict=True)]
        return sorted(sorted_items, key=canonical) if isinstance(value, Set) else sorted_items
    if isinstance(data, dict):
        members = cast("dict[str, Any]", data)
        if isinstance(value, Mapping):
            inner = dict(zip(members, cast("Mapping[Any, Any]", value).values(), strict=False))
        else:
            names = _names_by_alias(type(value))
            inner = {name: getattr(value, names.get(name, name), None) for name in members}
        return {name: sorted_sets(inner.get(name), member) for name, member in members.items()}
    return data


def _names_by_alias(kind: Any) -> dict[str | None, str]:
    """Return the field names of a model or a dataclass, by their serialization aliases."""
    fields: Mapping[str, FieldInfo] = getattr(kind, "__pydantic_fields__", {})
    return {info.serialization_alias: name for name, info in fields.items()}
