"""``capset connect``: connect a server, so that calls act with the principal's own credential (spec 11, V31)."""

from __future__ import annotations

import asyncio
import getpass
import sys
import webbrowser
from typing import TYPE_CHECKING, Annotated, Final

import typer

from capset.errors import DefinitionError
from capset.wire.connections import ConnectionShape
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Db, Who
from capset_cli.common.output import cell, err, out, print_json
from capset_cli.common.remote import Url
from capset_cli.connections.access import ConnectionName, DeclaringFile, use_connections
from capset_cli.connections.loopback import loopback

if TYPE_CHECKING:
    from capset_cli.connections.access import Connections

_POLL_SECONDS: Final = 1.0
_SECONDS: Final = 600.0
"""How long the command waits for the user: as long as an authorization lasts."""


@guarded
def connect_command(
    name: ConnectionName,
    agent: DeclaringFile = None,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="The port on this machine to which the provider redirects; 0: any.")
    ] = 0,
    browser: Annotated[bool, typer.Option(help="Open the provider's page in a browser.")] = True,
    principal: Who = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Connect a server, so that its tools act as you: enter a key, or grant access at the provider.

    A key is read from stdin, without echo on a terminal. Calls that wait for the connection continue.
    """

    async def connect(connections: Connections) -> ConnectionShape:
        connection = await connections.get(name)
        if connection.kind == "key":
            return await connections.enter_key(connection.name, _read_key(connection))
        async with asyncio.timeout(_SECONDS):
            return await _authorize(connections, connection, port, opens_browser=browser)

    try:
        connection = use_connections(connect, agent=agent, principal=principal, db=db, url=url)
    except TimeoutError:
        raise DefinitionError(f"{name} was not connected within {_SECONDS / 60:.0f} minutes") from None
    if as_json:
        print_json(connection.plain())
    else:
        out().print(f"{cell(connection.name)} is connected", soft_wrap=True)
    return Exit.DONE


def _read_key(connection: ConnectionShape) -> str:
    """Return the key that the user enters; never an argument, which other users of the machine can see."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().strip()
    return getpass.getpass(f"Your key for {connection.name}: ").strip()


async def _authorize(
    connections: Connections, connection: ConnectionShape, port: int, *, opens_browser: bool
) -> ConnectionShape:
    from capset_cli.administration.connections import LocalConnections

    if isinstance(connections, LocalConnections):
        async with loopback(port) as (redirect_uri, redirected):
            page = await connections.authorize(connection.name, redirect_uri)
            redirect = redirected(page)
            await _show(page, opens_browser=opens_browser)
            return await connections.complete(await redirect)
    await _show(await connections.authorize(connection.name), opens_browser=opens_browser)
    while True:  # the browser completes it at the server
        await asyncio.sleep(_POLL_SECONDS)
        current = await connections.get(connection.name)
        if current.usable and current.id != connection.id:
            return current


async def _show(page: str, *, opens_browser: bool) -> None:
    err().print(f"[dim]grant access at[/] {cell(page)}", soft_wrap=True)
    if opens_browser:
        await asyncio.to_thread(webbrowser.open, page)
