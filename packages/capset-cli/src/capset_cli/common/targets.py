"""Targets of commands: an agent, a single capability, a session, and the store."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import stat
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from capset.definitions.agents import Agent
from capset.definitions.capabilities import AnyCapability
from capset.definitions.governance.allowances import Allowance
from capset.definitions.principals import Principal
from capset.errors import Conflict, DefinitionError, NotFound
from capset.fingerprint.links import CapabilityLink
from capset.kernel.agent_definition import ONLY_IN_CODE, definition_of, read_definition, with_file
from capset.kernel.blocks.generation import GeneratorRunner
from capset.kernel.call.session import Session
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.kernel.session_access import check_owner
from capset.stores.base import SessionRow, Store, make_store
from capset_cli.common.configuration import load_configuration, make_kernel
from capset_cli.common.output import cell, err, escaped
from capset_cli.common.settings import Settings, has_db, require_db
from capset_cli.common.upstream import Upstream
from capset_cli.common.vaults import user_vault
from capset_connect.agents.definitions import build_agent
from capset_connect.agents.rows import Loaded
from capset_connect.agents.store import StoredAgents, agent_in_code, ensure_session, new_session_row

if TYPE_CHECKING:
    from capset_connect.config_file import Configuration


@asynccontextmanager
async def open_store(url: str) -> AsyncGenerator[Store]:
    """Open the store at a URL, and close it at the end. Raises as ``make_store`` and ``Store.open`` do."""
    store = make_store(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@dataclass(frozen=True, slots=True)
class Target:
    """A command's target: the registry, the agent whose tools are used (``None``: a session's), and its governance.

    ``agent`` is an id if it may be in a database; ``configuration`` is that of an agent in a file. ``allowance`` is in
    addition to that of the configuration; ``upstream`` has the connections of its MCP servers.
    """

    registry: Registry
    agent: Agent | UUID | None
    configuration: Configuration | None = None
    allowance: Allowance | None = None
    upstream: Upstream | None = None

    def new_session(self, kernel: Kernel, agent: Agent, principal: Principal) -> SessionRow:
        """Return the row of a new session of an agent, with the path of the agent's file if it needs the file."""
        row = kernel.new_session(agent, principal)
        if self.configuration is None or not self.configuration.is_needed:
            return row
        return replace(row, definition=with_file(row.definition, self.configuration.path.resolve()))


def names_file(registry: Registry, name: str) -> bool:
    """Return whether a name of an agent is the path of a configuration file."""
    return name not in registry.agents and _parse_uuid(name) is None and bool(Path(name).suffix)


def find_target(
    registry: Registry,
    agent: str | None,
    session: str | None,
    settings: Settings,
    allowance: Allowance | None = None,
) -> Target:
    """Return a command's target: a new session of an agent, or an existing one.

    A session may be given with a file, which then governs it; otherwise, it is the file with which it was started, if
    it needs one. The database of the settings has the pins of a file's MCP servers and APIs. Raises ``NotFound`` for an
    unknown agent, and the errors of ``read_configuration``.
    """
    if agent is None and session is None:
        raise DefinitionError("name an agent with --agent, or a session to continue with --session")
    upstream = Upstream(settings.db)
    if agent is not None and names_file(registry, agent):
        configuration = load_configuration(Path(agent), registry, upstream)
    elif agent is not None:
        refuse_agent_with_session(agent, session)
        named_agent = _parse_uuid(agent) or registry.get_agent(agent)
        return Target(registry, named_agent, allowance=allowance, upstream=upstream)
    else:
        configuration = _configuration_of_session(session or "", settings, registry, upstream)
        if configuration is None:
            return Target(registry, None, allowance=allowance, upstream=upstream)
    served_agent = configuration.agent if session is None else None
    return Target(configuration.within(registry), served_agent, configuration, allowance, upstream)


def _configuration_of_session(
    session: str, settings: Settings, registry: Registry, upstream: Upstream
) -> Configuration | None:
    """Return the configuration in the file with which a session was started, or ``None`` if it needs no file."""
    if not has_db(settings.db):
        return None
    with ThreadPoolExecutor(1) as thread:  # some commands call this while an event loop runs
        file = thread.submit(asyncio.run, _file_of_session(session, settings)).result()
    if file is None:
        return None
    try:
        _check_trusted(file)
        return load_configuration(file, registry, upstream)
    except DefinitionError as error:
        message = f"the session {session!r} needs the file with which it was started; {error.message}"
        raise DefinitionError(message, hint=error.hint) from None


