"""``/v1/whoami``, ``/v1/principals`` and ``/v1/orgs``: the caller, and the identities in the store (spec 5, P50)."""

from __future__ import annotations

import base64
import binascii
from importlib.metadata import version
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic_core import from_json, to_json

from capset.errors import InvalidArguments
from capset.stores.base import KeyQuery, KeyRow, Store
from capset.stores.texts import ascii_lower
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
from capset_server.auth.issuance import check_org
from capset_server.auth.keys import is_valid
from capset_server.rest.routing import Administers, Asked, Known, Served, StrictRoute, check_operator, problems
from capset_server.service import Service

KEYS_READ: Final = 2_000
"""The number of an organisation's newest keys that are searched for principals."""
KEYS_SHOWN: Final = 20
"""The maximum number of keys shown with a principal."""
_PAGE: Final = 1_000
router = APIRouter(tags=["identities"], route_class=StrictRoute)


class IdentityPage(Asked):
    """A page of a list. ``limit`` is 1–200, and ``cursor`` the ``next`` of the previous page."""

    limit: Annotated[int, Query(ge=1, le=200)] = 50
    cursor: Annotated[str | None, Query(max_length=2_000, pattern="^[A-Za-z0-9_-]+$")] = None


class PrincipalFilter(IdentityPage):
    """Filters for principals. Callers of no organisation may give ``org``; ``principal`` is an id, of any kind."""

    org: Annotated[str | None, Query(max_length=200)] = None
    principal: Annotated[str | None, Query(min_length=1, max_length=200)] = None
    text: Annotated[str | None, Query(max_length=200, description="Part of an id, in upper or lower case")] = None


@router.get("/whoami", responses=problems(422), operation_id="whoami")
async def whoami(service: Served, caller: Known) -> WhoamiShape:
    """Return the caller as this server knows it, what its credential allows, and facts about the server."""
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

    A caller of no organisation may name one, and otherwise sees principals without an organisation.
    """
    check_org(caller, params.org)
    org = caller.principal.org or params.org or None
    after, only = _after(params.cursor), params.principal
    if only is not None:
        after = max(after or ("", ""), (only, ""))  # sorts before this id with any kind
    by_session = await service.kernel.store.directory.principals(org, after=after, limit=params.limit, text=params.text)
    end = by_session.next  # principals after it are on later pages
    if end is not None and only is not None and end[0] > only:
        end = None
    all_keys, is_partial = await _keys_of(service, org, only)
    part = ascii_lower(params.text or "")
    keys = {identity: rows for identity, rows in all_keys.items() if part in ascii_lower(identity[0])}
    last_sessions = {
        (entry.id, entry.kind): entry.last_session_at for entry in by_session.items if only in (None, entry.id)
    }
    by_key = (identity for identity in keys if after is None or identity > after)
    identities = sorted({*last_sessions, *(identity for identity in by_key if end is None or identity <= end)})
    page = identities[: params.limit]
    last = page[-1] if len(identities) > params.limit else end
    items = [
        PrincipalShape(
            id=identity[0],
            kind=identity[1],
            last_session_at=last_sessions.get(identity),
            keys=[key_shape(row) for row in keys.get(identity, [])[:KEYS_SHOWN]],
        )
        for identity in page
    ]
    return PrincipalPageShape(items=items, next=None if last is None else _cursor(last), is_partial=is_partial)


async def _keys_of(
    service: Service, org: str | None, only: str | None
) -> tuple[dict[tuple[str, str], list[KeyRow]], bool]:
    """Return the valid keys among an organisation's newest, by principal, and whether there are more keys.

    A principal without valid keys has an empty list.
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
    """List the organisations with keys, stored agents or sessions, by name. Only for operators, who are of none."""
    check_operator(caller, "list organisations")
    after = _after(params.cursor)
    orgs = await service.kernel.store.directory.orgs(after=after and after[0], limit=params.limit + 1)
    items = [OrgShape(org=org.org, keys=org.keys, agents=org.agents, sessions=org.sessions) for org in orgs]
    page = items[: params.limit]
    return OrgPageShape(items=page, next=_cursor((page[-1].org, "")) if len(items) > params.limit else None)


def _cursor(last: tuple[str, str]) -> str:
    return base64.urlsafe_b64encode(to_json(last)).decode().rstrip("=")


def _after(cursor: str | None) -> tuple[str, str] | None:
    """Decode the place in a list from a cursor. Raises ``InvalidArguments`` for an invalid one."""
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
    raise InvalidArguments("Invalid request: cursor: expected the next of an earlier page")
