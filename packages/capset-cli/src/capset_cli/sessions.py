"""``capset sessions``: conversations, their state and the events of their turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer
from pydantic_core import from_json

from capset.errors import DefinitionError, counted
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.stores.base import SessionQuery
from capset.wire.sessions import (
    SessionPageShape,
    SessionShape,
    StateShape,
    session_page_shape,
    session_shape,
    state_shape,
)
from capset.wire.turns import EventShape, GapShape, event_shape
from capset_cli.common.actors import acting_here
from capset_cli.common.exits import Exit, guarded, needs_extra
from capset_cli.common.options import AsJson, Db, Who
from capset_cli.common.output import cell, err, out, pretty, print_json, short, table, verbatim
from capset_cli.common.remote import Url, ask, server_of
from capset_cli.common.settings import Settings, existing_db, load_settings

if TYPE_CHECKING:
    from capset_server.auth.callers import Caller
    from capset_server.client import Client
    from capset_server.service import Service


T = TypeVar("T")
Id = Annotated[str, typer.Argument(metavar="ID", help="The id of the session.")]
Org = Annotated[str | None, typer.Option("--org", help="The organisation of the principal.")]


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

    async def list_on_server(client: Client) -> SessionPageShape:
        return await client.sessions.list(agent_id=agent, limit=limit, cursor=cursor)

    async def list_locally(place: LocalSessions) -> SessionPageShape:
        owner = place.caller.principal
        query = SessionQuery(owner.org, owner.id, owner.kind, agent, limit, cursor, on_behalf_of=owner.on_behalf_of)
        return await session_page_shape(place.service.kernel.store.sessions, query)

    page = asked(url, list_on_server, list_locally, db=db, org=org, principal=principal)
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

    async def get_locally(place: LocalSessions) -> SessionShape:
        return session_shape(await place.service.session_row(place.caller, id))

    session = asked(url, lambda client: client.sessions.get(id), get_locally, db=db, org=org, principal=principal)
    return show(session, as_json=as_json)


@guarded
def state_command(
    id: Id, principal: Who = None, org: Org = None, db: Db = None, url: Url = None, as_json: AsJson = False
) -> Exit:
    """Show what the agent of a session exposes of its state and resources."""

    async def read_locally(place: LocalSessions) -> StateShape:
        session = await place.service.session(place.caller, id)
        return state_shape(await session.exposed())

    state = asked(url, lambda client: client.sessions.state(id), read_locally, db=db, org=org, principal=principal)
    document = state.model_dump(mode="json", exclude_unset=True)
    if as_json:
        print_json(document)
        return Exit.DONE
    out().print(verbatim(pretty(document)), soft_wrap=True)
    return Exit.DONE


@guarded
def events_command(
    id: Id,
    after: Annotated[int, typer.Option(min=0, max=10**15 - 1, help="The number of the last event that is known.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for those that are still to come.")] = False,
    principal: Who = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Print what was told of the turns of a session, an event a line."""

    async def print_remote_events(client: Client) -> None:
        async with client.sessions.events(id, after=after, follow=follow) as events:
            async for event in events:
                _print_event(event, as_json=as_json)

    async def print_local_events(place: LocalSessions) -> None:
        from capset_server.followers import Gap
        from capset_server.followers import follow as following

        await place.service.session_row(place.caller, id)
        bell = place.service.turns.bell
        async with aclosing(following(place.service.kernel, bell, id, after, waits=follow)) as events:
            async for event in events:
                gap = isinstance(event, Gap)
                _print_event(
                    GapShape(after=event.after, last=event.last) if gap else event_shape(event), as_json=as_json
                )

    asked(url, print_remote_events, print_local_events, db=db, org=org, principal=principal)
    return Exit.DONE


def show(session: SessionShape, *, as_json: bool) -> Exit:
    """Print one session."""
    if as_json:
        print_json(session.model_dump(mode="json"))
        return Exit.DONE
    for name, value in parts(session.plain()):
        out().print(f"{name:<16} {cell(value if isinstance(value, str) else pretty(value))}", soft_wrap=True)
    return Exit.DONE


def _row(session: SessionShape) -> list[str]:
    version = "–" if session.agent_version is None else str(session.agent_version)
    return [cell(session.id), cell(session.agent), version, short(session.static_hash), cell(session.created_at)]