async def _file_of_session(session: str, settings: Settings) -> Path | None:
    """Return the file that a session of the settings' principal needs, if any. Raises as ``check_owner`` does."""
    async with Kernel(store=settings.db) as kernel:
        row = await kernel.find_session(session)
        if row is None:
            return None
        check_owner(row, settings.principal)
        return read_definition(row.definition)[1]


def _check_trusted(file: Path) -> None:
    """Raise ``DefinitionError`` if other users can change a file.

    A file may run code, and anyone who can write to the database could have named it.
    """
    with suppress(OSError):  # reading it reports the error
        state = file.stat()
        if hasattr(os, "getuid") and (state.st_uid not in (0, os.getuid()) or state.st_mode & stat.S_IWOTH):
            hint = f"if you trust it, name it: --agent {shlex.quote(str(file))}"
            raise DefinitionError(f"other users can change {file}, which may run code", hint=hint)


def refuse_agent_with_session(agent: str | None, session: str | None) -> None:
    """Raise ``DefinitionError`` if both an agent and a session are named."""
    if agent is not None and session is not None:
        raise DefinitionError("a session has its own agent: give --agent or --session, not both")


def print_session(session: Session) -> None:
    """Print the agent, its principal and its session on stderr."""
    message = (
        f"serving {session.snapshot.composition.block.name} as {session.snapshot.principal.id}, session {session.id}"
    )
    err().print(f"[dim]{cell(message)}[/]", soft_wrap=True)


@asynccontextmanager
async def open_session(settings: Settings, target: Target, session_id: str | None) -> AsyncGenerator[Session]:
    """Open a session as ``open_kernel`` does."""
    async with open_kernel(settings, target, session_id) as (_, session):
        yield session


@asynccontextmanager
async def open_kernel(
    settings: Settings,
    target: Target,
    session_id: str | None,
    *,
    is_permanent: bool = False,
    generator: GeneratorRunner | None = None,
) -> AsyncGenerator[tuple[Kernel, Session]]:
    """Open a kernel and a session: the one with ``session_id``, or one of the served agent.

    The latter is new, or with ``is_permanent`` the permanent session that the settings' principal has with the agent.
    ``generator`` runs agents.

    Raises ``NotFound`` if the principal has no such session or there is no such stored agent; ``Conflict`` for an
    archived agent, or for a session whose agent is defined only in code that is not installed; and ``DefinitionError``
    if the database of a stored agent or session does not exist.
    """
    principal, agent, registry = settings.principal, target.agent, target.registry
    db = settings.db if isinstance(agent, Agent) else require_db(settings.db)
    new_kernel = make_kernel(
        db,
        target.configuration,
        target.allowance,
        generator=generator,
        redis=settings.redis,
        vault=None if target.configuration is None else user_vault(target.configuration.sources),
    )
    async with new_kernel if target.upstream is None else target.upstream.opened(new_kernel, db) as kernel:
        if is_permanent and agent is not None:
            yield kernel, await _enter_ensured_session(kernel, target, settings)
            return
        if isinstance(agent, UUID):
            yield kernel, await _new_session_of_stored(kernel, registry, str(agent), settings)
            return
        if agent is None:
            agent = await _agent_of_session(kernel, target, session_id or "", principal)
            async with kernel.open(agent, principal=principal, env=settings.env, session_id=session_id) as session:
                yield kernel, session
            return
        row = target.new_session(kernel, agent, principal)
        session = await kernel.enter(row, agent, principal=principal, env=settings.env)
        await kernel.store.sessions.create(row)
        yield kernel, session


async def _enter_ensured_session(kernel: Kernel, target: Target, settings: Settings) -> Session:
    """Return the permanent session of an agent, moved to the agent's current version.

    For an agent that is stored or in code, it has the same id as on servers. An agent in a file is identified by its
    path.
    """
    principal, agent = settings.principal, target.agent
    if isinstance(agent, Agent) and target.configuration is not None:
        identity = str(target.configuration.path.resolve()), agent.name
        row = target.new_session(kernel, agent, principal)
    else:
        loaded = await _load_active(kernel, target.registry, agent.name if isinstance(agent, Agent) else str(agent))
        identity, agent = (loaded.id,), loaded.agent
        row = new_session_row(kernel, loaded, principal)
    row = await ensure_session(kernel, row, *identity)
    return await kernel.enter(row, agent, principal=principal, env=settings.env)


async def _new_session_of_stored(kernel: Kernel, registry: Registry, id: str, settings: Settings) -> Session:
    """Return a new session of an agent that was created over the API with a key without an organisation."""
    loaded = await _load_active(kernel, registry, id)
    row = new_session_row(kernel, loaded, settings.principal)
    session = await kernel.enter(row, loaded.agent, principal=settings.principal, env=settings.env)
    await kernel.store.sessions.create(row)
    return session


