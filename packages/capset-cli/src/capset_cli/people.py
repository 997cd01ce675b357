"""``capset people``: chat users who may decide approval requests, as principals (spec 9, N30)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from capset.errors import DefinitionError
from capset.schemas.validation_errors import validation_fields
from capset.wire.people import PersonInput, PersonShape
from capset_cli.administration import administer
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Db, Grant
from capset_cli.common.output import cell, err, print_json, print_page
from capset_cli.common.remote import Url
from capset_cli.common.settings import parse_attributes

if TYPE_CHECKING:
    from capset_cli.administration import Admin

Org = Annotated[str | None, typer.Option("--org", help="The organisation whose requests they decide.")]


@guarded
def add_command(
    team: Annotated[str, typer.Argument(metavar="TEAM", help="The id of the Slack workspace, such as T0123ABCD.")],
    user: Annotated[str, typer.Argument(metavar="USER", help="The id of the user in it, such as U0123ABCD.")],
    principal: Annotated[str, typer.Option(help="The principal as which the user decides.")],
    kind: Annotated[str, typer.Option(help="The kind of the principal: user, agent or org.")] = "user",
    grant: Grant = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An attribute of the principal, which policies read; may be repeated."),
    ] = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Register a Slack user as a principal, who may then decide approval requests."""
    attributes = dict(parse_attributes(attribute)) or None
    values = {"team": team, "user": user, "principal": principal, "kind": kind, "permissions": list(grant or ())}
    try:
        person_input = PersonInput.model_validate({**values, "attributes": attributes})
    except ValidationError as error:
        problems = "; ".join(map(str, validation_fields(error, list(PersonInput.model_fields), values)))
        raise DefinitionError(f"invalid person: {problems}", hint="Slack shows the ids in a member's profile") from None

    async def add(admin: Admin) -> PersonShape:
        return await admin.people.add(
            team,
            user,
            principal,
            kind=person_input.kind,
            permissions=person_input.permissions,
            attributes=person_input.attributes,
        )

    person = administer(url, add, db=db, org=org)
    if as_json:
        print_json(person.plain())
    else:
        print(person.id, flush=True)
        err().print(f"[dim]{cell(person.user)} of {cell(person.team)} is {cell(person.principal)}[/]", soft_wrap=True)
    return Exit.DONE


@guarded
def list_command(
    limit: Annotated[int, typer.Option(min=1, max=200, help="The maximum number of people.")] = 50,
    before: Annotated[str | None, typer.Option(help="Only people before the one with this id.")] = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """List the chat users who may decide approval requests, newest first."""
    page = administer(url, lambda admin: admin.people.list(limit=limit, cursor=before), db=db, org=org)
    columns = ("ID", "TEAM", "USER", "PRINCIPAL", "PERMISSIONS")
    print_page(
        page,
        columns,
        map(_row, page.items),
        folds=("PRINCIPAL", "PERMISSIONS"),
        as_json=as_json,
        empty="no users are registered: capset people add TEAM USER --principal WHO registers one",
    )
    return Exit.DONE


@guarded
def remove_command(
    id: Annotated[str, typer.Argument(metavar="ID", help="The id of the person, as capset people list shows it.")],
    org: Org = None,
    db: Db = None,
    url: Url = None,
) -> Exit:
    """Remove a person, who can then no longer decide approval requests."""
    administer(url, lambda admin: admin.people.remove(id), db=db, org=org)
    print(f"removed {id}")
    return Exit.DONE


def _row(person: PersonShape) -> list[str]:
    principal = f"{person.principal_kind}:{person.principal}"
    return list(map(cell, (person.id, person.team, person.user, principal, " ".join(person.permissions))))
