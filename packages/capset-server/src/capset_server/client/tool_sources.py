"""The MCP servers and APIs that the server's configuration declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from capset.wire.agent_servers import ChangedApprovals, ToolSources, ToolSourceState
from capset_server.client.connection import Connection, json_bytes, path_of


class ToolSourceResource:
    """``client.tool_sources``; needs a key with the scope ``capset:admin``, without an organisation for approvals."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self) -> ToolSources:
        """Return every MCP server and API of the configuration, as far as known without querying it."""
        return await self._connection.get(ToolSources, path_of("tool-sources"))

    async def get(self, id: str, *, limit: int = 50, cursor: str | None = None) -> ToolSourceState:
        """Query an MCP server or API; return each of its tools as approved, and as described now.

        ``limit`` is 1–200, ``cursor`` the ``next`` of the previous page. Raises ``NotFound``.
        """
        query = {"limit": limit, "cursor": cursor}
        return await self._connection.get(ToolSourceState, path_of("tool-sources", id), query)

    async def approve(self, id: str, tools: Mapping[str, str]) -> ChangedApprovals:
        """Approve tools, each by its name at the source and the hash that was reviewed.

        Raises ``PermissionDenied`` for a key of an organisation, ``Conflict`` if a tool has another hash by now, and
        ``DefinitionError`` if it does not exist or nothing could call it. In these cases, no tool is approved.
        """
        path, body = path_of("tool-sources", id, "approve"), {"tools": dict(tools)}
        return await self._connection.send(ChangedApprovals, "POST", path, json_bytes(body))

    async def withdraw(self, id: str, tools: Sequence[str]) -> ChangedApprovals:
        """Withdraw the approvals of tools. Raises ``DefinitionError`` for a tool that is not approved."""
        path, body = path_of("tool-sources", id, "withdraw"), {"tools": list(tools)}
        return await self._connection.send(ChangedApprovals, "POST", path, json_bytes(body))
