"""Sessions of agents, stored the same way by every interface (spec 5, P16)."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from capset.adapters.agents.store import Loaded
from capset.definitions.principals import Principal
from capset.kernel.kernel import Kernel
from capset.stores.base import SessionRow


def new_session_row(kernel: Kernel, loaded: Loaded, principal: Principal) -> SessionRow:
    """Return the row of a new session of an agent, not yet stored."""
    row = kernel.new_session(loaded.agent, principal)
    return replace(row, agent_id=loaded.id, agent_version=loaded.row.version if loaded.row else 1)


async def ensure_session(kernel: Kernel, row: SessionRow, *agent: str) -> SessionRow:
    """Return the one session of a principal with an agent, stored with the agent as in ``row``.

    ``agent`` identifies the agent: its id, or the path of its file and its name.
    """
    door = "\0".join((*agent, row.principal_kind, row.org or "", row.principal))
    return await kernel.store.sessions.ensure(replace(row, door=hashlib.sha256(door.encode()).hexdigest()))