async def _load_active(kernel: Kernel, registry: Registry, id: str) -> Loaded:
    """Return an agent that accepts sessions, and print its notices on stderr."""
    loaded = await StoredAgents(kernel, registry).active(None, id)
    for notice in loaded.notices:
        err().print(f"[yellow]warning:[/] {escaped(notice)}", soft_wrap=True)
    return loaded


def _parse_uuid(name: str) -> UUID | None:
    try:
        return UUID(name)
    except ValueError:
        return None


async def _agent_of_session(kernel: Kernel, target: Target, session: str, principal: Principal) -> Agent:
    row = await kernel.find_session(session)
    if row is None:
        # The same message as for another principal's session, so that neither reveals whether it exists.
        hint = "leave --session out to start one; its id is printed"
        raise NotFound(f"there is no session {session!r} of {principal.id!r}", hint=hint)
    check_owner(row, principal)
    definition, _ = read_definition(row.definition)
    registry, configuration = target.registry, target.configuration
    if configuration is None:
        defined = agent_in_code(row, kernel, registry)
    else:
        try:
            defined = agent_in_code(row, kernel, registry)
        except Conflict as error:
            raise _changed(configuration, session) from error
        if defined is None and ONLY_IN_CODE in json.loads(definition_of(configuration.agent)):
            raise _changed(configuration, session)  # the stored definition has none of the file's actions and policies
        new_capabilities = [
            capability
            for capability in configuration.source_capabilities
            if capability.name not in registry.capabilities
        ]
        registry = registry.extended(new_capabilities)
    if defined is None and row.agent_id is not None and "mcp_servers" in definition:
        return await StoredAgents(kernel, registry).of_session(row)
    return defined or build_agent(definition, registry, f"session {session}")


def _changed(configuration: Configuration, session: str) -> Conflict:
    return Conflict(
        f"the agent in {configuration.path} has changed since the session {session!r} began",
        hint="a session keeps the tools that it began with: undo the change, or begin a new session",
    )


def find_definition(registry: Registry, name: str, db: str) -> Agent | UUID:
    """Return an installed agent, one with a single installed capability, or a file's; or the id of a stored agent.

    ``db`` has the pins of a file's MCP servers and APIs. Raises ``NotFound`` for an unknown name, and the errors of
    ``read_configuration``.
    """
    if name not in registry.agents and (agent := _agent_of_capability(registry, name)) is not None:
        return agent
    if names_file(registry, name):
        return load_configuration(Path(name), registry, Upstream(db)).agent
    try:
        return _parse_uuid(name) or registry.get_agent(name)
    except NotFound as error:
        note = f"; nor is a capability of that name installed: {', '.join(registry.capabilities)}"
        raise NotFound(f"{error.message}{note}", hint="or name a configuration file by its path") from None


async def load_agent(registry: Registry, agent: Agent | UUID, db: str, *, org: str | None = None) -> Agent:
    """Return an agent, loading a stored one of ``org`` by its id. Raises ``NotFound`` if there is none."""
    if isinstance(agent, Agent):
        return agent
    async with Kernel(store=require_db(db)) as kernel:
        loaded = await StoredAgents(kernel, registry).get(org, str(agent))
    for notice in loaded.notices:
        err().print(f"[yellow]warning:[/] {escaped(notice)}", soft_wrap=True)
    return loaded.agent


async def agent_of_link(registry: Registry, link: CapabilityLink, org: str | None, db: str) -> Agent:
    """Return the agent of a link: by its id, installed or stored, or else by its name.

    Raises ``NotFound`` if there is none.
    """
    if (defined := registry.agents.get(link.agent_id)) is not None:
        return defined
    try:
        return await load_agent(registry, UUID(link.agent_id), db, org=org)
    except (ValueError, NotFound):
        pass  # not an id, or not that of an agent stored here
    agent = registry.agents.get(link.agent_name) or _agent_of_capability(registry, link.agent_name)
    if agent is None:
        raise NotFound(
            f"there is no agent {link.agent_id!r}, and none named {link.agent_name!r}, installed or stored here",
            hint="name the current agent with --agent: a file, an installed agent, or the id of a stored one",
        )
    return agent


def _agent_of_capability(registry: Registry, name: str) -> Agent | None:
    """Return the agent that ``capset call`` would make for one capability."""
    ids = {name.replace(":", "-"): name for name in registry.capabilities}
    capability_name = name if name in registry.capabilities or name in registry.aliases else ids.get(name)
    return None if capability_name is None else agent_with(registry.get(capability_name))


def agent_with(capability: AnyCapability) -> Agent:
    """Return an agent with a single capability, and its name."""
    return Agent(capability.name.replace(":", "-"), uses=[capability])
