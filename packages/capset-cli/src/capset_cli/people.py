"""``capset people``: the users of chats who may decide, as principals (spec 9, N30)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from pydantic import ValidationError

from capset.errors import DefinitionError
from capset.kernel.kernel import Kernel
from capset.schemas.validation_errors import validation_fields
from capset.stores.base import PersonQuery
from capset.wire.people import PersonInput, PersonPageShape, PersonShape, person_page_shape, person_shape
from capset_cli.common.actors import acting_here
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Db, Grant
from capset_cli.common.output import cell, err, out, print_json, table
from capset_cli.common.remote import Url, ask, server_of
from capset_cli.common.settings import existing_db, given_attributes, load_settings
from capset_server.approvals.people import add_person, person_of, remove_person

if TYPE_CHECKING:
    from capset_server.client import Client

T = TypeVar("T")
Org = Annotated[str | None, typer.Option("--org", help="The organisation whose requests they decide.")]


@guarded
def add_command(
    team: Annotated[str, typer.Argument(metavar="TEAM", help="The id of the Slack workspace, such as T0123ABCD.")],
    user: Annotated[str, typer.Argument(metavar="USER", help="The id of the user in it, such as U0123ABCD.")],
    principal: Annotated[str, typer.Option(help="Who decides when that user does.")],
    kind: Annotated[str, typer.Option(help="What the principal is: user, agent or org.")] = "user",
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
    """Enter a user of a Slack workspace as a principal, who may decide requests from now on."""
    attributes = dict(given_attributes(attribute)) or None
    values = {"team": team, "user": user, "principal": principal, "kind": kind, "permissions": list(grant or ())}
    try:
        person_input = PersonInput.model_validate({**values, "attributes": attributes})
    except ValidationError as error:
        problems = "; ".join(map(str, validation_fields(error, list(PersonInput.model_fields), values)))
        raise DefinitionError(
            f"this is no person: {problems}", hint="Slack shows the ids in a member's profile"
        ) from None

    async def add_on_server(client: Client) -> PersonShape:
        return await client.people.add(
            team,
            user,
            principal,
            kind=person_input.kind,
            permissions=person_input.permissions,
            attributes=person_input.attributes,
        )

    async def add_locally(kernel: Kernel) -> PersonShape:
        actor = load_settings(db=db).principal
        with acting_here(actor):
            return person_shape(await add_person(kernel, person_of(kernel, person_input, org, actor)))

    person = ask_here_or_there(url, add_on_server, add_locally, db=db, org=org)
    if as_json:
        print_json(person.plain())
    else:
        print(person.id, flush=True)
        err().print(f"[dim]{cell(person.user)} of {cell(person.team)} is {cell(person.principal)}[/]", soft_wrap=True)
    return Exit.DONE


@guarded
def list_command(
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many people.")] = 50,
    before: Annotated[str | None, typer.Option(help="Only people before this one, by its id.")] = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """List the users of chats who may decide, the newest first."""
    query = PersonQuery(org, limit=limit, before=before)

    async def list_on_server(client: Client) -> PersonPageShape:
        return await client.people.list(limit=limit, cursor=before)

    async def list_locally(kernel: Kernel) -> PersonPageShape:
        return await person_page_shape(kernel.store.people.list, query)

    page = ask_here_or_there(url, list_on_server, list_locally, db=db, org=org)
    if as_json:
        print_json(page.plain())
        return Exit.DONE
    rows = (
        list(
            map(
                cell,
                (
                    person.id,
                    person.team,
                    person.user,
                    f"{person.principal_kind}:{person.principal}",
                    " ".join(person.permissions),
                ),
            )
        )
        for person in page.items
    )
    out().print(table("ID", "TEAM", "USER", "PRINCIPAL", "PERMISSIONS", rows=rows, folds=("PRINCIPAL", "PERMISSIONS")))
    if page.next is not None:
        err().print(f"[dim]more: --before {page.next}[/]")
    return Exit.DONE


@guarded
def remove_command(
    id: Annotated[str, typer.Argument(metavar="ID", help="The id of the person, as capset people list shows it.")],
    org: Org = None,
    db: Db = None,
    url: Url = None,
) -> Exit:
    """Remove a person: that user of the workspace decides nothing any more."""

    async def remove_locally(kernel: Kernel) -> None:
        with acting_here(load_settings(db=db).principal):
            await remove_person(kernel, org, id)

    ask_here_or_there(url, lambda client: client.people.remove(id), remove_locally, db=db, org=org)
    print(f"removed {id}")
    return Exit.DONE


def ask_here_or_there(
    url: str | None,
    on_server: Callable[[Client], Awaitable[T]],
    locally: Callable[[Kernel], Awaitable[T]],
    **local: str | None,
) -> T:
    """Return the answer of a server, or of a local database; ``local`` options apply to the database only."""
    server = server_of(url, **local)
    if server is not None:
        return ask(server, on_server)
    return asyncio.run(_in_database(existing_db(load_settings(db=local["db"]).db), locally))


async def _in_database(url: str, work: Callable[[Kernel], Awaitable[T]]) -> T:
    async with Kernel(store=url) as kernel:
        return await work(kernel)
