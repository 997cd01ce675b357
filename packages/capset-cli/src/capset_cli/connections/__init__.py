"""``capset connections``: what is connected, and what others may use it for (spec 11, V31)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from capset.wire.connections import ConnectionShape, CredentialShape, DelegationShape
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Db, Who, read_object
from capset_cli.common.output import cell, out, print_json, print_page, print_table
from capset_cli.common.remote import Url
from capset_cli.connections.access import ConnectionName, DeclaringFile, use_connections

if TYPE_CHECKING:
    from capset_cli.connections.access import Connections


@guarded
def list_command(
    agent: DeclaringFile = None, principal: Who = None, db: Db = None, url: Url = None, as_json: AsJson = False
) -> Exit:
    """List what you can connect, and what is connected."""
    connections = use_connections(
        lambda connections: connections.list(), agent=agent, principal=principal, db=db, url=url
    )
    if as_json:
        print_json(connections.plain())
        return Exit.DONE
    columns = ("NAME", "STATE", "BY", "USED BY", "LAST USE")
    print_table(
        columns, map(_connection_row, connections.items), folds=("STATE", "USED BY"), empty="no server has auth: user"
    )
    return Exit.DONE


@guarded
def disconnect_command(
    name: ConnectionName, agent: DeclaringFile = None, principal: Who = None, db: Db = None, url: Url = None
) -> Exit:
    """Delete your credential, and revoke it at the provider. Calls that need it wait until you connect again."""
    is_revoked = use_connections(
        lambda connections: connections.disconnect(name), agent=agent, principal=principal, db=db, url=url
    )
    out().print(f"{cell(name)} is disconnected{_at_provider(is_revoked)}")
    return Exit.DONE


@guarded
def credentials_command(
    limit: Annotated[int, typer.Option(min=1, max=200, help="The maximum number of credentials.")] = 50,
    before: Annotated[str | None, typer.Option(help="Only credentials before the one with this id.")] = None,
    agent: DeclaringFile = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """List the credentials of an organisation, newest first, without their values; for administrators."""
    page = use_connections(
        lambda connections: connections.credentials(limit=limit, cursor=before),
        agent=agent,
        principal=None,
        db=db,
        url=url,
    )
    columns = ("ID", "PRINCIPAL", "CONNECTION", "BY", "LAST USE", "PROBLEM")
    rows = map(_credential_row, page.items)
    print_page(page, columns, rows, folds=("PROBLEM",), as_json=as_json, empty="no user has connected anything")
    return Exit.DONE


@guarded
def revoke_command(
    id: Annotated[str, typer.Argument(metavar="ID", help="The id of a credential.")],
    agent: DeclaringFile = None,
    db: Db = None,
    url: Url = None,
) -> Exit:
    """Delete a credential of another principal, and revoke it at the provider; for administrators."""
    is_revoked = use_connections(
        lambda connections: connections.revoke(id), agent=agent, principal=None, db=db, url=url
    )
    out().print(f"{cell(id)} is deleted{_at_provider(is_revoked)}")
    return Exit.DONE


@guarded
def delegate_command(
    name: ConnectionName,
    delegate: Annotated[str, typer.Argument(metavar="PRINCIPAL", help="The other principal, such as agent:helper.")],
    tool: Annotated[
        list[str] | None, typer.Option("--tool", help="A tool that it may call; may be repeated. All, if left out.")
    ] = None,
    arguments: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="A JSON Schema for each restricted argument; @FILE reads a file and - reads stdin."
        ),
    ] = None,
    until: Annotated[datetime | None, typer.Option(help="The end, in local time. None, if left out.")] = None,
    agent: DeclaringFile = None,
    principal: Who = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Let another principal, when it acts for you, use a connection of yours."""
    allowed = None if arguments is None else read_object("--arguments", arguments)
    end = None if until is None else until.astimezone()

    async def add(connections: Connections) -> DelegationShape:
        return await connections.delegate(name, delegate, tools=tool or (), arguments=allowed, until=end)

    delegation = use_connections(add, agent=agent, principal=principal, db=db, url=url)
    if as_json:
        print_json(delegation.plain())
    else:
        print(delegation.id, flush=True)
    return Exit.DONE


@guarded
def delegations_command(
    limit: Annotated[int, typer.Option(min=1, max=200, help="The maximum number of delegations.")] = 50,
    before: Annotated[str | None, typer.Option(help="Only delegations before the one with this id.")] = None,
    agent: DeclaringFile = None,
    principal: Who = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """List what you let others use your connections for, newest first."""
    page = use_connections(
        lambda connections: connections.delegations(limit=limit, cursor=before),
        agent=agent,
        principal=principal,
        db=db,
        url=url,
    )
    columns = ("ID", "CONNECTION", "PRINCIPAL", "TOOLS", "UNTIL")
    rows = map(_delegation_row, page.items)
    print_page(page, columns, rows, folds=("TOOLS",), as_json=as_json, empty="you let no other principal use any")
    return Exit.DONE


@guarded
def end_command(
    id: Annotated[str, typer.Argument(metavar="ID", help="The id of a delegation.")],
    agent: DeclaringFile = None,
    principal: Who = None,
    db: Db = None,
    url: Url = None,
) -> Exit:
    """End a delegation. The next call that needs it is refused."""
    use_connections(
        lambda connections: connections.end_delegation(id), agent=agent, principal=principal, db=db, url=url
    )
    out().print(f"{cell(id)} is ended")
    return Exit.DONE


def _at_provider(is_revoked: bool) -> str:
    return ", and revoked at the provider" if is_revoked else ""


def _connection_row(connection: ConnectionShape) -> list[str]:
    problem = connection.problem or (connection.missing_scopes and f"lacks {', '.join(connection.missing_scopes)}")
    state = "connected" if connection.usable else f"connect again: {problem}" if problem else "not connected"
    used_by = ", ".join(connection.servers)
    return list(
        map(cell, (connection.name, state, connection.provider or connection.kind, used_by, connection.used_at or "–"))
    )


def _credential_row(credential: CredentialShape) -> list[str]:
    texts = (credential.id, credential.principal, credential.connection, credential.kind, credential.used_at or "–")
    return list(map(cell, (*texts, credential.problem or "")))


def _delegation_row(delegation: DelegationShape) -> list[str]:
    tools = ", ".join(delegation.tools) or "all"
    restricted = " with certain arguments" if delegation.arguments else ""
    return list(
        map(
            cell,
            (delegation.id, delegation.connection, delegation.delegate, tools + restricted, delegation.until or "–"),
        )
    )
