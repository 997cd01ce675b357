"""API keys on the wire: everything but the key itself, which is shown once, on creation (spec 5, P14)."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from capset.definitions.principals import Attributes
from capset.stores.base import KeyRow
from capset.wire.allowances import AllowanceShape
from capset.wire.shapes import Shape


class KeyShape(Shape):
    """A key, without what must be kept secret; times are ISO 8601 UTC.

    ``attributes`` are the principal's, and masked where their names are those of secrets.
    ``allowance`` is what the principal may use by it.
    """

    id: str
    name: str
    org: str | None = None
    principal: str
    principal_kind: str
    permissions: list[str]
    scopes: list[str]
    created_at: str
    expires_at: str | None = None
    revoked_at: str | None = None
    agent: str | None = None
    attributes: dict[str, str | int | float | bool | None] = Field(default_factory=dict[str, Any])
    allowance: AllowanceShape | None = None


class KeyPageShape(Shape):
    """Every key, newest first."""

    items: list[KeyShape]


class NewKeyShape(KeyShape):
    """A key that was just made, with its secret: it is shown this once, and kept hashed only."""

    key: str


def key_shape(row: KeyRow) -> KeyShape:
    """Return the wire shape of a key."""
    return KeyShape(**_members(row))


def new_key_shape(row: KeyRow, key: str) -> NewKeyShape:
    """Return the wire shape of a newly created key."""
    return NewKeyShape(**_members(row), key=key)


def _members(row: KeyRow) -> dict[str, Any]:  # texts and lists of texts
    values = {name: getattr(row, name) for name in KeyShape.model_fields}
    said = Attributes(row.attributes).masked()
    return {**values, "permissions": list(row.permissions), "scopes": list(row.scopes), "attributes": said}
