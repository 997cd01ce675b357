"""Which agent a command means, and its session: what ``capset call``, ``capset kernel`` and ``capset mcp`` share."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from pydantic_core import from_json

from capset.adapters.agent_file import build_agent, read_agent_file
from capset.adapters.reopening import agent_in_code
from capset.adapters.stored_agents import StoredAgents
from capset.cli.configured import load_configuration, make_kernel, refuse_agent
from capset.cli.output import cell, err, verbatim
from capset.cli.settings import Settings, existing_db
from capset.definitions.agents import Agent
from capset.definitions.limits import Allowance
from capset.errors import Conflict, DefinitionError, NotFound
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.kernel.session import Session

if TYPE_CHECKING:
    from capset.adapters.config_file import Configuration


@dataclass(frozen=True, slots=True)
class Served:
    """What a command works with: what is known, whose tools are meant (``None``: a session's), and what governs them.

    ``agent`` is an id where it is one that a database may have. ``allowance`` is beside that of the configuration.
    """

    registry: Registry
    agent: Agent | UUID | None
    configuration: Configuration | None = None
    allowance: Allowance | None = None


def refuse_both(agent: str | None, session: str | None) -> None:
    """Raise ``DefinitionError`` if an agent and a session are named."""
    if agent is not None and session is not None:
        raise DefinitionError("a session has its agent: give --agent or --session, not both")


def find_agent(registry: Registry, named: str) -> Agent | UUID:
    """Return an installed agent by its name, or that of an agent file; or the id of one that a database may have.

    Raises ``NotFound`` for a name that nobody has, and what ``read_agent_file`` raises.
    """
    path = Path(named)
    if named not in registry.agents:
        if (stored := _id(named)) is not None:
            return stored
        if path.suffix:
            return read_agent_file(path, registry)
    return registry.get_agent(named)


def find_served(
    registry: Registry,
    agent: str | None,
    session: str | None,
    config: Path | None,
    allowance: Allowance | None = None,
) -> Served:
    """Return what is to be served. Raises as ``find_agent`` and ``read_configuration`` do."""
    refuse_both(agent, session)
    refuse_agent(config, agent)
    if config is not None:
        configuration = load_configuration(config, registry)
        own = configuration.agent if session is None else None
        return Served(configuration.within(registry), own, configuration, allowance)
    if agent is None and session is None:
        raise DefinitionError("say whose tools to serve: --agent, --config, or --session to go on with one")
    return Served(registry, find_agent(registry, agent) if agent is not None else None, allowance=allowance)


def announce(session: Session) -> None:
    """Say on stderr what is served, to whom, and in which session."""
    told = f"serving {session.snapshot.composition.block.name} as {session.snapshot.principal.id}, session {session.id}"
    err().print(f"[dim]{cell(told)}[/]", soft_wrap=True)


@asynccontextmanager
async def open_session(settings: Settings, served: Served, session_id: str | None) -> AsyncGenerator[Session]:
    """Open a session as ``open_kernel`` does."""
    async with open_kernel(settings, served, session_id) as (_, session):
        yield session


@asynccontextmanager
async def open_kernel(
    settings: Settings, served: Served, session_id: str | None
) -> AsyncGenerator[tuple[Kernel, Session]]:
    """Open a kernel, and a session of it: a new one of what is served, or the one that ``session_id`` names.

    Raises ``NotFound`` if there is no such session of the settings' principal, or no such stored agent; ``Conflict``
    for one that is archived, or a session whose agent only code defines that is not here; and ``DefinitionError`` if
    the database to look it up in is not there.
    """
    who, agent, registry = settings.principal, served.agent, served.registry
    db = settings.db if isinstance(agent, Agent) else existing_db(settings.db)
    async with make_kernel(db, served.configuration, served.allowance) as kernel:
        if isinstance(agent, UUID):
            yield kernel, await _of_stored(kernel, registry, str(agent), settings)
            return
        found = agent or await _agent_of(kernel, registry, session_id or "", who.id)
        async with kernel.open(found, principal=who, env=settings.env, session_id=session_id) as session:
            yield kernel, session


async def _of_stored(kernel: Kernel, registry: Registry, id: str, settings: Settings) -> Session:
    """Return a new session of an agent that was made over the API, by a key without an organisation."""
    loaded = await StoredAgents(kernel, registry).get(None, id)
    if loaded.row is None or loaded.row.status != "active":
        raise Conflict(f"the agent {id!r} is archived: it takes no new sessions")
    for notice in loaded.notices:
        err().print(f"[yellow]warning:[/] {verbatim(notice)}", soft_wrap=True)
    row = kernel.new_session(loaded.agent, settings.principal)
    row = replace(row, agent_id=loaded.id, agent_version=loaded.row.version)
    session = await kernel.enter(row, loaded.agent, principal=settings.principal, env=settings.env)
    await kernel.store.sessions.create(row)
    return session


def _id(named: str) -> UUID | None:
    try:
        return UUID(named)
    except ValueError:
        return None


async def _agent_of(kernel: Kernel, registry: Registry, session: str, principal: str) -> Agent:
    row = await kernel.find_session(session)
    if row is None:
        # In the kernel's own words for a session of somebody else: neither tells whether it exists.
        hint = "leave --session out to start one; its id is printed"
        raise NotFound(f"there is no session {session!r} of {principal!r}", hint=hint)
    defined = agent_in_code(row, kernel, registry)
    return defined or build_agent(from_json(row.definition), registry, f"session {session}")
