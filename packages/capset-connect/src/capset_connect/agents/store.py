"""The agents of an organisation: stored agents, and agents defined in code (spec 5, P3–P5)."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from pydantic_core import from_json

from capset.composition.compose import Composition
from capset.definitions.agents import Agent
from capset.definitions.governance.acts import ActName
from capset.definitions.principals import Principal
from capset.errors import Conflict, DefinitionError, InvalidArguments, NotFound, Outdated
from capset.kernel.agent_definition import ONLY_IN_CODE, read_definition
from capset.kernel.governance.acts import ActColumns, ActEntry
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.stores.base import AGENT_FIELDS, AgentRow, SessionRow
from capset.stores.base.pins import ToolPin
from capset.stores.rows import row_digest
from capset.wire.agents import AgentDefinitionShape, AgentInput
from capset_connect.agents.definitions import agent_of, make_agent, sub_agents
from capset_connect.agents.entries import EntryMismatch, refer
from capset_connect.agents.mcp_servers import (
    AgentServers,
    ServerOwner,
    Servers,
    new_servers,
    servers_in,
    servers_of,
    with_servers,
)
from capset_connect.agents.permissions import Author, check_enabled, needs_admin
from capset_connect.agents.previews import Preview, preview_of
from capset_connect.agents.rows import (
    Loaded,
    as_stored,
    definition_of_row,
    filled,
    is_same,
    patched,
    restored,
    size_of,
    text_of,
)
from capset_connect.pins.tool_pins import Standing

_CACHED: Final = 1_000
_PREVIEWS: Final = 2
"""Maximum number of concurrent previews. Each occupies a thread of the pool that stores also read with."""
_MAX_BYTES: Final = 1024 * 1024
"""Maximum size of a definition as JSON, in bytes. A larger existing one may be changed, but not grow."""
_TRIES: Final = 20
"""How often a change is tried while others change the same agent. In each round, one of the changes succeeds."""


class StoredAgents:
    """Stored agents: writes are atomic, and reads work even if a capability is no longer installed.

    ``servers`` manages the MCP servers that the agents declare; by default, without allowances by the operator.
    """

    def __init__(self, kernel: Kernel, registry: Registry, servers: AgentServers | None = None) -> None:
        self._kernel = kernel
        self.servers = servers or AgentServers(kernel)
        self._registry = registry
        # Cached, because the kernel composes each agent object only once.
        self._cached = lru_cache(_CACHED)(self._load)
        self._previews = asyncio.Semaphore(_PREVIEWS)

    @property
    def defined(self) -> tuple[Agent, ...]:
        """The agents defined in code, by name."""
        return tuple(self._registry.agents.values())

    async def create(self, org: str | None, agent_input: AgentInput, *, author: Author) -> AgentRow:
        """Store a new agent and return its row.

        Raises ``DefinitionError`` for a conflict, or listing everything that is not available; and
        ``PermissionDenied``, naming the capabilities that only an administrator can enable.
        """
        now = self._kernel.now()
        empty = AgentRow(self._kernel.new_id(), org, "", "", "", (), (), (), "active", 1, "", now, now)
        row = replace(await self._filled(empty, agent_input, author), author=author.name)
        await self._kernel.store.agents.create(row, act=self._act(None, row, author))
        return row

    async def get(self, org: str | None, id: str) -> Loaded:
        """Return a stored agent by its id, or an agent defined in code by its name.

        Raises ``NotFound`` if the organisation has no such agent.
        """
        if (defined := self._registry.agents.get(id)) is not None:
            return Loaded(id, defined, None, self._kernel.compose(defined).notices)
        return await self.loaded(await self._row(org, id))

    async def active(self, org: str | None, id: str) -> Loaded:
        """Return an agent that accepts sessions. Raises ``NotFound``, and ``Conflict`` for an archived agent."""
        loaded = await self.get(org, id)
        if loaded.row is not None and loaded.row.status != "active":
            raise Conflict(f"the agent {id!r} is archived: it accepts no new sessions")
        return loaded

    async def loaded(self, row: AgentRow) -> Loaded:
        """Load a stored agent, with a notice for each part that no longer works."""
        return self.loaded_with(row, await self.pins(row))

    async def pins(self, row: AgentRow) -> tuple[ToolPin, ...]:
        """Return the pins of an agent's own MCP servers."""
        return await self.servers.pins(ServerOwner(row.org, row.id), row.mcp_servers or ())

    def loaded_with(self, row: AgentRow, pins: tuple[ToolPin, ...]) -> Loaded:
        """Load a stored agent as ``loaded`` does, with the given pins of its own servers."""
        agent, gone = self._known(row, pins)
        try:
            notices = self._kernel.compose(agent).notices
        except DefinitionError as error:  # the installed capabilities have changed
            notices = (error.message,)
        return Loaded(row.id, agent, row, (*gone, *notices))

    async def stored(self, org: str | None, id: str) -> AgentRow:
        """Return the row of a stored agent. Raises ``NotFound``, and ``Conflict`` for an agent defined in code."""
        self._check_stored(id)
        return await self._row(org, id)

    async def approve_tools(
        self, org: str | None, id: str, name: str, tools: Mapping[str, str], *, by: Principal
    ) -> list[Standing]:
        """Approve tools of an agent's own server. Raises the errors of ``AgentServers.approve`` and of ``compose``."""
        row = await self.stored(org, id)

        def check(pins: tuple[ToolPin, ...]) -> None:
            self._kernel.compose(self._known(row, pins)[0])

        return await self.servers.approve(row, name, tools, by, check=check)

    async def of_session(self, row: SessionRow) -> Agent:
        """Return a session's agent as it was when the session began, without capabilities that are no longer installed.

        Its own MCP servers have the tools that are currently approved. Raises ``Conflict`` if the session's definition
        is incomplete and no unchanged agent with that name is installed.
        """
        if (defined := agent_in_code(row, self._kernel, self._registry)) is not None:
            return defined
        owner = ServerOwner(row.org, row.agent_id or "")
        return self._cached(row.definition, owner, await self.servers.pins(owner, servers_in(row.definition)))[0]

    async def change(
        self,
        org: str | None,
        id: str,
        patch: Mapping[str, Any],  # any JSON
        *,
        author: Author,
        version: int | None = None,
    ) -> AgentRow:
        """Apply a JSON merge patch (RFC 7396; null clears a field) to an agent atomically, and return its row.

        Raises ``InvalidArguments`` or ``DefinitionError`` for an invalid result; ``PermissionDenied``, naming the
        capabilities that only an administrator can enable; ``Outdated`` if the agent's version is not the expected
        ``version``; and ``Conflict`` for an agent defined in code.
        """
        return await self._write(org, id, lambda row: patched(row, patch), author, version)

    async def rollback(
        self, org: str | None, id: str, to: int, *, author: Author, version: int | None = None
    ) -> AgentRow:
        """Write the content of an earlier version, except its status, as a new version, and return its row.

        Raises ``NotFound`` for an unknown version, and the errors of ``change``, because part of the content may no
        longer be available.
        """
        await self.stored(org, id)
        earlier = await self._kernel.store.agents.version(org, id, to)
        if earlier is None:
            raise _no_version(id, to)
        return await self._write(org, id, lambda row: restored(earlier, row.status), author, version)

    async def at(self, org: str | None, id: str, version: int) -> Loaded:
        """Return one version of an agent, without capabilities that are no longer installed.

        An agent in code has only version 1. Raises ``NotFound``.
        """
        loaded = await self.get(org, id)
        if loaded.row is None:
            if version != 1:
                raise _no_version(id, version)
            return loaded
        row = await self._kernel.store.agents.version(org, id, version)
        if row is None:
            raise _no_version(id, version)
        return await self.loaded(row)

    async def check_move(self, row: SessionRow, to: Loaded) -> None:
        """Raise ``PermissionDenied`` if moving a session to another version would add high-risk capabilities.

        Capabilities of the session and of the agent's current version count as enabled.
        """
        session_agent, present = await self.of_session(row), await self.get(row.org, to.id)
        after = self._kernel.compose(to.agent)

        def needed(agent: Agent, servers: Servers) -> set[str]:
            return {*needs_admin(after, self._composition(agent)), *new_servers(to.servers, servers)}

        check_enabled(
            tuple(sorted(needed(session_agent, servers_in(row.definition)) & needed(present.agent, present.servers)))
        )

    async def preview(self, agent_input: AgentInput, *, org: str | None = None) -> Preview:
        """Return the preview of a new agent. Nothing is stored."""
        return (await self._previewed(agent_input, ServerOwner(org, ""), None))[0]

    async def preview_change(
        self,
        org: str | None,
        id: str,
        patch: Mapping[str, Any],  # any JSON
    ) -> Preview:
        """Return the preview of a merge patch on an agent. For an agent defined in code, the patch must be empty.

        Raises ``NotFound``, ``InvalidArguments`` for an invalid patch, and ``Conflict`` for a non-empty patch on an
        agent defined in code.
        """
        if patch:
            self._check_stored(id)
        loaded = await self.get(org, id)
        if loaded.row is None:
            return Preview(loaded.agent)
        agent_input = patched(loaded.row, patch)
        preview, registry = await self._previewed(agent_input, ServerOwner(org, id), loaded.row)
        changed_row = filled(loaded.row, agent_input)
        if preview.agent is not None:
            changed_row = as_stored(changed_row, preview.agent, registry)
        return replace(preview, saved=loaded, written=changed_row)

    async def _previewed(
        self, agent_input: AgentInput, owner: ServerOwner, row: AgentRow | None
    ) -> tuple[Preview, Registry]:
        """Return a preview, and the registry that includes the agent's own servers."""
        after, before = agent_input.mcp_servers or {}, servers_of(None if row is None else row.mcp_servers)
        problems = self.servers.problems(owner, after)
        loaded_servers = self.servers.of(owner, after, () if problems else await self.servers.pins(owner, after))
        composed = None if row is None else await self._composed(row)
        registry = loaded_servers.within(self._registry)
        async with self._previews:
            preview = await asyncio.to_thread(preview_of, agent_input, registry, composed)
        if problems:
            return replace(preview, agent=None, problems=(*preview.problems, *problems)), registry
        needed = tuple(dict.fromkeys((*new_servers(after, before), *preview.needs_admin)))
        return replace(preview, needs_admin=needed), registry

    async def _write(
        self,
        org: str | None,
        id: str,
        make: Callable[[AgentRow], AgentInput],
        author: Author,
        version: int | None,
    ) -> AgentRow:
        self._check_stored(id)
        for _ in range(_TRIES):
            row = await self._row(org, id)
            if version is not None and version != row.version:
                raise Outdated(f"the agent {id!r} has the version {row.version}, not {version}")
            changed = await self._filled(row, make(row), author)
            if is_same(changed, row):
                return row
            changed = replace(changed, version=row.version + 1, updated_at=self._kernel.now(), author=author.name)
            if await self._kernel.store.agents.replace(changed, act=self._act(row, changed, author)):
                self._kernel.current.clear()
                return changed
        raise Conflict(f"the agent {id!r} has too many concurrent changes; try again later")

    def _act(self, before: AgentRow | None, after: AgentRow, author: Author) -> ActEntry:
        """Return the record entry of a change to an agent."""
        name: ActName = "agent.create" if before is None else "agent.change"
        about: dict[str, Any] = {"id": after.id, "version": after.version, "author": author.name}
        about["sha256"] = row_digest(after)
        if before is not None:
            if (before.status, after.status) == ("active", "archived"):
                name = "agent.archive"
            fields = (field.name for field in AGENT_FIELDS)
            about["changed"] = [
                field_name for field_name in fields if getattr(before, field_name) != getattr(after, field_name)
            ]
        columns: ActColumns = {"org": after.org, "agent": after.name, "static_hash": after.static_hash}
        return self._kernel.act(name, about, by=author.principal, **columns)

    async def _row(self, org: str | None, id: str) -> AgentRow:
        row = await self._kernel.store.agents.get(org, id)
        if row is None:
            raise NotFound(f"there is no agent {id!r}")
        return row

    def _check_stored(self, id: str) -> None:
        if id in self._registry.agents:
            raise Conflict(f"the agent {id!r} is defined in code and cannot be changed here")

    async def _filled(self, row: AgentRow, agent_input: AgentInput, author: Author) -> AgentRow:
        changed = filled(row, agent_input)
        if text_of(changed) == text_of(row):
            return changed  # an agent whose capability is not installed any more can still be archived
        if _MAX_BYTES < (size := size_of(changed)) > size_of(row):
            raise InvalidArguments(
                f"Invalid agent: it has {size} bytes as JSON; the maximum is {_MAX_BYTES} (agent_bytes)"
            )
        owner, servers = ServerOwner(row.org, row.id), agent_input.mcp_servers or {}
        if problems := self.servers.problems(owner, servers):
            raise DefinitionError(f"agent {agent_input.name!r}: {'; '.join(map(str, problems))}", fields=problems)
        loaded_servers = self.servers.of(owner, servers, await self.servers.pins(owner, servers))
        registry = loaded_servers.within(self._registry)
        agent = make_agent(agent_input, registry, f"agent {agent_input.name!r}", is_new=True)
        composition = self._kernel.compose(agent)
        if not author.is_admin:
            enabled = new_servers(servers, servers_of(row.mcp_servers))
            check_enabled(tuple(dict.fromkeys((*enabled, *needs_admin(composition, await self._composed(row))))))
        await self._kernel.keep_definition(row.org, composition)  # the record of the change names its hash
        return replace(as_stored(changed, agent, registry), static_hash=composition.static_hash)

    async def _composed(self, row: AgentRow) -> Composition | None:
        """Return a stored agent's composition; ``None`` for a new agent, or if it can no longer be composed."""
        if not row.static_hash:
            return None
        return self._composition(self._known(row, await self.pins(row))[0])

    def _composition(self, agent: Agent) -> Composition | None:
        try:
            return self._kernel.compose(agent)
        except DefinitionError:
            return None

    def _known(self, row: AgentRow, pins: tuple[ToolPin, ...]) -> tuple[Agent, tuple[str, ...]]:
        """Return a stored agent, and a notice for each unavailable part."""
        return self._cached(json.dumps(definition_of_row(row)), ServerOwner(row.org, row.id), pins)

    def _load(self, definition: str, owner: ServerOwner, pins: tuple[ToolPin, ...]) -> tuple[Agent, tuple[str, ...]]:
        """Return the agent of a definition, and a notice for each unavailable part.

        ``pins`` are the pins of the servers that it declares.
        """
        data, _ = read_definition(definition)
        loaded_servers = self.servers.of(owner, servers_of(data.pop("mcp_servers", None)), pins)
        shape = AgentDefinitionShape.model_validate(data)
        registry = loaded_servers.within(self._registry)
        referred = refer(shape.entries(), registry)
        tools = sub_agents(shape, registry, f"agent {shape.name!r}")
        agent = agent_of(shape, referred.refs, shape.static_context, tools)
        return agent, (*loaded_servers.notices, *(_notice(misfit, registry) for misfit in referred.misfits))


