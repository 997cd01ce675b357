"""The agents of a local database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from capset.definitions.principals import Principal
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.stores.base import AgentRow, AgentStatus
from capset.wire.agent_servers import AgentServerState, AgentServerStates, ChangedApprovals
from capset.wire.agents import AgentDetail, AgentDiffShape, AgentInput, AgentPageShape, PreviewShape, VersionPageShape
from capset_connect.agents.permissions import Author
from capset_connect.agents.store import StoredAgents
from capset_connect.agents.wire import detail_of, diff_of, page_of, shown_preview, versions_of
from capset_connect.pins.tool_states import server_page, server_states


class LocalAgents:
    """The methods of ``client.agents``."""

    def __init__(self, kernel: Kernel, principal: Principal, env: Mapping[str, Any]) -> None:
        self._kernel, self._principal, self._env = kernel, principal, env
        self._agents = StoredAgents(kernel, Registry.installed())
        self._author = Author(f"user:{principal.id}", is_admin=True, principal=principal)

    async def list(
        self, *, status: AgentStatus | None = None, name: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> AgentPageShape:
        """List agents: those defined in code, then the stored ones, newest first."""
        org = self._principal.org
        return await page_of(self._kernel, self._agents, org, status=status, name=name, limit=limit, cursor=cursor)

    async def get(self, id: str) -> AgentDetail:
        """Return an agent. Raises ``NotFound``."""
        return detail_of(self._kernel, await self._agents.get(self._principal.org, id))

    async def create(self, agent: AgentInput) -> AgentDetail:
        """Create an agent. Raises ``DefinitionError``."""
        return await self._detail(await self._agents.create(self._principal.org, agent, author=self._author))

    async def change(self, id: str, patch: Mapping[str, Any], *, version: int | None = None) -> AgentDetail:
        """Apply a JSON merge patch to an agent; with ``version``, only if that is its current version."""
        org = self._principal.org
        return await self._detail(await self._agents.change(org, id, patch, author=self._author, version=version))

    async def rollback(self, id: str, to: int, *, version: int | None = None) -> AgentDetail:
        """Restore the content of the version ``to`` as a new version."""
        org = self._principal.org
        return await self._detail(await self._agents.rollback(org, id, to, author=self._author, version=version))

    async def versions(self, id: str, *, limit: int = 50, cursor: str | None = None) -> VersionPageShape:
        """List the versions of an agent, newest first."""
        return await versions_of(self._kernel, self._agents, self._principal.org, id, limit=limit, cursor=cursor)

    async def version(self, id: str, version: int) -> AgentDetail:
        """Return one version of an agent. Raises ``NotFound``."""
        return detail_of(self._kernel, await self._agents.at(self._principal.org, id, version))

    async def diff(self, id: str, before: int, after: int | None = None) -> AgentDiffShape:
        """Compare two versions of an agent. ``after`` defaults to the current one."""
        return await diff_of(
            self._kernel,
            self._agents,
            id,
            before,
            after,
            author=self._author,
            principal=self._principal,
            env=self._env,
        )

    async def preview(self, agent: AgentInput) -> PreviewShape:
        """Preview a new agent, with all its problems, without storing anything."""
        preview = await self._agents.preview(agent, org=self._principal.org)
        return await shown_preview(self._kernel, preview, author=self._author, principal=self._principal, env=self._env)

    async def preview_change(self, id: str, patch: Mapping[str, Any]) -> PreviewShape:
        """Preview an agent as a merge patch would change it, without storing anything."""
        preview = await self._agents.preview_change(self._principal.org, id, patch)
        return await shown_preview(
            self._kernel, preview, author=self._author, principal=self._principal, env=self._env, id=id
        )

    async def servers(self, id: str) -> AgentServerStates:
        """Query the agent's own MCP servers, and return them with their tools."""
        row = await self._agents.stored(self._principal.org, id)
        return server_states(await self._agents.servers.look(row, None))

    async def server(self, id: str, name: str, *, limit: int = 50, cursor: str | None = None) -> AgentServerState:
        """Query one of them, and return each tool as it was approved and as the server describes it now."""
        row = await self._agents.stored(self._principal.org, id)
        (queried_server,) = await self._agents.servers.look(row, name)
        return server_page(queried_server, limit=limit, cursor=cursor)

    async def approve_tools(self, id: str, name: str, tools: Mapping[str, str]) -> ChangedApprovals:
        """Approve tools of one of the agent's own MCP servers. ``tools`` maps names to the reviewed hashes."""
        approvals = await self._agents.approve_tools(self._principal.org, id, name, tools, by=self._principal)
        return ChangedApprovals(tools=[approval.name for approval in approvals])

    async def withdraw_tools(self, id: str, name: str, tools: Sequence[str]) -> ChangedApprovals:
        """Withdraw approvals of tools, without contacting the MCP server."""
        row = await self._agents.stored(self._principal.org, id)
        return ChangedApprovals(tools=await self._agents.servers.withdraw(row, name, tools, self._principal))

    async def _detail(self, row: AgentRow) -> AgentDetail:
        return detail_of(self._kernel, await self._agents.loaded(row))
