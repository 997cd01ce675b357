"""``capset agents create``, ``change``, ``archive`` and ``rollback``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic_core import from_json

from capset.adapters.agents.wire import detail_of
from capset.cli.agents.read import show
from capset.cli.agents.target import Expected, Id, LocalAgents, Org, Writer, asked, read_input
from capset.cli.common.exits import Exit, guarded
from capset.cli.common.options import AsJson, Db, read_object
from capset.cli.common.output import cell, out
from capset.cli.common.remote import Url
from capset.stores.base import AgentRow
from capset.wire.agents import AgentDetail

if TYPE_CHECKING:
    from capset.client import Client

Patch = Annotated[
    str, typer.Argument(metavar="PATCH", help="A JSON merge patch (null clears), @FILE with one, or - for stdin.")
]


@guarded
def create_command(
    file: Annotated[
        Path, typer.Argument(help="An agent file (YAML, JSON or TOML); it may have tags and a status too.")
    ],
    principal: Writer = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Keep a new agent, and print its id. Every capability that cannot be had is named, and nothing is kept then."""
    given = read_input(file)

    async def here(place: LocalAgents) -> AgentDetail:
        return _detail(place, await place.agents.create(place.org, given, author=place.author))

    made = asked(url, lambda client: client.agents.create(given), here, db=db, org=org, makes=True, principal=principal)
    if as_json:
        show(made, as_json=True)
    else:
        print(made.id, flush=True)
    return Exit.DONE


@guarded
def change_command(
    id: Id,
    patch: Patch,
    expected: Expected = None,
    principal: Writer = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Change an agent by a JSON merge patch, whole or not at all. Every change makes a version."""
    given = _patch(patch)

    async def there(client: Client) -> AgentDetail:
        return await client.agents.change(id, given, version=expected)

    async def here(place: LocalAgents) -> AgentDetail:
        row = await place.agents.change(place.org, id, given, author=place.author, version=expected)
        return _detail(place, row)

    return _told(asked(url, there, here, db=db, org=org, principal=principal), as_json=as_json)


@guarded
def archive_command(
    id: Id,
    expected: Expected = None,
    principal: Writer = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Archive an agent: it takes no new sessions; those that it has stay, and so do its versions."""

    async def there(client: Client) -> AgentDetail:
        return await client.agents.change(id, {"status": "archived"}, version=expected)

    async def here(place: LocalAgents) -> AgentDetail:
        archived = {"status": "archived"}
        return _detail(place, await place.agents.change(place.org, id, archived, author=place.author, version=expected))

    return _told(asked(url, there, here, db=db, org=org, principal=principal), as_json=as_json)


@guarded
def rollback_command(
    id: Id,
    to: Annotated[int, typer.Argument(metavar="VERSION", min=1, help="The version whose content is written again.")],
    expected: Expected = None,
    principal: Writer = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Write again what a version said, but for its status, as the next one. It is checked as every change is."""

    async def there(client: Client) -> AgentDetail:
        return await client.agents.rollback(id, to, version=expected)

    async def here(place: LocalAgents) -> AgentDetail:
        row = await place.agents.rollback(place.org, id, to, author=place.author, version=expected)
        return _detail(place, row)

    return _told(asked(url, there, here, db=db, org=org, principal=principal), as_json=as_json)


def _patch(given: str) -> dict[str, Any]:  # JSON
    return from_json(read_object("PATCH", given))


def _detail(place: LocalAgents, row: AgentRow) -> AgentDetail:
    return detail_of(place.kernel, place.agents.loaded(row))


def _told(found: AgentDetail, *, as_json: bool) -> Exit:
    if as_json:
        show(found, as_json=True)
    else:
        out().print(f"{cell(found.name)} {cell(found.id)} has version {found.version} ({found.status})", soft_wrap=True)
    return Exit.DONE
