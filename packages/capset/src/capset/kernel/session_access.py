"""Checks when a session is opened: its arguments and its owner."""

from __future__ import annotations

from collections.abc import Mapping

from capset.definitions.blocks import Block
from capset.definitions.principals import Principal
from capset.errors import DefinitionError, NotFound
from capset.stores.base import SessionRow


def check_block(label: str, agent: object) -> None:
    """Raise ``DefinitionError`` for anything but an agent or another block."""
    if not isinstance(agent, Block):
        raise DefinitionError(
            f"{label} an Agent, a Flow or another block; got {agent!r:.80}",
            hint="put a capability into an agent: Agent('name', uses=[…])",
        )


def check_opening(agent: object, principal: object, env: object) -> None:
    """Raise ``DefinitionError`` for arguments with which no session can be opened."""
    check_block("a session is opened for", agent)
    if not isinstance(principal, Principal):
        raise DefinitionError(f"principal must be a Principal, such as Principal('ada'); got {principal!r}")
    if env is not None and not isinstance(env, Mapping):
        raise DefinitionError(f"env must be a mapping of names to values; got {env!r}")


def check_owner(row: SessionRow, principal: Principal) -> None:
    """Raise ``NotFound`` unless a session belongs to the principal, acting for the same others."""
    owner = (row.principal, row.principal_kind, row.org, row.on_behalf_of)
    if owner != (principal.id, principal.kind, principal.org, principal.on_behalf_of):
        raise no_session(row.id, principal)


def no_session(id: str, principal: Principal) -> NotFound:
    """Return the error for a session that does not exist or is another principal's, without revealing which."""
    return NotFound(f"there is no session {id!r} of {principal.id!r}")
