"""People: chat users as principals. Administrators add them; names and addresses never match (spec 9, N30)."""

from __future__ import annotations

from typing import cast

from capset.definitions.principals import Principal, PrincipalKind
from capset.errors import Conflict, DefinitionError, Field, InvalidArguments, NotFound, PermissionDenied
from capset.kernel.kernel import Kernel
from capset.stores.base import PersonRow
from capset.stores.rows import row_digest
from capset.wire.people import PersonInput
from capset_server.auth.callers import Caller


def person_of(
    kernel: Kernel, person: PersonInput, org: str | None, by: Principal, makers: tuple[str, ...] = ()
) -> PersonRow:
    """Return the row of a new person that ``by`` adds. Raises ``InvalidArguments`` for an invalid principal.

    ``makers`` are the principals that count as this person, as ``makers_of`` returns them; none for a person added
    directly on the database.
    """
    try:
        principal = Principal(
            person.principal,
            permissions=person.permissions,
            kind=person.kind,
            org=org,
            attributes=person.attributes,
        )
    except DefinitionError as error:
        raise InvalidArguments(f"Invalid request: {error.message}") from None
    return PersonRow(
        id=kernel.new_id(),
        team=person.team,
        user=person.user,
        org=org,
        principal=principal.id,
        principal_kind=principal.kind,
        permissions=tuple(sorted(principal.permissions)),
        attributes=dict(principal.attributes) or None,
        created_at=kernel.now(),
        created_by=by.qualified_id,
        makers=makers,
    )


def check_grants(person: PersonInput, by: Principal) -> None:
    """Raise ``PermissionDenied`` if a new person would have permissions that ``by`` lacks."""
    if beyond := sorted(set(person.permissions) - by.permissions):
        raise PermissionDenied(
            f"Permission denied: a person has at most the permissions of the one who adds them; you lack "
            f"{', '.join(beyond)}",
            fields=[Field("permissions", f"at most your own are expected; not {', '.join(beyond)}")],
        )


async def add_person(kernel: Kernel, row: PersonRow, *, by: Principal | None = None) -> PersonRow:
    """Store a person. Raises ``Conflict`` if the organisation already has this user of this workspace."""
    about = {
        "id": row.id,
        "team": row.team,
        "user": row.user,
        "principal": f"{row.principal_kind}:{row.principal}",
        "permissions": row.permissions,
        "sha256": row_digest(row),
    }
    if not await kernel.store.people.add(row, act=kernel.act("person.add", about, by=by, org=row.org)):
        raise Conflict(f"the user {row.user} of the workspace {row.team} was already added: remove that person first")
    return row


async def remove_person(kernel: Kernel, org: str | None, id: str, *, by: Principal | None = None) -> None:
    """Delete a person of an organisation. Raises ``NotFound``."""
    row = await kernel.store.people.get(org, id) if id.isprintable() else None
    if row is not None:
        about = {"id": id, "team": row.team, "user": row.user, "principal": f"{row.principal_kind}:{row.principal}"}
        if await kernel.store.people.remove(org, id, act=kernel.act("person.remove", about, by=by, org=org)):
            return
    raise NotFound(f"there is no person {id!r}")


async def callers_of_user(kernel: Kernel, team: str, user: str) -> list[Caller]:
    """Return a workspace user as callers, one for each organisation that has added the user.

    They may see and decide that organisation's requests, and nothing else.
    """
    return [_caller(row) for row in await kernel.store.people.find(team, user)]


def _caller(row: PersonRow) -> Caller:
    principal = Principal(
        row.principal,
        permissions=row.permissions,
        kind=cast("PrincipalKind", row.principal_kind),  # Principal validates it
        org=row.org,
        attributes=row.attributes,
        makers=row.makers,
    )
    return Caller(principal, frozenset({"capset:approve"}), f"person {row.id}")
