"""Keys that callers create, read and revoke, never with more rights than their own (spec 5, P48, P49)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Final

from capset.definitions.governance.allowances import lowest_allowance
from capset.definitions.principals import Principal
from capset.errors import Field, InvalidArguments, NotFound, PermissionDenied, Unauthenticated
from capset.kernel.kernel import Kernel
from capset.stores.base import KeyQuery, KeyRow
from capset_server.auth.callers import REFUSED, Caller
from capset_server.auth.keys import create_key, is_valid, revoke_key
from capset_server.auth.resources import WHOLE

KEY_LIFETIME: Final = timedelta(days=366)
"""Maximum lifetime of a key that a caller with a key creates. It never outlives the caller's key."""
TOKEN_LIFETIME: Final = timedelta(days=30)
"""Maximum lifetime of a key that a caller with a token creates, because the token itself is short-lived."""


def query_of(caller: Caller, *, org: str | None, principal: str | None, limit: int, before: str | None) -> KeyQuery:
    """Return the query for the keys that an administrator may see.

    They are those of its organisation. An administrator without one sees those of ``org``, or all by default. Raises
    ``PermissionDenied`` for another organisation than its own.
    """
    own_org = caller.principal.org
    check_org(caller, org)
    return KeyQuery(org if own_org is None else own_org, principal, limit=limit, before=before)


def check_org(caller: Caller, org: str | None) -> None:
    """Raise ``PermissionDenied`` if a caller of an organisation names another one."""
    own_org = caller.principal.org
    if own_org is not None and org not in (None, own_org):
        raise PermissionDenied(
            f"Permission denied: this key belongs to {own_org!r}, and cannot access another organisation",
            fields=[Field("org", f"{own_org!r} or nothing is expected")],
        )


async def visible_key(kernel: Kernel, caller: Caller, id: str) -> KeyRow:
    """Return a key: the caller's own, or one that it administers. Raises ``InsufficientScope`` and ``NotFound``."""
    if caller.key_id != id:
        caller.check("capset:admin")
    row = await kernel.store.keys.get(id)
    if row is None or caller.principal.org not in (None, row.org):
        raise NotFound(f"there is no key {id!r}")
    return row


async def revoke_visible_key(kernel: Kernel, caller: Caller, id: str) -> KeyRow:
    """Revoke a key and return it. Raises as ``visible_key`` does, and ``PermissionDenied`` without a credential."""
    _check_credential(caller)
    await visible_key(kernel, caller, id)
    row = await revoke_key(kernel, id, by=caller.principal)
    if row is None:
        raise NotFound(f"there is no key {id!r}")
    return row


async def issue_key(
    kernel: Kernel,
    caller: Caller,
    name: str,
    principal: Principal,
    *,
    scopes: Iterable[str],
    lifetime: timedelta,
    agent: str | None = None,
) -> tuple[KeyRow, str]:
    """Create a key for an administrator, and return its row and the key.

    The key has at most the caller's organisation, permissions and allowance, and expires no later than the caller's own
    key. Raises ``PermissionDenied`` for more than that, ``InvalidArguments`` for a lifetime that is too long,
    ``Unauthenticated`` if the caller's own key has just been revoked, and as ``create_key`` does.
    """
    caller.check("capset:admin")
    _check_credential(caller)
    maker = caller.principal
    if maker.on_behalf_of is not None:
        raise PermissionDenied(
            f"Permission denied: a caller that acts for {maker.on_behalf_of} cannot create keys: a key acts for itself"
        )
    if caller.parts != WHOLE:
        raise PermissionDenied(
            "Permission denied: this credential is for a part of this server, but a key would be for all of it"
        )
    check_org(caller, principal.org)
    if more := sorted(principal.permissions - maker.permissions):
        raise PermissionDenied(
            f"Permission denied: a key has at most its maker's permissions, which lack {', '.join(more)}",
            fields=[Field("permissions", f"at most the maker's are expected; not {', '.join(more)}")],
        )
    owner = replace(
        principal,
        org=principal.org if maker.org is None else maker.org,
        allowance=lowest_allowance((maker.allowance, principal.allowance)),
    )
    latest = await _own_end(kernel, caller)
    maximum = TOKEN_LIFETIME if caller.key_id is None else KEY_LIFETIME
    if lifetime > maximum:
        raise InvalidArguments(
            f"Invalid request: a key that is created here is valid for at most {maximum.days} days",
            fields=[Field("expires", f"at most {maximum.days} days are expected")],
        )
    return await create_key(kernel, name, owner, scopes=scopes, lifetime=lifetime, latest=latest, agent=agent, by=maker)


def _check_credential(caller: Caller) -> None:
    if caller.key is None:
        raise PermissionDenied(
            "Permission denied: creating and revoking keys requires a key or a token, and this server asks for neither",
            hint="capset key create NAME --principal WHO and capset key revoke ID work on the database",
        )


async def _own_end(kernel: Kernel, caller: Caller) -> str | None:
    """Return when the caller's own key expires, if it does. Raises ``Unauthenticated`` if it is no longer valid."""
    if caller.key_id is None:
        return None
    row = await kernel.store.keys.get(caller.key_id)
    if row is None or not is_valid(row, kernel.now()):
        raise Unauthenticated(REFUSED)
    return row.expires_at