def _notice(misfit: EntryMismatch, registry: Registry) -> str:
    if misfit.place:
        return f"capability {misfit.id!r} is used without {misfit.place}, which is no longer valid: {misfit.expected}"
    if misfit.id in registry.capabilities or misfit.id in registry.aliases:
        return f"capability {misfit.id!r} is left out: {misfit.expected}"
    return f"capability {misfit.id!r} is gone: it is not installed here"


def _no_version(id: str, version: int) -> NotFound:
    return NotFound(f"the agent {id!r} has no version {version}")


def agent_in_code(row: SessionRow, kernel: Kernel, registry: Registry) -> Agent | None:
    """Return the installed agent of a session, or ``None`` if the session's own definition is complete.

    Raises ``Conflict`` if it is incomplete and no unchanged agent of that name is installed.
    """
    unsaid: list[str] = from_json(row.definition).get(ONLY_IN_CODE, [])
    if not unsaid and row.agent_id is None:
        return None
    versions = registry.versions(row.agent_id or row.agent)
    for agent in versions:
        if kernel.compose(agent).static_hash == row.static_hash:
            return agent
    if not unsaid:
        return None
    state = "has changed since the session began" if versions else "is not installed here"
    raise Conflict(
        f"the session {row.id!r} belongs to the agent {row.agent!r}, which is defined only in code "
        f"({', '.join(unsaid)}) and {state}",
        hint="open it with its code: kernel.open(agent, session_id=…), or an entry point in capset.agents",
    )


