"""The agents of ``capset fingerprint`` and ``capset replay``, which may also be single capabilities."""

from __future__ import annotations

from uuid import UUID

from capset.adapters.agents.store import StoredAgents
from capset.cli.common.output import err, verbatim
from capset.cli.common.settings import existing_db
from capset.cli.common.targets import find_agent
from capset.definitions.agents import Agent
from capset.errors import NotFound
from capset.fingerprint.links import CapabilityLink
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry


def find_definition(registry: Registry, named: str) -> Agent | UUID:
    """Return an installed agent, one with a single installed capability, or a file's; or the id of a stored agent.

    Raises ``NotFound`` for an unknown name, and the errors of ``read_agent_file``.
    """
    if named not in registry.agents and (alone := _alone(registry, named)) is not None:
        return alone
    try:
        return find_agent(registry, named)
    except NotFound as error:
        known = f"; nor is a capability of that name installed: {', '.join(registry.capabilities)}"
        raise NotFound(f"{error.message}{known}", hint="or name an agent file by its path") from None


async def load(registry: Registry, found: Agent | UUID, db: str) -> Agent:
    """Return an agent, loading a stored one from the database by its id. Raises ``NotFound`` if there is none."""
    if isinstance(found, Agent):
        return found
    async with Kernel(store=existing_db(db)) as kernel:
        loaded = await StoredAgents(kernel, registry).get(None, str(found))
    for notice in loaded.notices:
        err().print(f"[yellow]warning:[/] {verbatim(notice)}", soft_wrap=True)
    return loaded.agent


async def agent_of(registry: Registry, link: CapabilityLink, db: str) -> Agent:
    """Return the agent of a link: by its id, installed or stored, or else by its name.

    Raises ``NotFound`` if there is none.
    """
    if (defined := registry.agents.get(link.agent_id)) is not None:
        return defined
    try:
        return await load(registry, UUID(link.agent_id), db)
    except (ValueError, NotFound):
        pass  # not an id, or of an agent that is not stored here
    found = registry.agents.get(link.agent_name) or _alone(registry, link.agent_name)
    if found is None:
        raise NotFound(
            f"there is no agent {link.agent_id!r}, and none named {link.agent_name!r}, installed or stored here",
            hint="name today's with --agent: a file, an installed agent, or the id of a stored one",
        )
    return found


def _alone(registry: Registry, named: str) -> Agent | None:
    """Return the agent that ``capset call`` would make for one capability."""
    ids = {name.replace(":", "-"): name for name in registry.capabilities}
    name = named if named in registry.capabilities or named in registry.aliases else ids.get(named)
    if name is None:
        return None
    capability = registry.get(name)
    return Agent(capability.name.replace(":", "-"), uses=[capability])
