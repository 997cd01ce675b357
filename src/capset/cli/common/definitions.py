"""Which agent ``capset fingerprint`` and ``capset replay`` mean, where a capability alone may be one."""

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
    """Return an installed agent, one of an installed capability alone, or that of a file; or the id of a stored one.

    Raises ``NotFound`` for a name that nobody has, and what ``read_agent_file`` raises.
    """
    if named not in registry.agents and (alone := _alone(registry, named)) is not None:
        return alone
    try:
        return find_agent(registry, named)
    except NotFound as error:
        known = f"; nor is a capability of that name installed: {', '.join(registry.capabilities)}"
        raise NotFound(f"{error.message}{known}", hint="or name an agent file by its path") from None


async def load(registry: Registry, found: Agent | UUID, db: str) -> Agent:
    """Return an agent, a stored one by its id from the database. Raises ``NotFound`` if there is none."""
    if isinstance(found, Agent):
        return found
    async with Kernel(store=existing_db(db)) as kernel:
        loaded = await StoredAgents(kernel, registry).get(None, str(found))
    for notice in loaded.notices:
        err().print(f"[yellow]warning:[/] {verbatim(notice)}", soft_wrap=True)
    return loaded.agent


async def agent_of(registry: Registry, link: CapabilityLink, db: str) -> Agent:
    """Return the agent that a link names, by its id, installed or stored, or else by its name.

    Raises ``NotFound`` if there is none.
    """
    if (defined := registry.agents.get(link.agent_id)) is not None:
        return defined
    try:
        return await load(registry, UUID(link.agent_id), db)
    except (ValueError, NotFound):
        pass  # no id, or of an agent that is not kept here
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
