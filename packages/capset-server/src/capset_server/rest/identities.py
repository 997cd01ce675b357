"""``/v1/whoami``, ``/v1/principals`` and ``/v1/orgs``: the caller, and others that a store knows (spec 5, P50)."""

from __future__ import annotations

import base64
import binascii
from importlib.metadata import version
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic_core import from_json, to_json

from capset.errors import InvalidArguments, PermissionDenied
from capset.stores.base import KeyQuery, KeyRow, Store
from capset.wire.allowances import allowance_shape
from capset.wire.operations import (
    OrgPageShape,
    OrgShape,
    PrincipalPageShape,
    PrincipalShape,
    ServerShape,
    WhoamiShape,
    key_shape,
)
from capset_server.auth.callers import Caller
from capset_server.auth.issuance import check_org
from capset_server.auth.keys import is_valid
from capset_server.rest.routing import Administers, Asked, Known, Served, StrictRoute, problems
from capset_server.service import Service

KEYS_READ: Final = 2_000
"""Number of an organisation's newest keys whose principals are listed."""
KEYS_SHOWN: Final = 20
"""Number of a principal's keys that are shown with it."""
_PAGE: Final = 1_000
router = APIRouter(tags=["identities"], route_class=StrictRoute)


class IdentityPage(Asked):
    """Which page of a list: ``limit`` 1–200, and the ``cursor`` that the page before gave as ``next``."""

    limit: Annotated[int, Query(ge=1, le=200)] = 50
    cursor: Annotated[str | None, Query(max_length=2_000, pattern="^[A-Za-z0-9_-]+$")] = None


class PrincipalFilter(IdentityPage):
    """Those of this organisation, for callers of none; only those with this id, of all kinds."""

    org: Annotated[str | None, Query(max_length=200)] = None
    principal: Annotated[str | None, Query(min_length=1, max_length=200)] = None


@router.get("/whoami", responses=problems(422), operation_id="whoami")
async def whoami(service: Served, caller: Known) -> WhoamiShape:
    """Return the caller as this server knows it, what its credential is good for, and the server itself."""
    principal = caller.principal
    row = None if caller.key_id is None else await service.kernel.store.keys.get(caller.key_id)
    effective = principal.with_permissions(service.kernel.governance.default_permissions)
    return WhoamiShape(
        principal=principal.id,
        kind=principal.kind,
        org=principal.org,
        on_behalf_of=principal.on_behalf_of,
        permissions=sorted(effective.permissions),
        attributes=principal.attributes.masked(),
        allowance=allowance_shape(principal.allowance and principal.allowance.plain()),
        scopes=sorted(caller.scopes),
        tools=None if caller.tools is None else sorted(caller.tools),
        credential="none" if caller.key is None else "token" if caller.key_id is None else "key",
        key=caller.key_id,
        expires_at=row and row.expires_at,
        agent=caller.agent or service.agent_by_default,
        parts=list(caller.parts),
        server=ServerShape(
            version=version("capset"),
            store=store_kind(service.kernel.store),
            insecure=service.callers.anyone is not None,
        ),
    )


def store_kind(store: Store) -> str:
    """Return the kind of a store, such as ``sqlite``: the name of its class without ``Store``."""
    return type(store).__name__.removesuffix("Store").lower()


@router.get("/principals", responses=problems(422), operation_id="list_principals")
async def list_principals(
    service: Served, caller: Administers, params: Annotated[PrincipalFilter, Query()]
) -> PrincipalPageShape:
    """List the principals of the caller's organisation that have keys or sessions, by id.

    A caller of no organisation names one, or else sees those of none.
    """
    check_org(caller, params.org)
    org = caller.principal.org or params.org or None
    after, only = _after(params.cursor), params.principal
    if only is not None:
        after = max(after or ("", ""), (only, ""))  # no kind comes before those of this id
    by_session = await service.kernel.store.directory.principals(org, after=after, limit=params.limit + 1)
    keys, is_partial = await _keys_of(service, org, only)
    last_sessions = {(entry.id, entry.kind): entry.last_session_at for entry in by_session if only in (None, entry.id)}
    identities = sorted({*last_sessions, *(identity for identity in keys if after is None or identity > after)})
    page = identities[: params.limit]
    items = [
        PrincipalShape(
            id=identity[0],
            kind=identity[1],
            last_session_at=last_sessions.get(identity),
            keys=[key_shape(row) for row in keys.get(identity, [])[:KEYS_SHOWN]],
        )
        for identity in page
    ]
    return PrincipalPageShape(
        items=items, next=_cursor(page[-1]) if len(identities) > params.limit else None, is_partial=is_partial
    )


async def _keys_of(
    service: Service, org: str | None, only: str | None
) -> tuple[dict[tuple[str, str], list[KeyRow]], bool]:
    """Return the valid keys of an organisation by principal, of the newest that are read, and whether there are more.

    A principal all of whose keys have ended has an empty list.
    """
    keys_by_principal: dict[tuple[str, str], list[KeyRow]] = {}
    now, remaining = service.kernel.now(), KEYS_READ
    before: str | None = None
    while remaining > 0:
        page = await service.kernel.store.keys.page(
            KeyQuery(org or "", only, limit=min(remaining, _PAGE), before=before)
        )
        for row in page.items:
            rows = keys_by_principal.setdefault((row.principal, row.principal_kind), [])
            if is_valid(row, now):
                rows.append(row)
        remaining -= len(page.items)
        before = page.next
        if before is None:
            return keys_by_principal, False
    return keys_by_principal, True


@router.get("/orgs", responses=problems(422), operation_id="list_orgs")
async def list_orgs(service: Served, caller: Administers, params: Annotated[IdentityPage, Query()]) -> OrgPageShape:
    """List the organisations that have keys, stored agents or sessions, by name: for operators, who are of none."""
    _check_operator(caller)
    after = _after(params.cursor)
    orgs = await service.kernel.store.directory.orgs(after=after and after[0], limit=params.limit + 1)
    items = [OrgShape(org=org.org, keys=org.keys, agents=org.agents, sessions=org.sessions) for org in orgs]
    page = items[: params.limit]
    return OrgPageShape(items=page, next=_cursor((page[-1].org, "")) if len(items) > params.limit else None)


def _check_operator(caller: Caller) -> None:
    if caller.principal.org is not None:
        raise PermissionDenied(
            f"Permission denied: this key is one of {caller.principal.org!r}; "
            "organisations are listed to operators, whose keys belong to none"
        )


def _cursor(last: tuple[str, str]) -> str:
    return base64.urlsafe_b64encode(to_json(last)).decode().rstrip("=")


def _after(cursor: str | None) -> tuple[str, str] | None:
    """Return the place in a list that a cursor stands for. Raises ``InvalidArguments`` for one that was made up."""
    if cursor is None:
        return None
    try:
        match from_json(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))):
            case [str(first), str(second)]:
                return first, second
            case _:
                pass
    except (ValueError, binascii.Error):
        pass
    raise InvalidArguments("Invalid request: cursor: it is not one that a page before gave as next")
