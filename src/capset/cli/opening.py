"""Which agent a command means, and its session: what ``capset call`` and ``capset mcp`` share."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic_core import from_json

from capset.adapters.agent_file import build_agent, read_agent_file
from capset.cli.settings import Settings, existing_db
from capset.definitions.agents import Agent
from capset.errors import DefinitionError, NotFound
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.kernel.session import Session


def refuse_both(agent: str | None, session: str | None) -> None:
    """Raise ``DefinitionError`` if an agent and a session are named."""
    if agent is not None and session is not None:
        raise DefinitionError("a session has its agent: give --agent or --session, not both")


def find_agent(registry: Registry, named: str) -> Agent:
    """Return an installed agent by its name, or that of an agent file.

    Raises ``NotFound`` for a name that nobody has, and what ``read_agent_file`` raises.
    """
    path = Path(named)
    is_name = named in registry.agents or not path.suffix
    return registry.get_agent(named) if is_name else read_agent_file(path, registry)


@asynccontextmanager
async def open_session(
    settings: Settings, registry: Registry, agent: Agent | None, session_id: str | None
) -> AsyncGenerator[Session]:
    """Open a kernel, and a session of it: a new one of ``agent``, or the one that ``session_id`` names.

    Raises ``NotFound`` if there is no such session of the settings' principal, and ``DefinitionError`` if the database
    to look it up in is not there.
    """
    who = settings.principal
    async with Kernel(store=settings.db if agent else existing_db(settings.db)) as kernel:
        found = agent or await _agent_of(kernel, registry, session_id or "", who.id)
        async with kernel.open(found, principal=who, env=settings.env, session_id=session_id) as session:
            yield session


async def _agent_of(kernel: Kernel, registry: Registry, session: str, principal: str) -> Agent:
    row = await kernel.find_session(session)
    if row is None:
        # In the kernel's own words for a session of somebody else: neither tells whether it exists.
        hint = "leave --session out to start one; its id is printed"
        raise NotFound(f"there is no session {session!r} of {principal!r}", hint=hint)
    return build_agent(from_json(row.definition), registry, f"session {session}")
