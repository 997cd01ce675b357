"""The chat users who may decide approval requests, in a local database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from capset.definitions.principals import Principal
from capset.kernel.kernel import Kernel
from capset.stores.base import PersonQuery
from capset.wire.people import PersonInput, PersonPageShape, PersonShape, person_page_shape, person_shape
from capset_server.approvals.people import add_person, person_of, remove_person


class LocalPeople:
    """The methods of ``client.people``."""

    def __init__(self, kernel: Kernel, principal: Principal) -> None:
        self._kernel, self._principal = kernel, principal

    async def list(self, *, limit: int = 50, cursor: str | None = None) -> PersonPageShape:
        """List the people of the organisation, newest first."""
        query = PersonQuery(self._principal.org, limit=limit, before=cursor)
        return await person_page_shape(self._kernel.store.people.list, query)

    async def add(
        self,
        team: str,
        user: str,
        principal: str,
        *,
        kind: Literal["user", "agent", "org"] = "user",
        permissions: Iterable[str] = (),
        attributes: Mapping[str, Any] | None = None,  # JSON data
    ) -> PersonShape:
        """Register a Slack user as a principal. Raises ``Conflict`` if the user is registered already.

        ``team`` and ``user`` are Slack's ids of the workspace and the user.
        """
        person = PersonInput(
            team=team,
            user=user,
            principal=principal,
            kind=kind,
            permissions=[*permissions],
            attributes=None if attributes is None else dict(attributes),
        )
        row = person_of(self._kernel, person, self._principal.org, self._principal)
        return person_shape(await add_person(self._kernel, row))

    async def remove(self, id: str) -> None:
        """Remove a person, who can then no longer decide requests. Raises ``NotFound``."""
        await remove_person(self._kernel, self._principal.org, id)