def new_session_row(kernel: Kernel, loaded: Loaded, principal: Principal) -> SessionRow:
    """Return the row of a new session of an agent, without storing it."""
    row = kernel.new_session(loaded.agent, principal)
    version = loaded.row.version if loaded.row else 1
    definition = with_servers(row.definition, loaded.row)
    return replace(row, agent_id=loaded.id, agent_version=version, definition=definition)


async def ensure_session(kernel: Kernel, row: SessionRow, *agent: str) -> SessionRow:
    """Store ``row`` as a principal's fixed session, or update that session to the agent in ``row``; return it.

    ``agent`` identifies the session: the agent's id, or the path of its file and its name; a thread may follow. A
    principal that acts for others has one such session for each of them.
    """
    return await kernel.store.sessions.upsert(replace(row, door=_door_of(row, agent)))


async def find_session(kernel: Kernel, row: SessionRow, *agent: str) -> SessionRow | None:
    """Return the session that ``ensure_session`` has stored, or ``None``."""
    return await kernel.store.sessions.find(_door_of(row, agent))


def _door_of(row: SessionRow, agent: Sequence[str]) -> str:
    acting = () if row.on_behalf_of is None else (row.on_behalf_of,)
    door = "\0".join((*agent, row.principal_kind, row.org or "", row.principal, *acting))
    return hashlib.sha256(door.encode()).hexdigest()
