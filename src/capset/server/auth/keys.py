"""API keys: how they are created, and their scopes (spec 5, P14; spec 4, G10). Needs no extra."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, get_args

from capset.definitions.names import TOOL
from capset.definitions.principals import Principal
from capset.errors import DefinitionError, Field
from capset.kernel.kernel import Kernel
from capset.stores.base import KeyRow

Scope = Literal[
    "capset:read",
    "capset:call",
    "capset:write",
    "capset:audit",
    "capset:approve",
    "capset:metrics",
    "capset:admin",
]
"""``read``: capabilities, agents and fingerprints; ``call``: sessions, calls, files, MCP, links of the caller's own
sessions; ``write``: agents; ``audit``: read the org's records and links; ``approve``: read and decide the org's
requests for approvals; ``metrics``: read the org's metrics, or without an org the server's, which cover all; ``admin``:
all of these."""
DEFAULT_SCOPES: Final[tuple[Scope, ...]] = ("capset:read", "capset:call")
_TOOL: Final = "capset:call:"
"""Begins the scope of a single tool, by its name in the agent: of all that ``capset:call`` gives, calls of that one."""
_MAX_AGENT: Final = 200
MAX_NAME: Final = 200
"""The maximum length of a key's name."""
_PREFIX: Final = "capset_"
"""Makes a leaked key recognisable, such as in a repository."""


async def create_key(
    kernel: Kernel,
    name: str,
    principal: Principal,
    *,
    scopes: Iterable[str] = DEFAULT_SCOPES,
    lifetime: timedelta | None = None,
    latest: str | None = None,
    agent: str | None = None,
    by: Principal | None = None,
) -> tuple[KeyRow, str]:
    """Create and store a key for ``principal``; return its row and the key, which cannot be retrieved later.

    The key has the principal's permissions and attributes as they are: expose this to administrators only.

    ``lifetime`` is how long it is valid, ``latest`` the time at which it ends anyway; by default, it does not.

    256 random bits need no slow hash: only their SHA-256 is stored. ``agent`` is the default agent of ``/mcp``, by its
    id, or by its name if it is defined in code; it may be created later. ``by`` is the principal that makes the key, as
    is on record; the host by default. Raises ``DefinitionError`` for an unknown
    scope, an invalid name of the key or the organisation, an invalid agent, and a principal that no key can represent.
    """
    if principal.kind == "anonymous" or principal.on_behalf_of is not None:
        # A key identifies a principal, but not the principals it acts for.
        raise DefinitionError(f"a key is for a user, an agent or an org that acts for itself; got {principal!r}")
    if not (name.strip() and name.isprintable() and len(name) <= MAX_NAME):
        raise DefinitionError(f"a key's name must be printable text of 1–{MAX_NAME} characters; got {name!r:.80}")
    if (org := principal.org) is not None and not (org.strip() and org.isprintable()):
        raise DefinitionError(f"an organisation's name must be printable text, and not empty; got {org!r}")
    if agent is not None and not (agent.strip() and agent.isprintable() and len(agent) <= _MAX_AGENT):
        raise DefinitionError(f"an agent is named by its id, or by its name if it is defined in code; got {agent!r}")
    given = tuple(dict.fromkeys(scopes))
    for scope in given:
        if not is_scope(scope):
            known = (*get_args(Scope), f"{_TOOL}TOOL")
            raise DefinitionError(
                f"unknown scope {scope!r}; there is: {', '.join(known)}",
                fields=[Field("scopes", f"scopes are expected; {scope!r} is none")],
            )
    now = datetime.fromisoformat(kernel.now())
    ends = [one for one in (latest, None if lifetime is None else _iso(now + lifetime)) if one is not None]
    key = _PREFIX + secrets.token_urlsafe(32)
    row = KeyRow(
        id=kernel.new_id(),
        name=name,
        digest=digest_of(key),
        org=principal.org,
        principal=principal.id,
        principal_kind=principal.kind,
        permissions=tuple(sorted(principal.permissions)),
        scopes=given,
        created_at=kernel.now(),
        expires_at=min(ends, default=None),
        agent=agent,
        attributes=dict(principal.attributes) or None,
        allowance=None if principal.allowance is None else principal.allowance.plain(),
    )
    about = {
        "id": row.id,
        "name": row.name,
        "principal": f"{row.principal_kind}:{row.principal}",
        "scopes": row.scopes,
        "permissions": row.permissions,
        "expires_at": row.expires_at,
        "agent": row.agent,
    }
    await kernel.store.keys.create(row, act=kernel.act("key.create", about, by=by, org=row.org))
    return row, key


async def revoke_key(kernel: Kernel, id: str, *, by: Principal | None = None) -> KeyRow | None:
    """Revoke a key for good, unless that is done, and return its row; ``None`` if there is none. ``by`` is as above."""
    row = await kernel.store.keys.get(id)
    if row is None:
        return None
    act = kernel.act("key.revoke", {"id": id, "name": row.name}, by=by, org=row.org)
    return await kernel.store.keys.revoke(id, kernel.now(), act=act)


def is_scope(text: str) -> bool:
    """Return whether a text is a scope: one of ``Scope``, or that of a single tool."""
    return text in get_args(Scope) or tool_of(text) is not None


def scope_of(tool: str) -> str:
    """Return the scope of a single tool; ``capset:call`` for a text that no tool has as its name."""
    return _TOOL + tool if TOOL.fullmatch(tool) else "capset:call"


def tool_of(scope: str) -> str | None:
    """Return the name of the tool that a scope is for, ``None`` if it is for no single tool."""
    tool = scope.removeprefix(_TOOL)
    return tool if scope.startswith(_TOOL) and TOOL.fullmatch(tool) else None


def digest_of(key: str) -> str:
    """Return the stored form of a key: its SHA-256 in hexadecimal."""
    return hashlib.sha256(key.encode(errors="replace")).hexdigest()


def is_valid(row: KeyRow, now: str) -> bool:
    """Return whether a key is valid at this time, ISO 8601 UTC from the kernel's clock."""
    return row.revoked_at is None and (row.expires_at is None or now < row.expires_at)


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
