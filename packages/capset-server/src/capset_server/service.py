"""The service behind the HTTP interfaces: the kernel, the registry, stored agents, callers' sessions and turns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from capset.definitions.agents import Agent
from capset.definitions.governance.acts import ActName
from capset.definitions.governance.hooks import Hooks
from capset.errors import Conflict, InvalidArguments, NotFound, Outdated
from capset.evaluation.snapshot.capture import session_context_of
from capset.fingerprint.hashes import invocation_hash
from capset.kernel.call.session import Session
from capset.kernel.governance.acts import ActColumns, ActEntry
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.kernel.ttl_cache import TtlCache
from capset.stores.base import Begun, SessionRow
from capset.wire.shapes import MAX_ATTACHED_BYTES
from capset_agents.hosts import CallerAbsent, NewTurn, WrongProcess
from capset_agents.turns import TurnService
from capset_connect.agents.mcp_servers import AgentServers
from capset_connect.agents.rows import Loaded
from capset_connect.agents.server_allowances import ServerAllowances
from capset_connect.agents.store import StoredAgents, ensure_session, find_session, new_session_row
from capset_connect.declared_sources import DeclaredSources
from capset_server.auth.callers import Caller, Callers, Identifies, SessionCredential
from capset_server.config_checker import ConfigChecker
from capset_server.fingerprints import FingerprintLookup
from capset_server.followers import FollowerLimit, Notifier
from capset_server.http.request_rules import HttpRefusal, RequestLimits
from capset_server.http.root_path import root_path_of
from capset_server.store_probe import StoreProbe

if TYPE_CHECKING:
    from capset_connect.vault.connections import ConnectionService
    from capset_server.auth.open_id import OpenIdSignIn

ANYONE: Final = "anyone"
KEY: Final = "key"
BEARER: Final = "jwt"
_TRIES: Final = 20
"""How often a move is tried if others move the same session. Each time, one of them has succeeded."""


class Service:
    """A kernel as a service. ``env`` describes this environment to policies, in keys that the host chooses.

    ``anyone`` is the caller of every request if no keys are required; ``tokens`` authenticates an issuer's tokens.
    ``agent`` is the default agent at ``/mcp``, for callers whose key names none. ``public_url`` is the URL at which
    clients and people reach this server, by default that of the tokens' resource. ``server_allowances`` says what the
    MCP servers of stored agents may use of the host; ``sources`` are the MCP servers and APIs that the operator
    declares. ``connections`` are those of users, if there is a vault. ``open_id`` signs people in to the console
    through a provider. ``root_path`` is the path below which the server is reached, by default that of the public URL.
    If ``takes_system_texts``, system texts of OpenAI's clients
    become context of their conversations; otherwise they are ignored.
    """

    def __init__(
        self,
        kernel: Kernel,
        registry: Registry,
        *,
        env: Mapping[str, Any] | None = None,
        anyone: Caller | None = None,
        limits: RequestLimits | None = None,
        tokens: Identifies | None = None,
        agent: str | None = None,
        public_url: str | None = None,
        server_allowances: ServerAllowances | None = None,
        sources: DeclaredSources | None = None,
        open_id: OpenIdSignIn | None = None,
        root_path: str | None = None,
        takes_system_texts: bool = True,
        connections: ConnectionService | None = None,
    ) -> None:
        self.kernel = kernel
        self.sources = sources
        self.connections = connections
        self.open_id = open_id
        self.agent_by_default = agent
        self.registry = registry
        self.agents = StoredAgents(kernel, registry, AgentServers(kernel, server_allowances))
        self.fingerprints = FingerprintLookup(kernel, registry, self.agents)
        self.callers = Callers(kernel, anyone, tokens)
        resource = self.callers.resource
        self.public_url = public_url or (None if resource is None else resource.public_url)
        self.root_path = root_path_of(root_path, self.public_url)
        self.takes_system_texts = takes_system_texts
        self.limits = limits or RequestLimits(file=kernel.governance.file_bytes)
        self.is_draining = False
        """Whether the server is shutting down; ``/v1/readyz`` reports it."""
        self.turns = ServerTurns(kernel, self, limits=self.limits)
        self.checker = ConfigChecker(self.limits.share_seconds)
        self.store_probe = StoreProbe(kernel)
        self._env = env or {}
        self._sessions: TtlCache[tuple[Caller, str], Session] = TtlCache()
        self._agent_sessions: TtlCache[tuple[Caller, str], Session] = TtlCache()

    def drain(self) -> None:
        """Report from now on that the server is shutting down."""
        self.is_draining = True

    @property
    def env(self) -> Mapping[str, Any]:
        """The host's description of this environment, in keys of its own."""
        return self._env

    def adopt(self, registry: Registry) -> None:
        """Switch to another registry atomically. Running sessions keep what they began with.

        ``registry.earlier`` must contain the agents that ``registry`` no longer has.
        """
        agents = StoredAgents(self.kernel, registry, self.agents.servers)
        self.registry, self.agents = registry, agents
        self.fingerprints = FingerprintLookup(self.kernel, registry, agents)
        self._agent_sessions.invalidate(lambda _, session: True)

    async def session_row(self, caller: Caller, id: str) -> SessionRow:
        """Return the row of the caller's session. Raises ``NotFound``, also for another caller's session."""
        row = await self.kernel.find_session(id)
        principal = caller.principal
        theirs = (principal.org, principal.kind, principal.id, principal.on_behalf_of)
        if row is None or (row.org, row.principal_kind, row.principal, row.on_behalf_of) != theirs:
            raise NotFound(f"there is no session {id!r}")
        return row

    async def session(self, caller: Caller, id: str) -> Session:
        """Return the caller's session, opened at most a second ago. Raises ``NotFound``, also for another caller's."""
        return await self._sessions.get((caller, id), lambda: self._enter(caller, id))

    async def check_tool(self, caller: Caller, tool: str, *, session: str | None, agent_id: str | None) -> None:
        """Raise ``InsufficientScope`` if the caller may not call a tool of a session, or of an agent.

        This checks calls in advance. Each is checked again when it is made; calls of tools that only dynamic ``uses``
        add are checked only then. Raises ``NotFound`` for another caller's session, and ``Conflict`` for an archived
        agent.
        """
        if caller.tools is None:
            return
        if session is not None:
            agent = await self.agents.of_session(await self.session_row(caller, session))
        else:
            agent = (await self.agents.active(caller.principal.org, agent_id or "")).agent
        composition = self.kernel.compose(agent)
        installed = composition.tools.get(tool.rpartition(".")[2])
        if installed is not None or not composition.dynamic:
            caller.check_tool(None if installed is None else installed.own_name)

    async def new_session(
        self,
        caller: Caller,
        agent_id: str,
        *,
        invocation: Mapping[str, Any] | None = None,  # JSON data
        context: Mapping[str, Any] | None = None,  # JSON data
    ) -> SessionRow:
        """Create and store a session of an agent. ``invocation`` and ``context`` do not set its ``env``.

        Raises ``NotFound``, ``Conflict`` for an archived agent, and ``InvalidArguments`` for an invocation that cannot
        be hashed or a context that cannot be stored.
        """
        hashed, stored_context = invocation_hash(invocation), _context(context)
        loaded = await self.agents.active(caller.principal.org, agent_id)
        row = new_session_row(self.kernel, loaded, caller.principal)
        row = replace(row, invocation_hash=hashed, context=stored_context)
        await self.kernel.store.sessions.create(row)
        return row

    async def move_session(
        self, caller: Caller, id: str, version: int | None, *, expected: int | None = None
    ) -> SessionRow:
        """Move the caller's session to a version of its agent, ``None`` for the current one, and return it.

        Running calls finish with the version that they began with. Raises ``NotFound`` for an unknown session or
        version, ``Conflict`` for a session that moves by itself, or whose agent has no versions, and ``Outdated`` if
        the session's version is not ``expected``. Unless the caller is an administrator, raises ``PermissionDenied``
        for high-risk capabilities of the version that neither the session nor the current agent has, and names them.
        """
        for _ in range(_TRIES):
            row = await self.session_row(caller, id)
            if expected is not None and row.agent_version != expected:
                raise Outdated(f"the session {id!r} has the version {row.agent_version} of its agent, not {expected}")
            loaded = await self._version(row, version)
            moved = new_session_row(self.kernel, loaded, caller.principal)
            if not caller.has("capset:admin"):
                await self.agents.check_move(row, loaded)
            about = {"id": id, "from": row.agent_version, "to": moved.agent_version}
            act = self._act("session.move", about, row, caller, static_hash=moved.static_hash)
            if await self.kernel.store.sessions.move(replace(moved, id=id), expected=row.agent_version, act=act):
                self._forget(id)
                return await self.session_row(caller, id)
        raise Conflict(f"the session {id!r} is being moved by others all the time; try again later")

    async def open_turn(self, caller: Caller, row: SessionRow, hooks: Hooks) -> Session:
        """Return the caller's session for one turn of its agent, with hooks that report the turn's calls.

        Raises ``Unauthenticated`` if the caller's key is no longer valid, ``PermissionDenied`` for an archived agent.
        """
        await self.credential(caller, row.agent_id).check()
        return await self._open(caller, row, await self.agents.of_session(row), hooks)

    def credential(self, caller: Caller, agent_id: str | None, authorization: str = "") -> SessionCredential:
        """Return a caller's credential in a session of an agent; ``authorization`` is the header with its token."""
        return SessionCredential(self.callers, self.kernel.current, caller, agent_id, authorization)

    async def rewind_session(self, caller: Caller, id: str, turn: str) -> int:
        """Rewind the caller's session to before a turn, and return how many messages were deleted.

        Raises ``NotFound``, also for a turn without messages, and ``StateError`` (409) while the session is in a turn.
        """
        row = await self.session_row(caller, id)
        first, _ = await self._span(row, turn)
        act = self._act("session.rewind", {"id": id, "turn": turn}, row, caller, static_hash=row.static_hash)
        return await self.kernel.store.events.rewind(id, to=first - 1, act=act)

    async def fork_session(self, caller: Caller, id: str, turn: str | None) -> SessionRow:
        """Create a session like the caller's, with its conversation up to the end of a turn; ``None`` for all of it.

        Files and state are not copied. Raises ``NotFound``, also for a turn without messages, and ``Conflict`` for an
        archived agent, as for any new session.
        """
        row = await self.session_row(caller, id)
        if row.agent_id is not None:
            await self.agents.active(row.org, row.agent_id)
        events = self.kernel.store.events
        last = (await events.messages(id, limit=1)).count if turn is None else (await self._span(row, turn))[1]
        forked = replace(row, id=self.kernel.new_id(), created_at=self.kernel.now(), door=None)
        await self.kernel.store.sessions.create(forked)
        await events.copy(id, forked.id, to=last)
        return forked

    async def thread_session(self, caller: Caller, agent_id: str, thread: str) -> SessionRow:
        """Return the caller's one session with an agent under the client's name ``thread``; create it if it is missing.

        It moves to the agent's current version. Raises as ``new_session`` does.
        """
        loaded = await self.agents.active(caller.principal.org, agent_id)
        row = new_session_row(self.kernel, loaded, caller.principal)
        return await ensure_session(self.kernel, row, loaded.id, "thread", thread)

    async def find_thread(self, caller: Caller, agent_id: str, thread: str) -> SessionRow | None:
        """Return the session of ``thread_session`` as it is, or ``None`` if there is none. Raises ``NotFound``."""
        loaded = await self.agent(caller, agent_id)
        row = new_session_row(self.kernel, loaded, caller.principal)
        return await find_session(self.kernel, row, loaded.id, "thread", thread)

    async def _span(self, row: SessionRow, turn: str) -> tuple[int, int]:
        span = await self.kernel.store.events.span(row.id, turn)
        if span is None:
            raise NotFound(f"the session {row.id!r} has no messages of a turn {turn!r}")
        return span

    async def delete_session(self, caller: Caller, id: str) -> None:
        """Delete the caller's session with its files; its records stay. Raises ``NotFound``."""
        row = await self.session_row(caller, id)
        act = self._act("session.delete", {"id": id}, row, caller, static_hash=row.static_hash)
        await self.kernel.store.sessions.delete(id, act=act)
        self.turns.turns.abandon(id)
        self.turns.bell.ring(id)
        self._forget(id)

    def forget_agent(self, id: str) -> None:
        """Reopen the sessions of an agent at their next call, since the approvals of its servers have changed."""
        for cache in (self._sessions, self._agent_sessions):
            cache.invalidate(lambda _, session: session.snapshot.agent_id == id)

    async def agent(self, caller: Caller, id: str) -> Loaded:
        """Return an agent of the caller's organisation. Raises ``NotFound``."""
        return await self.agents.get(caller.principal.org, id)

    async def agent_session(self, caller: Caller, agent_id: str) -> Session:
        """Return the caller's one session with an agent at the agent's MCP address.

        It keeps its files, and moves to the agent's current version. Raises as ``new_session`` does.
        """
        return await self._agent_sessions.get((caller, agent_id), lambda: self._enter_agent(caller, agent_id))

    def _act(
        self, name: ActName, about: Mapping[str, Any], row: SessionRow, caller: Caller, *, static_hash: str
    ) -> ActEntry:
        columns: ActColumns = {"org": row.org, "session": row.id, "agent": row.agent, "static_hash": static_hash}
        return self.kernel.act(name, about, by=caller.principal, **columns)

    async def _enter(self, caller: Caller, id: str) -> Session:
        row = await self.session_row(caller, id)
        return await self._open(caller, row, await self.agents.of_session(row))

    async def _enter_agent(self, caller: Caller, agent_id: str) -> Session:
        loaded = await self.agents.active(caller.principal.org, agent_id)
        row = new_session_row(self.kernel, loaded, caller.principal)
        return await self._open(caller, await ensure_session(self.kernel, row, loaded.id), loaded.agent)

    async def _open(self, caller: Caller, row: SessionRow, agent: Agent, hooks: Hooks | None = None) -> Session:
        """Open a session: its principal and environment come from the service, never from a request (spec 2, F16)."""
        principal = caller.principal
        session = await self.kernel.enter(
            row, agent, principal=principal, env=self._env, agent_id=row.agent_id, hooks=hooks
        )
        return session.options(credential=self.credential(caller, row.agent_id))

    async def _version(self, row: SessionRow, version: int | None) -> Loaded:
        """Return a version of a session's agent, or the current one for ``None``."""
        if row.door is not None:
            raise Conflict(f"the session {row.id!r} cannot be moved: it moves to its agent's current version by itself")
        stored = self.kernel.store.agents
        agent = None if row.agent_id is None else await stored.get(row.org, row.agent_id)
        if agent is None:
            raise Conflict(f"the session {row.id!r} is one of the agent {row.agent!r}, which has no stored versions")
        if version not in (None, agent.version):
            agent = await stored.version(row.org, agent.id, version)
            if agent is None:
                raise NotFound(f"the agent {row.agent_id!r} has no version {version}")
        return await self.agents.loaded(agent)

    def _forget(self, id: str) -> None:
        for cache in (self._sessions, self._agent_sessions):
            cache.invalidate(lambda _, session: session.id == id)


