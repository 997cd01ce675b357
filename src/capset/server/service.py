"""What every door over HTTP works with: the kernel, the registry, the stored agents, and sessions for callers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from capset.adapters.stored_agents import Loaded, StoredAgents
from capset.definitions.agents import Agent
from capset.errors import Conflict, NotFound
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.kernel.session import Session
from capset.server.caller import Caller, Callers
from capset.server.fingerprints import Fingerprints
from capset.server.limits import Limits
from capset.server.recent import Recent
from capset.stores.base import SessionRow


class Service:
    """One kernel as a service. ``env`` is what the host says of this environment, in values of its own.

    ``anyone`` is who everybody is where no keys are asked for.
    """

    def __init__(
        self,
        kernel: Kernel,
        registry: Registry,
        *,
        env: Mapping[str, Any] | None = None,
        anyone: Caller | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.kernel = kernel
        self.registry = registry
        self.agents = StoredAgents(kernel, registry)
        self.fingerprints = Fingerprints(kernel, registry, self.agents)
        self.callers = Callers(kernel, anyone)
        self.limits = limits or Limits()
        self._env = env or {}
        self._sessions: Recent[tuple[Caller, str], Session] = Recent()
        self._agent_sessions: Recent[tuple[Caller, str], Session] = Recent()

    @property
    def env(self) -> Mapping[str, Any]:
        """What the host says of this environment, in values of its own."""
        return self._env

    def adopt(self, registry: Registry) -> None:
        """Work with another registry from now on, whole and at once; running sessions keep what they began with.

        ``registry.earlier`` must have the agents that are not in it any more.
        """
        agents = StoredAgents(self.kernel, registry)
        self.registry, self.agents = registry, agents
        self.fingerprints = Fingerprints(self.kernel, registry, agents)
        self._agent_sessions.forget(lambda _, session: True)

    async def session_row(self, caller: Caller, id: str) -> SessionRow:
        """Return what is kept of the caller's session. Raises ``NotFound``, for somebody else's too."""
        row = await self.kernel.find_session(id)
        who = caller.principal
        if row is None or (row.org, row.principal_kind, row.principal) != (who.org, who.kind, who.id):
            raise NotFound(f"there is no session {id!r}")
        return row

    async def session(self, caller: Caller, id: str) -> Session:
        """Return the caller's session, entered at most a second ago. Raises ``NotFound``, for somebody else's too."""
        return await self._sessions.get((caller, id), lambda: self._enter(caller, id))

    async def new_session(self, caller: Caller, agent_id: str) -> SessionRow:
        """Make and keep a session of an agent. Raises ``NotFound``, and ``Conflict`` for an agent that is archived."""
        row = self._row(caller, await self._active(caller, agent_id))
        await self.kernel.store.sessions.create(row)
        return row

    async def delete_session(self, caller: Caller, id: str) -> None:
        """Delete the caller's session with its files; its records stay. Raises ``NotFound``."""
        await self.session_row(caller, id)
        await self.kernel.store.sessions.delete(id)
        for known in (self._sessions, self._agent_sessions):
            known.forget(lambda _, session: session.id == id)

    async def agent(self, caller: Caller, id: str) -> Loaded:
        """Return an agent of the caller's organisation. Raises ``NotFound``."""
        return await self.agents.get(caller.principal.org, id)

    async def agent_session(self, caller: Caller, agent_id: str) -> Session:
        """Return the one session that the caller has with an agent by its address (spec 5, P16).

        It keeps its files, and moves to the agent's current version. Raises as ``new_session`` does.
        """
        return await self._agent_sessions.get((caller, agent_id), lambda: self._enter_agent(caller, agent_id))

    async def _enter(self, caller: Caller, id: str) -> Session:
        row = await self.session_row(caller, id)
        return await self._open(caller, row, self.agents.of_session(row))

    async def _enter_agent(self, caller: Caller, agent_id: str) -> Session:
        loaded = await self._active(caller, agent_id)
        who = caller.principal
        door = "\0".join((loaded.id, who.kind, who.org or "", who.id))
        row = replace(self._row(caller, loaded), door=hashlib.sha256(door.encode()).hexdigest())
        kept = await self.kernel.store.sessions.ensure(row)
        return await self._open(caller, kept, loaded.agent)

    async def _open(self, caller: Caller, row: SessionRow, agent: Agent) -> Session:
        """Open a session: who acts and in which environment is known here, and never from a request (spec 2, F16)."""
        who = caller.principal
        return await self.kernel.enter(row, agent, principal=who, env=self._env, agent_id=row.agent_id)

    async def _active(self, caller: Caller, agent_id: str) -> Loaded:
        loaded = await self.agents.get(caller.principal.org, agent_id)
        if loaded.row is not None and loaded.row.status != "active":
            raise Conflict(f"the agent {agent_id!r} is archived: it takes no new sessions")
        return loaded

    def _row(self, caller: Caller, loaded: Loaded) -> SessionRow:
        row = self.kernel.new_session(loaded.agent, caller.principal)
        return replace(row, agent_id=loaded.id, agent_version=loaded.row.version if loaded.row else 1)
