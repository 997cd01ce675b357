"""Sessions on the wire (spec 5, P8)."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from capset.stores.base import SessionRow
from capset.wire.shapes import Shape


class SessionInput(Shape):
    """Which agent a new session is of: the id of a stored one, or the name of one that is defined in code."""

    model_config = ConfigDict(strict=True)

    agent_id: Annotated[str, Field(min_length=1, max_length=200)]


class SessionShape(Shape):
    """One conversation: whose, with which agent in which version, since when."""

    id: str
    agent: str
    agent_id: str | None = None
    agent_version: int | None = None
    static_hash: str
    principal: str
    principal_kind: str
    created_at: str


class SessionPageShape(Shape):
    """Some sessions, and the cursor of the next page, if there is one."""

    items: list[SessionShape]
    next: str | None = None


def session_shape(row: SessionRow) -> SessionShape:
    """Return the wire shape of a session."""
    return SessionShape(**{name: getattr(row, name) for name in SessionShape.model_fields})
