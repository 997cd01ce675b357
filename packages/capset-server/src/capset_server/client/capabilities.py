"""The capabilities installed on the server."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from capset.definitions.capabilities import Status
from capset.wire.capabilities import CapabilityDetail, CapabilityPageShape, CapabilityShape
from capset_server.client.connection import LARGEST_PAGE, Connection, every, path_of


class CapabilityResource:
    """``client.capabilities``; needs a key with the scope ``capset:read``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(
        self,
        *,
        status: Status | None = None,
        category: str | None = None,
        permission: str | None = None,
        text: str | None = None,
        limit: int = LARGEST_PAGE,
        cursor: str | None = None,
    ) -> CapabilityPageShape:
        """List the capabilities that match all filters, by id.

        ``permission`` is one that a tool needs; ``text`` is searched for in ids, aliases, names and descriptions.
        ``limit`` is 1–200, ``cursor`` the ``next`` of the previous page.
        """
        query = {"status": status, "category": category, "permission": permission, "text": text}
        page = {"limit": limit, "cursor": cursor}
        return await self._connection.get(CapabilityPageShape, path_of("capabilities"), query | page)

    def all(
        self,
        *,
        status: Status | None = None,
        category: str | None = None,
        permission: str | None = None,
        text: str | None = None,
    ) -> AsyncGenerator[CapabilityShape]:
        """Iterate over all matching capabilities, page by page."""
        return every(
            lambda cursor: self.list(status=status, category=category, permission=permission, text=text, cursor=cursor)
        )

    async def get(self, id: str, *, readiness: bool = True) -> CapabilityDetail:
        """Return one capability, by its id or an alias, with all its parts. Raises ``NotFound``.

        ``readiness=False`` skips the check of what the capability works with on the server. It may take a second.
        """
        query = None if readiness else {"readiness": "false"}
        return await self._connection.get(CapabilityDetail, path_of("capabilities", id), query)
