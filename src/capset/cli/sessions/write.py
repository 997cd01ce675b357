"""``capset sessions create``, ``move`` and ``delete``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from pydantic_core import from_json

from capset.cli.common.exits import Exit, guarded
from capset.cli.common.options import AsJson, Db, Who
from capset.cli.common.output import print_json
from capset.cli.common.remote import Url
from capset.cli.sessions.read import show
from capset.cli.sessions.target import Id, LocalSessions, Org, asked
from capset.errors import DefinitionError
from capset.wire.sessions import SessionShape, session_shape

if TYPE_CHECKING:
    from capset.client import Client


@guarded
def create_command(
    agent: Annotated[
        str, typer.Argument(metavar="AGENT", help="The id of a stored agent, or the name of one in code.")
    ],
    invocation: Annotated[
        str | None, typer.Option(metavar="JSON", help="For whom it is: its hash alone is kept.")
    ] = None,
    context: Annotated[
        str | None, typer.Option(metavar="JSON", help="What is kept with it, without secrets; links carry it.")
    ] = None,
    principal: Who = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Start a session of an agent, in its present version."""
    given = {"invocation": _object("--invocation", invocation), "context": _object("--context", context)}

    async def there(client: Client) -> SessionShape:
        return await client.sessions.create(agent, **given)

    async def here(place: LocalSessions) -> SessionShape:
        return session_shape(await place.service.new_session(place.caller, agent, **given))

    return show(asked(url, there, here, db=db, org=org, principal=principal, makes=True), as_json=as_json)


@guarded
def move_command(
    id: Id,
    to: Annotated[
        int | None, typer.Option(min=1, help="The version of its agent; the current one, if left out.")
    ] = None,
    expected: Annotated[
        int | None, typer.Option("--if-version", min=1, help="Only if it has this version now.")
    ] = None,
    principal: Who = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Move a session to another version of its agent. Its files and its state stay."""

    async def there(client: Client) -> SessionShape:
        return await client.sessions.move(id, to, version=expected)

    async def here(place: LocalSessions) -> SessionShape:
        return session_shape(await place.service.move_session(place.caller, id, to, expected=expected))

    return show(asked(url, there, here, db=db, org=org, principal=principal), as_json=as_json)


@guarded
def delete_command(
    id: Id, principal: Who = None, org: Org = None, db: Db = None, url: Url = None, as_json: AsJson = False
) -> Exit:
    """Delete a session with its files and its state. Its records stay."""

    async def here(place: LocalSessions) -> None:
        await place.service.delete_session(place.caller, id)

    asked(url, lambda client: client.sessions.delete(id), here, db=db, org=org, principal=principal)
    if as_json:
        print_json({"deleted": id})
    return Exit.DONE


def _object(option: str, given: str | None) -> dict[str, Any] | None:  # JSON
    if given is None:
        return None
    try:
        value = from_json(given.encode(errors="surrogateescape"), allow_inf_nan=False)
    except ValueError as error:
        raise DefinitionError(
            f"{option} is not JSON: {error}", hint=f"""quote it: {option} '{{"tenant": "acme"}}'"""
        ) from None
    if not isinstance(value, dict):
        raise DefinitionError(f"{option} must be a JSON object; got {type(value).__name__}")
    return cast("dict[str, Any]", value)
