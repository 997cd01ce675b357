"""``capset sessions``: conversations, their state and the events of their turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from capset.errors import counted
from capset.wire.sessions import SessionShape
from capset.wire.turns import EventShape, GapShape
from capset_cli.administration import administer
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Db, Who, parse_object
from capset_cli.common.output import cell, escaped, out, pretty, print_json, print_page, short_hash
from capset_cli.common.remote import Url

if TYPE_CHECKING:
    from capset_cli.administration import Admin

Id = Annotated[str, typer.Argument(metavar="ID", help="The id of the session.")]
Org = Annotated[str | None, typer.Option("--org", help="The organisation of the principal.")]


@guarded
def list_command(
    agent: Annotated[str | None, typer.Option(help="Only sessions of the agent with this id.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="The maximum number of sessions.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="The cursor of the previous page, to continue after it.")] = None,
    principal: Who = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """List the sessions of a principal, newest first."""
    page = administer(
        url,
        lambda admin: admin.sessions.list(agent_id=agent, limit=limit, cursor=cursor),
        db=db,
        org=org,
        principal=principal,
    )
    columns = ("ID", "AGENT", "VERSION", "HASH", "CREATED")
    print_page(
        page,
        columns,
        map(_row, page.items),
        folds=("AGENT",),
        as_json=as_json,
        empty="this principal has no sessions: capset run, chat and call begin one; --principal names another one",
        option="--cursor",
    )
    return Exit.DONE


@guarded
def show_command(
    id: Id, principal: Who = None, org: Org = None, db: Db = None, url: Url = None, as_json: AsJson = False
) -> Exit:
    """Show one session."""
    session = administer(url, lambda admin: admin.sessions.get(id), db=db, org=org, principal=principal)
    return show(session, as_json=as_json)


@guarded
def state_command(
    id: Id, principal: Who = None, org: Org = None, db: Db = None, url: Url = None, as_json: AsJson = False
) -> Exit:
    """Show the state and resources that a session's agent exposes."""
    state = administer(url, lambda admin: admin.sessions.state(id), db=db, org=org, principal=principal)
    document = state.model_dump(mode="json", exclude_unset=True)
    if as_json:
        print_json(document)
        return Exit.DONE
    out().print(escaped(pretty(document)), soft_wrap=True)
    return Exit.DONE


@guarded
def events_command(
    id: Id,
    after: Annotated[int, typer.Option(min=0, max=10**15 - 1, help="Only events after the one with this number.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for further events.")] = False,
    principal: Who = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Print the events of a session's turns, one per line."""

    async def print_events(admin: Admin) -> None:
        async with admin.sessions.events(id, after=after, follow=follow) as events:
            async for event in events:
                _print_event(event, as_json=as_json)

    administer(url, print_events, db=db, org=org, principal=principal)
    return Exit.DONE


def show(session: SessionShape, *, as_json: bool) -> Exit:
    """Print one session."""
    if as_json:
        print_json(session.model_dump(mode="json"))
        return Exit.DONE
    for name, value in non_null(session.plain()):
        out().print(f"{name:<16} {cell(value if isinstance(value, str) else pretty(value))}", soft_wrap=True)
    return Exit.DONE


def _row(session: SessionShape) -> list[str]:
    version = "–" if session.agent_version is None else str(session.agent_version)
    return [cell(session.id), cell(session.agent), version, short_hash(session.static_hash), cell(session.created_at)]


def _print_event(event: EventShape | GapShape, *, as_json: bool) -> None:
    if as_json:
        print_json(event.model_dump(mode="json"))
    elif isinstance(event, GapShape):
        out().print(f"[dim]the events {event.after + 1} to {event.last} are no longer stored[/]")
    else:
        details = " ".join(f"{name}={cell(str(value))}" for name, value in non_null(event.data))
        out().print(f"{event.seq:>6} {cell(event.at)} {cell(event.type)} {details}", soft_wrap=True)


@guarded
def create_command(
    agent: Annotated[
        str, typer.Argument(metavar="AGENT", help="The id of a stored agent, or the name of one in code.")
    ],
    invocation: Annotated[
        str | None, typer.Option(metavar="JSON", help="Whom the session is for; only a hash of this is stored.")
    ] = None,
    context: Annotated[
        str | None, typer.Option(metavar="JSON", help="Data to store with the session and its links, without secrets.")
    ] = None,
    principal: Who = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Start a session with the current version of an agent."""
    options = {
        "invocation": _parse_optional_object("--invocation", invocation),
        "context": _parse_optional_object("--context", context),
    }
    session = administer(
        url,
        lambda admin: admin.sessions.create(agent, **options),
        db=db,
        org=org,
        principal=principal,
        creates=True,
    )
    return show(session, as_json=as_json)


@guarded
def move_command(
    id: Id,
    to: Annotated[
        int | None, typer.Option(min=1, help="The agent's version to move to; by default the current one.")
    ] = None,
    expected: Annotated[
        int | None, typer.Option("--if-version", min=1, help="Only if the session has this version of its agent now.")
    ] = None,
    principal: Who = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Move a session to another version of its agent. Its files and its state stay."""
    session = administer(
        url, lambda admin: admin.sessions.move(id, to, version=expected), db=db, org=org, principal=principal
    )
    return show(session, as_json=as_json)


@guarded
def delete_command(
    id: Id, principal: Who = None, org: Org = None, db: Db = None, url: Url = None, as_json: AsJson = False
) -> Exit:
    """Delete a session with its files and its state. Its records stay."""
    administer(url, lambda admin: admin.sessions.delete(id), db=db, org=org, principal=principal)
    if as_json:
        print_json({"deleted": id})
    return Exit.DONE


@guarded
def fork_command(
    id: Id,
    turn: Annotated[str | None, typer.Option(help="The last turn to copy; by default the newest.")] = None,
    principal: Who = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Start a session with a copy of this one's conversation up to the end of a turn, without its files and state."""
    forked = administer(url, lambda admin: admin.sessions.fork(id, turn), db=db, org=org, principal=principal)
    return show(forked, as_json=as_json)


@guarded
def rewind_command(
    id: Id,
    turn: Annotated[str, typer.Argument(metavar="TURN", help="The turn to remove, with all later ones.")],
    principal: Who = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Rewind a session's conversation to before a turn. The effects of the removed turns stay."""
    removed = administer(url, lambda admin: admin.sessions.rewind(id, turn), db=db, org=org, principal=principal)
    if as_json:
        print_json({"removed": removed})
    else:
        out().print(f"{counted(removed, 'message')} removed")
    return Exit.DONE


def _parse_optional_object(option: str, text: str | None) -> dict[str, Any] | None:  # JSON
    if text is None:
        return None
    return parse_object(option, text.encode(errors="surrogateescape"))


def non_null(members: dict[str, Any]) -> list[tuple[str, Any]]:  # JSON
    """Return the members of an object that are not null."""
    return [(name, value) for name, value in members.items() if value is not None]
