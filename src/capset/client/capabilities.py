"""What is installed on the server."""

from __future__ import annotations

from capset.client.address import path_of
from capset.client.connection import Connection
from capset.definitions.capabilities import Status
from capset.wire.capabilities import CapabilityDetail, CapabilityPageShape


class Capabilities:
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
    ) -> CapabilityPageShape:
        """List the capabilities that fit everything given, by id; they have one page.

        ``permission`` is one that a tool of theirs needs; ``text`` is looked for in ids, aliases, names and
        descriptions.
        """
        query = {"status": status, "category": category, "permission": permission, "text": text}
        return await self._connection.get(CapabilityPageShape, path_of("capabilities"), query)

    async def get(self, id: str) -> CapabilityDetail:
        """Return one capability, by its id or an alias, with all that it can bring. Raises ``NotFound``."""
        return await self._connection.get(CapabilityDetail, path_of("capabilities", id))
