"""The chat users who may decide approval requests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any, Literal

from capset.wire.people import PersonPageShape, PersonShape
from capset_server.client.connection import LARGEST_PAGE, Connection, every, json_bytes, path_of


class PersonResource:
    """``client.people``; needs a key with the scope ``capset:admin``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self, *, limit: int = 50, cursor: str | None = None) -> PersonPageShape:
        """List the people of the organisation, newest first.

        ``limit`` is 1–200, ``cursor`` the ``next`` of the previous page.
        """
        return await self._connection.get(PersonPageShape, path_of("people"), {"limit": limit, "cursor": cursor})

    def all(self) -> AsyncGenerator[PersonShape]:
        """Iterate over all people, newest first, page by page."""
        return every(lambda cursor: self.list(limit=LARGEST_PAGE, cursor=cursor))

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
        """Add a user of a Slack workspace, by the ids of both, as a principal.

        Raises ``Conflict`` if the user was already added, and ``PermissionDenied`` for permissions that the caller
        lacks.
        """
        body: dict[str, Any] = {"team": team, "user": user, "principal": principal, "kind": kind}
        body |= {"permissions": [*permissions]}
        if attributes is not None:
            body["attributes"] = dict(attributes)
        return await self._connection.send(PersonShape, "POST", path_of("people"), json_bytes(body))

    async def remove(self, id: str) -> None:
        """Remove a person, who can then no longer decide requests. Raises ``NotFound``."""
        await self._connection.delete(path_of("people", id))
