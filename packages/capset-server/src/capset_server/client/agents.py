"""The agents of the key's organisation."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from typing import Any

from capset.stores.base import AgentStatus
from capset.wire.agent_servers import AgentServerState, AgentServerStates, ChangedApprovals
from capset.wire.agents import AgentDetail, AgentDiffShape, AgentInput, AgentPageShape, PreviewShape, VersionPageShape
from capset_server.client.connection import LARGEST_PAGE, Connection, every, if_match, json_bytes, path_of


class AgentResource:
    """``client.agents``; needs a key with the scope ``capset:read``, and ``capset:write`` for changes."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(self, agent: AgentInput) -> AgentDetail:
        """Create an agent.

        Raises ``DefinitionError``, which names every unavailable capability or a conflict, and ``PermissionDenied``,
        which names everything that only an administrator can enable.
        """
        return await self._connection.send(AgentDetail, "POST", path_of("agents"), json_bytes(agent.plain()))

    async def get(self, id: str) -> AgentDetail:
        """Return an agent: a stored one by its id, or one that is defined in code by its name. Raises ``NotFound``."""
        return await self._connection.get(AgentDetail, path_of("agents", id))

    async def list(
        self,
        *,
        status: AgentStatus | None = None,
        name: str | None = None,
        text: str | None = None,
        capability: str | None = None,
        mcp_servers: bool = False,
        limit: int = 50,
        cursor: str | None = None,
    ) -> AgentPageShape:
        """List the agents that match all filters: those defined in code, then the stored ones, newest first.

        ``text`` is a part of their names, in upper or lower case. ``capability`` is the id or an alias of a capability
        that the agents use. With ``mcp_servers``, they must have MCP servers of their own.
        ``limit`` is 1–200, ``cursor`` the ``next`` of the previous page.
        """
        query = {"status": status, "name": name, "text": text, "capability": capability, "limit": limit}
        query |= {"cursor": cursor, "mcp_servers": "true" if mcp_servers else None}
        return await self._connection.get(AgentPageShape, path_of("agents"), query)

    def all(
        self,
        *,
        status: AgentStatus | None = None,
        name: str | None = None,
        text: str | None = None,
        capability: str | None = None,
        mcp_servers: bool = False,
    ) -> AsyncGenerator[AgentDetail]:
        """Iterate over all matching agents, page by page."""

        def page(cursor: str | None) -> Awaitable[AgentPageShape]:
            return self.list(
                status=status,
                name=name,
                text=text,
                capability=capability,
                mcp_servers=mcp_servers,
                limit=LARGEST_PAGE,
                cursor=cursor,
            )

        return every(page)

    async def change(
        self,
        id: str,
        patch: Mapping[str, Any],  # any JSON
        *,
        version: int | None = None,
    ) -> AgentDetail:
        """Apply a JSON merge patch (RFC 7396) to an agent: ``None`` clears a member. Each change is a new version.

        With ``version``, raises ``Outdated`` unless the agent is at that version. Raises ``Conflict`` for an agent that
        is defined in code, ``InvalidArguments`` or ``DefinitionError`` for an invalid patch, and ``PermissionDenied``,
        which names everything that only an administrator can enable.
        """
        headers = {"Content-Type": "application/merge-patch+json", **if_match(version)}
        path = path_of("agents", id)
        return await self._connection.send(AgentDetail, "PATCH", path, json_bytes(patch), headers)

    async def archive(self, id: str, *, version: int | None = None) -> None:
        """Archive an agent: it accepts no new sessions; existing ones become read-only. Raises as ``change`` does."""
        await self._connection.delete(path_of("agents", id), headers=if_match(version))

    async def versions(self, id: str, *, limit: int = 50, cursor: str | None = None) -> VersionPageShape:
        """List the versions of an agent, newest first; ``limit`` is 1–200, ``cursor`` the ``next`` of a page."""
        return await self._connection.get(
            VersionPageShape, path_of("agents", id, "versions"), {"limit": limit, "cursor": cursor}
        )

    async def version(self, id: str, version: int) -> AgentDetail:
        """Return one version of an agent. Raises ``NotFound``."""
        return await self._connection.get(AgentDetail, path_of("agents", id, "versions", str(version)))

    async def rollback(self, id: str, to: int, *, version: int | None = None) -> AgentDetail:
        """Save the contents of the version ``to``, except for the status, as the next version.

        ``version`` is as for ``change``. Raises ``NotFound`` for a missing version, and any error of ``change``.
        """
        path, body = path_of("agents", id, "rollback"), json_bytes({"version": to})
        return await self._connection.send(AgentDetail, "POST", path, body, if_match(version))

    async def diff(self, id: str, before: int, after: int | None = None) -> AgentDiffShape:
        """Compare two versions of an agent; ``after`` defaults to the current one. Raises ``NotFound``."""
        query = {"before": before, "after": after}
        return await self._connection.get(AgentDiffShape, path_of("agents", id, "diff"), query)

    async def preview(self, agent: AgentInput) -> PreviewShape:
        """Return a preview of a new agent, with all its problems; nothing is stored."""
        return await self._connection.send(
            PreviewShape, "POST", path_of("agents", "preview"), json_bytes(agent.plain())
        )

    async def preview_change(
        self,
        id: str,
        patch: Mapping[str, Any],  # any JSON
    ) -> PreviewShape:
        """Return a preview of an agent after a merge patch; ``{}`` previews it unchanged. Nothing is stored.

        Raises ``NotFound``, ``InvalidArguments`` for an invalid patch, and ``Conflict`` for an agent that is defined in
        code.
        """
        headers = {"Content-Type": "application/merge-patch+json"}
        path = path_of("agents", id, "preview")
        return await self._connection.send(PreviewShape, "POST", path, json_bytes(patch), headers)

    async def servers(self, id: str) -> AgentServerStates:
        """Query the agent's own MCP servers, and return them with their tools. Needs the scope ``capset:admin``."""
        return await self._connection.get(AgentServerStates, path_of("agents", id, "mcp-servers"))

    async def server(self, id: str, name: str, *, limit: int = 50, cursor: str | None = None) -> AgentServerState:
        """Query one of the agent's own MCP servers; return each tool as approved, and as the server describes it now.

        ``limit`` is 1–200, ``cursor`` the ``next`` of the previous page. Raises ``NotFound``.
        """
        query = {"limit": limit, "cursor": cursor}
        return await self._connection.get(AgentServerState, path_of("agents", id, "mcp-servers", name), query)

    async def approve_tools(self, id: str, name: str, tools: Mapping[str, str]) -> ChangedApprovals:
        """Approve tools of one of the agent's own MCP servers, each by its name there and the hash that was reviewed.

        Raises ``Conflict`` if a tool has another hash by now, and ``DefinitionError`` if the server does not have it or
        nothing could call it. In both cases, no tool is approved.
        """
        path, body = path_of("agents", id, "mcp-servers", name, "approve"), {"tools": dict(tools)}
        return await self._connection.send(ChangedApprovals, "POST", path, json_bytes(body))

    async def withdraw_tools(self, id: str, name: str, tools: Sequence[str]) -> ChangedApprovals:
        """Withdraw the approvals of tools. Raises ``DefinitionError`` for a tool that is not approved."""
        path, body = path_of("agents", id, "mcp-servers", name, "withdraw"), {"tools": list(tools)}
        return await self._connection.send(ChangedApprovals, "POST", path, json_bytes(body))
