"""Sessions of agents, as every interface that begins them keeps them (spec 5, P16)."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from capset.adapters.agents.store import Loaded
from capset.definitions.principals import Principal
from capset.kernel.kernel import Kernel
from capset.stores.base import SessionRow


def new_session_row(kernel: Kernel, loaded: Loaded, principal: Principal) -> SessionRow:
    """Return what is to be kept of a new session of an agent."""
    row = kernel.new_session(loaded.agent, principal)
    return replace(row, agent_id=loaded.id, agent_version=loaded.row.version if loaded.row else 1)


async def ensure_session(kernel: Kernel, row: SessionRow, *agent: str) -> SessionRow:
    """Return the one session that a principal has with an agent, kept from now on with the agent as ``row`` has it.

    ``agent`` says which agent that is: its id, or the path of its file and its name.
    """
    door = "\0".join((*agent, row.principal_kind, row.org or "", row.principal))
    return await kernel.store.sessions.ensure(replace(row, door=hashlib.sha256(door.encode()).hexdigest()))
