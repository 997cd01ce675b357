"""API keys: their creation and their scopes (spec 5, P14; spec 4, G10). Needs no extra."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, get_args

from capset.definitions.names import TOOL
from capset.definitions.principals import Principal
from capset.errors import DefinitionError, Field, PermissionDenied
from capset.kernel.kernel import Kernel
from capset.stores.base import KeyRow
from capset.stores.rows import row_digest
from capset.wire.operations import KeyInput

Scope = Literal[
    "capset:read",
    "capset:call",
    "capset:write",
    "capset:audit",
    "capset:observe",
    "capset:approve",
    "capset:metrics",
    "capset:admin",
]
"""``read``: capabilities, agents and fingerprints; ``call``: sessions, calls, files, MCP, links of the caller's own
sessions; ``write``: agents; ``audit``: read the org's records and links; ``observe``: read all runs and sessions of
the org, with what was said and done, on record; ``approve``: read and decide the org's approval requests;
``metrics``: read the org's metrics, or without an org the server's, which cover all; ``admin``:
all of these."""
DEFAULT_SCOPES: Final[tuple[Scope, ...]] = ("capset:read", "capset:call")
_TOOL: Final = "capset:call:"
"""Prefix of the scope of a single tool, ``CAPABILITY.TOOL``. It permits calls of that tool, and nothing else.

The names are the capability's own: an agent may rename the tool, and the scope stays the same.
"""
_OWN_NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_:-]{{0,99}}\.{TOOL.pattern}")
_MAX_AGENT: Final = 200
MAX_NAME: Final = 200
"""The maximum length of a key's name."""
MAX_MAKERS: Final = 16
"""The maximum number of makers of a key, each of whom has created the key of the one before."""
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

    The key gets all permissions and attributes of the principal: expose this to administrators only.

    ``lifetime`` is how long the key is valid, ``latest`` the latest time at which it may expire. By default it never
    expires.

    Only the SHA-256 of the key is stored: 256 random bits need no slow hash. ``agent`` is the default agent of
    ``/mcp``, by its id, or by its name if it is defined in code; it may be created later. ``by`` is the principal that
    creates the key. It is recorded, and counts as the key's principal when requests are approved. It defaults to the
    host, which counts as no principal. Raises ``DefinitionError`` for an unknown scope, an invalid name of the key or
    the organisation, an invalid agent, and a principal that no key can represent; ``PermissionDenied`` as
    ``makers_of`` does.
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
    unique_scopes = tuple(dict.fromkeys(scopes))
    for scope in unique_scopes:
        if not is_scope(scope):
            raise DefinitionError(message := _misfit(scope), fields=[Field("scopes", message)])
    now = datetime.fromisoformat(kernel.now())
    ends = [end for end in (latest, None if lifetime is None else _iso(now + lifetime)) if end is not None]
    key = _PREFIX + secrets.token_urlsafe(32)
    row = KeyRow(
        id=kernel.new_id(),
        name=name,
        digest=digest_of(key),
        org=principal.org,
        principal=principal.id,
        principal_kind=principal.kind,
        permissions=tuple(sorted(principal.permissions)),
        scopes=unique_scopes,
        created_at=kernel.now(),
        expires_at=min(ends, default=None),
        agent=agent,
        attributes=dict(principal.attributes) or None,
        allowance=None if principal.allowance is None else principal.allowance.plain(),
        makers=() if by is None else makers_of(by),
    )
    about = {
        "id": row.id,
        "name": row.name,
        "principal": f"{row.principal_kind}:{row.principal}",
        "scopes": row.scopes,
        "permissions": row.permissions,
        "expires_at": row.expires_at,
        "agent": row.agent,
        "sha256": row_digest(row),
    }
    await kernel.store.keys.create(row, act=kernel.act("key.create", about, by=by, org=row.org))
    return row, key


def key_principal(key: KeyInput) -> Principal:
    """Return the principal that a key is for. Raises ``DefinitionError`` if it is invalid."""
    return Principal(
        key.principal,
        permissions=key.permissions,
        kind=key.kind,
        org=key.org,
        attributes=key.attributes,
        allowance=key.allowance and key.allowance.allowance(),
    )


async def revoke_key(kernel: Kernel, id: str, *, by: Principal | None = None) -> KeyRow | None:
    """Revoke a key for good, unless it is revoked already, and return its row; ``None`` if there is none.

    ``by`` is the principal that revokes it; it defaults to the host.
    """
    row = await kernel.store.keys.get(id)
    if row is None:
        return None
    act = kernel.act("key.revoke", {"id": id, "name": row.name}, by=by, org=row.org)
    return await kernel.store.keys.revoke(id, kernel.now(), act=act)


def makers_of(by: Principal) -> tuple[str, ...]:
    """Return the makers of a key or a person that ``by`` creates: itself, and the makers of its own key.

    Raises ``PermissionDenied`` for more than ``MAX_MAKERS``.
    """
    makers = tuple(dict.fromkeys((by.qualified_id, *by.makers)))
    if len(makers) > MAX_MAKERS:
        raise PermissionDenied(
            f"Permission denied: this key ends a chain of {MAX_MAKERS} makers, and cannot create keys or people",
            hint="use a key that was created on the database, or a token",
        )
    return makers


def is_scope(text: str) -> bool:
    """Return whether a text is a scope: one of ``Scope``, or that of a single tool."""
    return text in get_args(Scope) or tool_of(text) is not None


def _misfit(scope: str) -> str:
    """Return the error text for an invalid scope."""
    if scope.startswith(_TOOL):
        return (
            f"the scope of a single tool is {_TOOL}CAPABILITY.TOOL, by the capability's own names: "
            f"write {_TOOL}test_math.add, for example; got {scope!r:.200}"
        )
    return f"unknown scope {scope!r:.200}; available: {', '.join((*get_args(Scope), f'{_TOOL}CAPABILITY.TOOL'))}"


def scope_of(own_name: str | None) -> str:
    """Return the scope of a tool by ``CAPABILITY.TOOL``; ``capset:call`` if no scope can name the tool alone."""
    return _TOOL + own_name if own_name is not None and _OWN_NAME.fullmatch(own_name) else "capset:call"


def tool_of(scope: str) -> str | None:
    """Return the ``CAPABILITY.TOOL`` that a scope is for; ``None`` if it is not for a single tool."""
    own_name = scope.removeprefix(_TOOL)
    return own_name if scope.startswith(_TOOL) and _OWN_NAME.fullmatch(own_name) else None


def digest_of(key: str) -> str:
    """Return the stored form of a key: its SHA-256 in hexadecimal."""
    return hashlib.sha256(key.encode(errors="replace")).hexdigest()


def is_valid(row: KeyRow, now: str) -> bool:
    """Return whether a key is valid at this time, ISO 8601 UTC from the kernel's clock."""
    return row.revoked_at is None and (row.expires_at is None or now < row.expires_at)


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
