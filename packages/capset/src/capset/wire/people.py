"""People on the wire: chat users, and the principals that they act as (spec 9, N30)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Annotated, Any, Literal

from pydantic import Field

from capset.definitions.names import PERMISSION
from capset.definitions.principals import Attributes
from capset.stores.base import Page, PersonQuery, PersonRow
from capset.wire.agents import Text
from capset.wire.pages import read_page
from capset.wire.shapes import PageShape, Shape, StrictShape

SlackId = Annotated[str, Field(pattern="^[A-Z0-9]{2,32}$")]
Permissions = Annotated[list[Annotated[str, Field(pattern=f"^{PERMISSION.pattern}$")]], Field(max_length=200)]


class PersonInput(StrictShape):
    """A user of a Slack workspace, and the principal that the user acts as when deciding requests.

    Both are identified by Slack's ids (`T…` and `U…`), since users can change their names and addresses.
    """

    team: SlackId = Field(description="The id of the workspace.")
    user: SlackId = Field(description="The id of the user in it.")
    principal: Annotated[Text, Field(min_length=1, max_length=200)]
    kind: Literal["user", "agent", "org"] = "user"
    permissions: Permissions = Field(
        default_factory=list[str], description="The principal's permissions; at most those of the caller."
    )
    attributes: dict[str, Any] | None = Field(None, description="Facts about the principal, for policies to read.")


class PersonShape(Shape):
    """A user of a Slack workspace, and the principal that the user acts as. `created_by` added the entry.

    If it was added over REST, `makers` are those who added it and those who made their keys. For approvals, they count
    as the person.
    """

    id: str
    team: str
    user: str
    principal: str
    principal_kind: str
    org: str | None = None
    permissions: list[str]
    attributes: dict[str, Any] | None = None
    created_at: str
    created_by: str
    makers: list[str] = Field(default_factory=list[str])


class PersonPageShape(PageShape[PersonShape]):
    """A page of people, and the cursor of the next page, if any."""


def person_shape(row: PersonRow) -> PersonShape:
    """Return the wire shape of a person. Attributes with names of secrets are masked."""
    columns = {name: getattr(row, name) for name in PersonShape.model_fields}
    masked = None if row.attributes is None else dict(Attributes(row.attributes).masked())
    lists = {"permissions": list(row.permissions), "makers": list(row.makers)}
    return PersonShape.model_validate({**columns, **lists, "attributes": masked})


async def person_page_shape(
    read: Callable[[PersonQuery], Awaitable[Page[PersonRow]]], query: PersonQuery
) -> PersonPageShape:
    """Return the wire shape of a page of people."""
    items, next_cursor = await read_page(read, query, person_shape, attrgetter("id"))
    return PersonPageShape(items=items, next=next_cursor)
