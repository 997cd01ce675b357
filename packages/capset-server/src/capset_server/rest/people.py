"""``/v1/people``: the chat users who may decide approval requests, as principals (spec 9, N30)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from capset.stores.base import PersonQuery
from capset.wire.people import PersonInput, PersonPageShape, PersonShape, person_page_shape, person_shape
from capset_server.approvals.people import add_person, check_grants, person_of, remove_person
from capset_server.auth.callers import Caller
from capset_server.auth.keys import makers_of
from capset_server.rest.routing import Id, Paged, Served, StrictRoute, needs, problems

router = APIRouter(prefix="/people", tags=["people"], route_class=StrictRoute)
Administers = Annotated[Caller, Depends(needs("capset:admin"))]


@router.get("", responses=problems(422), operation_id="list_people")
async def list_people(service: Served, caller: Administers, params: Annotated[Paged, Query()]) -> PersonPageShape:
    """List the people of the organisation, newest first."""
    query = PersonQuery(caller.principal.org, limit=params.limit, before=params.cursor)
    return await person_page_shape(service.kernel.store.people.list, query)


@router.post("", status_code=201, responses=problems(400, 409, 413, 415, 422), operation_id="add_person")
async def add(service: Served, caller: Administers, body: PersonInput) -> PersonShape:
    """Add a user of a Slack workspace as a principal of the organisation, who may then decide its approval requests."""
    check_grants(body, caller.principal)
    makers = () if caller.key is None else makers_of(caller.principal)  # without keys, the caller is not identified
    row = person_of(service.kernel, body, caller.principal.org, caller.principal, makers)
    return person_shape(await add_person(service.kernel, row, by=caller.principal))


@router.delete("/{id}", status_code=204, responses=problems(404, 422), operation_id="remove_person")
async def remove(service: Served, caller: Administers, id: Id) -> None:
    """Remove a person: that user of the workspace can no longer decide requests."""
    await remove_person(service.kernel, caller.principal.org, id, by=caller.principal)