def _context(context: Mapping[str, Any] | None) -> str | None:
    """Return a session's context in its stored form. Raises ``InvalidArguments`` if it cannot be stored."""
    if context is None:
        return None
    encoded = to_json(session_context_of(context))
    if len(encoded) > MAX_ATTACHED_BYTES:
        raise InvalidArguments(
            f"Invalid context: it has {len(encoded)} bytes as JSON, and may have {MAX_ATTACHED_BYTES} (attached_json)"
        )
    return encoded.decode()


class ServerTurns:
    """The turns that this server runs. ``bell`` notifies followers when an event is stored."""

    def __init__(self, kernel: Kernel, service: Service, *, limits: RequestLimits) -> None:
        """Of ``limits``, only ``followers``, ``turns`` and ``turn_seconds`` are used."""
        self.bell = Notifier()
        self.followers = FollowerLimit(limits.followers)
        self._kernel = kernel
        self._service = service
        self.turns = TurnService(
            kernel, self, seconds=limits.turn_seconds, max_turns=limits.turns, on_stored=self.bell.ring
        )
        self.bell.on("approval", self._decided)
        self.bell.on("lists", lambda _: kernel.current.clear())

    def _decided(self, request: str | None) -> None:
        """Continue at once what waits for an approval request that another process decided; ``None`` means any."""
        self._kernel.approvals.notify(request)
        self.turns.wake()

    def check_runner(self) -> None:
        """Raise ``HttpRefusal`` (501) if this server cannot run turns of agents."""
        if self._kernel.generator is None:
            raise HttpRefusal(
                501,
                "no_runner",
                "This server runs no agents: start it with a model (capset serve --model NAME), or give its kernel a "
                "generator runner",
            )

    async def begin(
        self, caller: Caller, row: SessionRow, content: Any, correlation: str
    ) -> Begun:  # content is any JSON
        """Begin a turn of the agent of a caller's session; see ``TurnService.begin``."""

        async def open_session(hooks: Hooks) -> Session:
            return await self._service.open_turn(caller, row, hooks)

        new = NewTurn(content, correlation, self.described(caller), open_session)
        return await self.turns.begin(row, new)

    async def reopen(self, row: SessionRow, caller: Mapping[str, Any], hooks: Hooks) -> Session:
        """Return the session of a turn that is continued. The caller's key must still be valid.

        Raises ``Unauthenticated`` if it is not, ``CallerAbsent`` for a caller with a token, and ``WrongProcess`` for a
        caller that this server does not know, such as one on the command line.
        """
        return await self._service.open_turn(await self.find_caller(caller), row, hooks)

    async def find_caller(self, described: Mapping[str, Any]) -> Caller:
        """Return the current caller for a description. Raises as ``reopen`` does."""
        callers = self._service.callers
        if described.get("kind") == KEY:
            return await callers.by_digest(str(described.get("digest")))
        if described.get("kind") == ANYONE and callers.anyone is not None:
            return callers.anyone
        if described.get("kind") == BEARER:
            raise CallerAbsent
        raise WrongProcess

    async def resume(self, caller: Caller, row: SessionRow, turn: str) -> None:
        """Continue a turn on behalf of a caller; see ``TurnService.resume``."""

        async def open_session(hooks: Hooks) -> Session:
            return await self._service.open_turn(caller, row, hooks)

        await self.turns.resume(row, turn, self.described(caller), open_session)

    def described(self, caller: Caller) -> Mapping[str, Any]:
        """Return a description of a caller, for ``find_caller``, as JSON data."""
        if caller.key is None:
            return {"kind": ANYONE}
        if caller.key_id is None:
            return {"kind": BEARER, "issuer": caller.key}
        return {"kind": KEY, "id": caller.key, "digest": caller.digest}
