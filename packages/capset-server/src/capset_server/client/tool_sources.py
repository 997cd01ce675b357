"""The MCP servers and APIs that the server's configuration declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from capset.wire.agent_servers import ChangedApprovals, ToolSources, ToolSourceState
from capset_server.client.connection import Connection, json_bytes, path_of


class ToolSourceResource:
    """``client.tool_sources``; needs a key with the scope ``capset:admin``, and of no organisation for approvals."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self) -> ToolSources:
        """Return every MCP server and API of the configuration, as far as is known without asking it."""
        return await self._connection.get(ToolSources, path_of("tool-sources"))

    async def get(self, id: str, *, limit: int = 50, cursor: str | None = None) -> ToolSourceState:
        """Ask one of them, and return it with its tools: what was approved of each, and what is said of it now.

        ``limit`` is 1–200, ``cursor`` the ``next`` of the page before. Raises ``NotFound``.
        """
        query = {"limit": limit, "cursor": cursor}
        return await self._connection.get(ToolSourceState, path_of("tool-sources", id), query)

    async def approve(self, id: str, tools: Mapping[str, str]) -> ChangedApprovals:
        """Approve tools by their names there, each with the hash that was seen.

        Raises ``PermissionDenied`` for a key of an organisation, ``Conflict`` if a tool is not as it was seen any more,
        and ``DefinitionError`` for one that is not there, or that nothing could call; none is approved then.
        """
        path, body = path_of("tool-sources", id, "approve"), {"tools": dict(tools)}
        return await self._connection.send(ChangedApprovals, "POST", path, json_bytes(body))

    async def withdraw(self, id: str, tools: Sequence[str]) -> ChangedApprovals:
        """Take approvals of tools back. Raises ``DefinitionError`` for a tool that is not approved."""
        path, body = path_of("tool-sources", id, "withdraw"), {"tools": list(tools)}
        return await self._connection.send(ChangedApprovals, "POST", path, json_bytes(body))
