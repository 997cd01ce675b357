"""Sessions whose agent is more than an agent file can say: its code must be here again (spec 5, P4, P5)."""

from __future__ import annotations

from pydantic_core import from_json

from capset.definitions.agents import Agent
from capset.errors import Conflict
from capset.kernel.agent_definition import ONLY_IN_CODE
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.stores.base import SessionRow


def agent_in_code(row: SessionRow, kernel: Kernel, registry: Registry) -> Agent | None:
    """Return the installed agent that a session is of, or ``None`` where the session's own definition says it all.

    Raises ``Conflict`` where it does not, and no agent of that name is installed that is still what it was.
    """
    unsaid: list[str] = from_json(row.definition).get(ONLY_IN_CODE, [])
    if not unsaid and row.agent_id is None:
        return None
    versions = registry.versions(row.agent_id or row.agent)
    for one in versions:
        if kernel.compose(one).static_hash == row.static_hash:
            return one
    if not unsaid:
        return None
    state = "has changed since the session began" if versions else "is not installed here"
    raise Conflict(
        f"the session {row.id!r} is one of the agent {row.agent!r}, which only its code defines "
        f"({', '.join(unsaid)}) and which {state}",
        hint="open it where that code is: kernel.open(agent, session_id=…), or an entry point in capset.agents",
    )