def _print_event(event: EventShape | GapShape, *, as_json: bool) -> None:
    if as_json:
        print_json(event.model_dump(mode="json"))
    elif isinstance(event, GapShape):
        out().print(f"[dim]the events from {event.after + 1} to {event.last} are not kept any more[/]")
    else:
        details = " ".join(f"{name}={cell(str(value))}" for name, value in parts(event.data))
        out().print(f"{event.seq:>6} {cell(event.at)} {cell(event.type)} {details}", soft_wrap=True)


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
    options = {"invocation": _object("--invocation", invocation), "context": _object("--context", context)}

    async def create_on_server(client: Client) -> SessionShape:
        return await client.sessions.create(agent, **options)

    async def create_locally(place: LocalSessions) -> SessionShape:
        return session_shape(await place.service.new_session(place.caller, agent, **options))

    return show(
        asked(url, create_on_server, create_locally, db=db, org=org, principal=principal, makes=True), as_json=as_json
    )


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

    async def move_on_server(client: Client) -> SessionShape:
        return await client.sessions.move(id, to, version=expected)

    async def move_locally(place: LocalSessions) -> SessionShape:
        return session_shape(await place.service.move_session(place.caller, id, to, expected=expected))

    return show(asked(url, move_on_server, move_locally, db=db, org=org, principal=principal), as_json=as_json)


@guarded
def delete_command(
    id: Id, principal: Who = None, org: Org = None, db: Db = None, url: Url = None, as_json: AsJson = False
) -> Exit:
    """Delete a session with its files and its state. Its records stay."""

    async def delete_locally(place: LocalSessions) -> None:
        await place.service.delete_session(place.caller, id)

    asked(url, lambda client: client.sessions.delete(id), delete_locally, db=db, org=org, principal=principal)
    if as_json:
        print_json({"deleted": id})
    return Exit.DONE


@guarded
def fork_command(
    id: Id,
    turn: Annotated[str | None, typer.Option(help="The turn to end with; the newest, if left out.")] = None,
    principal: Who = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Start a session like this one, with its conversation up to the end of a turn; files and state are not copied."""

    async def fork_locally(place: LocalSessions) -> SessionShape:
        return session_shape(await place.service.fork_session(place.caller, id, turn))

    forked = asked(
        url, lambda client: client.sessions.fork(id, turn), fork_locally, db=db, org=org, principal=principal
    )
    return show(forked, as_json=as_json)


@guarded
def rewind_command(
    id: Id,
    turn: Annotated[str, typer.Argument(metavar="TURN", help="The turn that is taken back, with all after it.")],
    principal: Who = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Take the conversation of a session back to before a turn. What the turns have done stays done."""

    async def rewind_locally(place: LocalSessions) -> int:
        return await place.service.rewind_session(place.caller, id, turn)

    removed = asked(
        url, lambda client: client.sessions.rewind(id, turn), rewind_locally, db=db, org=org, principal=principal
    )
    if as_json:
        print_json({"removed": removed})
    else:
        out().print(f"{counted(removed, 'message')} removed")
    return Exit.DONE


def _object(option: str, text: str | None) -> dict[str, Any] | None:  # JSON
    if text is None:
        return None
    try:
        value = from_json(text.encode(errors="surrogateescape"), allow_inf_nan=False)
    except ValueError as error:
        raise DefinitionError(
            f"{option} is not JSON: {error}", hint=f"""quote it: {option} '{{"tenant": "acme"}}'"""
        ) from None
    if not isinstance(value, dict):
        raise DefinitionError(f"{option} must be a JSON object; got {type(value).__name__}")
    return cast("dict[str, Any]", value)


@dataclass(frozen=True, slots=True)
class LocalSessions:
    """A local database under the rules of a server, and the owner of the sessions in it."""

    service: Service
    caller: Caller


def asked(
    url: str | None,
    on_server: Callable[[Client], Awaitable[T]],
    locally: Callable[[LocalSessions], Awaitable[T]],
    *,
    db: str | None,
    org: str | None,
    principal: str | None,
    makes: bool = False,
) -> T:
    """Return the answer of a server, or else of a local database; with ``makes``, that may be created."""
    server = server_of(url, db=db, org=org, principal=principal)
    if server is not None:
        return ask(server, on_server)
    needs_extra("server", "starlette")
    settings = load_settings(db=db, principal=principal)
    if not makes:
        existing_db(settings.db)
    return asyncio.run(_here(settings, org, locally))


async def _here(settings: Settings, org: str | None, work: Callable[[LocalSessions], Awaitable[T]]) -> T:
    from capset_server.auth.callers import Caller  # a cost only for local work
    from capset_server.service import Service

    actor = replace(settings.principal, org=org)
    async with Kernel(store=settings.db, redis=settings.redis) as kernel:
        service = Service(kernel, Registry.installed(), env=settings.env)
        with acting_here(actor):
            return await work(LocalSessions(service, Caller(actor, frozenset({"capset:admin"}), None)))


def parts(members: dict[str, Any]) -> list[tuple[str, Any]]:  # JSON
    """Return the members of an object that are not null."""
    return [(name, value) for name, value in members.items() if value is not None]
