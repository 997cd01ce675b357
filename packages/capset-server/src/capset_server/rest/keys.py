"""``/v1/keys``: API keys, which administrators manage, and the caller's own key (spec 5, P48, P49)."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from capset.definitions.governance.limits import window_seconds
from capset.errors import CapsetError, Conflict, StoreError
from capset.stores.base import KeyRow
from capset.wire.operations import KeyInput, KeyPageShape, KeyShape, NewKeyShape, key_shape, new_key_shape
from capset.wire.pages import read_page
from capset_server.auth.callers import Caller
from capset_server.auth.issuance import issue_key, query_of, revoke_visible_key, visible_key
from capset_server.auth.keys import DEFAULT_SCOPES, key_principal
from capset_server.http.idempotency import Idempotency
from capset_server.rest.calls import IdempotencyKey
from capset_server.rest.routing import Administers, Id, Known, Paged, Served, StrictRoute, problems
from capset_server.service import Service

router = APIRouter(prefix="/keys", tags=["keys"], route_class=StrictRoute)


class KeyFilter(Paged):
    """Filters for keys. Callers of no organisation may give ``org``; ``principal`` is an id without its kind."""

    org: Annotated[str | None, Query(max_length=200)] = None
    principal: Annotated[str | None, Query(max_length=200)] = None


@router.get("", responses=problems(422), operation_id="list_keys")
async def list_keys(service: Served, caller: Administers, params: Annotated[KeyFilter, Query()]) -> KeyPageShape:
    """List keys of the caller's organisation, or else of all, newest first, including revoked and expired ones."""
    query = query_of(caller, org=params.org, principal=params.principal, limit=params.limit, before=params.cursor)
    items, following = await read_page(service.kernel.store.keys.page, query, key_shape, _id_of)
    return KeyPageShape(items=items, next=following)


def _id_of(row: KeyRow) -> str:
    return row.id


@router.post("", status_code=201, responses=problems(400, 409, 413, 415, 422), operation_id="create_key")
async def create_key(
    service: Served,
    caller: Administers,
    body: KeyInput,
    request: Request,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> NewKeyShape:
    """Create a key. Its secret is shown only once, since only its hash is stored.

    It cannot exceed the caller's organisation, permissions and allowance, and ends when the caller's own key ends.
    Repeating the request with the same ``Idempotency-Key`` creates no second key. The response is 409 with the id of
    the first one, since its secret is not stored.
    """
    idempotency = None
    if idempotency_key is not None:
        scope = hashlib.sha256(f"keys\0{caller.identity}".encode(errors="replace")).hexdigest()
        idempotency = Idempotency(service, caller, scope, idempotency_key, await request.body())
        if (stored_reply := await idempotency.begin()) is not None:
            raise Conflict(
                f"This Idempotency-Key has already created the key {stored_reply[1].decode()}, whose secret "
                "was shown then "
                "and is not stored",
                hint="if the secret was lost, revoke that key, and create another with a new Idempotency-Key",
            )
    try:
        row, key = await _issue(service, caller, body)
    except CapsetError as error:
        if idempotency is not None and (error.retryable or not isinstance(error, StoreError)):
            await idempotency.release()
        raise
    if idempotency is not None:
        await idempotency.store_reply(201, row.id.encode())
    response.headers["Location"] = f"{request.scope['root_path']}/v1/keys/{row.id}"
    return new_key_shape(row, key)


async def _issue(service: Service, caller: Caller, body: KeyInput) -> tuple[KeyRow, str]:
    lifetime = timedelta(seconds=window_seconds(body.expires))
    scopes = DEFAULT_SCOPES if body.scopes is None else body.scopes
    return await issue_key(
        service.kernel, caller, body.name, key_principal(body), scopes=scopes, lifetime=lifetime, agent=body.agent
    )


@router.get("/{id}", responses=problems(404, 422), operation_id="get_key")
async def get_key(service: Served, caller: Known, id: Id) -> KeyShape:
    """Return a key without its secret: the caller's own key, or one that it administers."""
    return key_shape(await visible_key(service.kernel, caller, id))


@router.post("/{id}/revoke", responses=problems(404, 422), operation_id="revoke_key")
async def revoke_key(service: Served, caller: Known, id: Id) -> KeyShape:
    """Revoke a key permanently: the caller's own key, or one that it administers.

    Servers accept it for one more second at most. Keys that were created with it stay valid until they expire or are
    revoked.
    """
    return key_shape(await revoke_visible_key(service.kernel, caller, id))
