"""Type checks for values of documents; ``null`` stands for an absent member (spec 7, M8, M105)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from capset.errors import DefinitionError

Node = Mapping[str, Any]
"""An object of a document; its members have any JSON type."""


def as_node(label: str, value: object) -> Node:
    """Return a value that must be an object. Raises ``DefinitionError``, starting with ``label``, if it is not."""
    if not isinstance(value, Mapping):
        raise DefinitionError(f"{label}: an object was expected; got {value!r:.80}")
    return cast("Node", value)


def as_members(label: str, value: object) -> Node:
    """Return a value that must be an object, ``{}`` for ``None``. Raises ``DefinitionError`` if it is not."""
    return {} if value is None else as_node(label, value)


def as_list(label: str, value: object) -> list[Any]:  # JSON
    """Return a value that must be a list, ``[]`` for ``None``. Raises ``DefinitionError`` if it is not."""
    if value is not None and not isinstance(value, list):
        raise DefinitionError(f"{label}: a list was expected; got {value!r:.80}")
    return cast("list[Any]", value or [])


def as_text(label: str, value: object) -> str:
    """Return a value that must be text, ``""`` for ``None``. Raises ``DefinitionError`` if it is not."""
    if value is not None and not isinstance(value, str):
        raise DefinitionError(f"{label}: text was expected; got {value!r:.80}")
    return value or ""


def stripped(value: object) -> str:
    """Return a text without surrounding spaces, ``""`` for a value that is not text."""
    return value.strip() if isinstance(value, str) else ""
