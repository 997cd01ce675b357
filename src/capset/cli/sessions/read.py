"""``capset sessions list``, ``show``, ``state`` and ``events``."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer

from capset.cli.common.exits import Exit, guarded
from capset.cli.common.options import AsJson, Db, Who
from capset.cli.common.output import cell, err, out, pretty, print_json, short, table, verbatim
from capset.cli.common.remote import Url
from capset.cli.sessions.target import Id, LocalSessions, Org, asked, parts
from capset.stores.base import SessionQuery
from capset.wire.sessions import SessionPageShape, SessionShape, StateShape, session_shape, state_shape
from capset.wire.turns import EventShape, GapShape, event_shape

if TYPE_CHECKING:
    from capset.client import Client


@guarded
def list_command(
    agent: Annotated[str | None, typer.Option(help="Only sessions of the agent of this id.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many sessions.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended.")] = None,
    principal: Who = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """List the sessions of a principal, the newest first."""

    async def there(client: Client) -> SessionPageShape:
        return await client.sessions.list(agent_id=agent, limit=limit, cursor=cursor)

    async def here(place: LocalSessions) -> SessionPageShape:
        who = place.caller.principal
        query = SessionQuery(who.org, who.id, who.kind, agent, limit, cursor)
        page = await place.service.kernel.store.sessions.list(query)
        return SessionPageShape(items=[session_shape(row) for row in page.items], next=page.next)

    page = asked(url, there, here, db=db, org=org, principal=principal)
    if as_json:
        print_json(page.plain())
        return Exit.DONE
    columns = ("ID", "AGENT", "VERSION", "HASH", "CREATED")
    out().print(table(*columns, rows=map(_row, page.items), folds=("AGENT",)))
    if page.next is not None:
        err().print(f"[dim]more: --cursor {cell(page.next)}[/]")
    return Exit.DONE


@guarded
def show_command(
    id: Id, principal: Who = None, org: Org = None, db: Db = None, url: Url = None, as_json: AsJson = False
) -> Exit:
    """Show one session."""

    async def here(place: LocalSessions) -> SessionShape:
        return session_shape(await place.service.session_row(place.caller, id))

    there = asked(url, lambda client: client.sessions.get(id), here, db=db, org=org, principal=principal)
    return show(there, as_json=as_json)


@guarded
def state_command(
    id: Id, principal: Who = None, org: Org = None, db: Db = None, url: Url = None, as_json: AsJson = False
) -> Exit:
    """Show what the agent of a session exposes of its state and resources."""

    async def here(place: LocalSessions) -> StateShape:
        session = await place.service.session(place.caller, id)
        return state_shape(await session.exposed())

    found = asked(url, lambda client: client.sessions.state(id), here, db=db, org=org, principal=principal)
    told = found.model_dump(mode="json", exclude_unset=True)
    if as_json:
        print_json(told)
        return Exit.DONE
    out().print(verbatim(pretty(told)), soft_wrap=True)
    return Exit.DONE


@guarded
def events_command(
    id: Id,
    after: Annotated[int, typer.Option(min=0, help="The number of the last event that is known.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for those that are still to come.")] = False,
    principal: Who = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Print what was told of the turns of a session, an event a line."""

    async def there(client: Client) -> None:
        async with client.sessions.events(id, after=after, follow=follow) as events:
            async for one in events:
                _tell(one, as_json=as_json)

    async def here(place: LocalSessions) -> None:
        from capset.server.turns import Gap
        from capset.server.turns import follow as following

        await place.service.session_row(place.caller, id)
        bell = place.service.turns.bell
        async with aclosing(following(place.service.kernel, bell, id, after, waits=follow)) as events:
            async for one in events:
                gap = isinstance(one, Gap)
                _tell(GapShape(after=one.after, last=one.last) if gap else event_shape(one), as_json=as_json)

    asked(url, there, here, db=db, org=org, principal=principal)
    return Exit.DONE


def show(found: SessionShape, *, as_json: bool) -> Exit:
    """Print one session."""
    if as_json:
        print_json(found.model_dump(mode="json"))
        return Exit.DONE
    for name, value in parts(found.plain()):
        out().print(f"{name:<16} {cell(value if isinstance(value, str) else pretty(value))}", soft_wrap=True)
    return Exit.DONE


def _row(one: SessionShape) -> list[str]:
    version = "–" if one.agent_version is None else str(one.agent_version)
    return [cell(one.id), cell(one.agent), version, short(one.static_hash), cell(one.created_at)]


def _tell(one: EventShape | GapShape, *, as_json: bool) -> None:
    if as_json:
        print_json(one.model_dump(mode="json"))
    elif isinstance(one, GapShape):
        out().print(f"[dim]the events from {one.after + 1} to {one.last} are not kept any more[/]")
    else:
        told = " ".join(f"{name}={cell(str(value))}" for name, value in parts(one.data))
        out().print(f"{one.seq:>6} {cell(one.at)} {cell(one.type)} {told}", soft_wrap=True)
