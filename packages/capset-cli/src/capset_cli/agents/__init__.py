"""``capset agents``: the agents of an organisation, in a database or on a server.

Here are ``list``, ``show``, ``create``, ``change``, ``archive`` and ``rollback``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import typer
from pydantic_core import from_json

from capset.errors import DefinitionError, unknown
from capset.stores.base import AGENT_FIELDS, AgentStatus
from capset.wire.agents import AgentDetail
from capset_cli.administration import administer
from capset_cli.agents.inputs import Expected, Id, Org, Writer, read_input
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Db, read_object
from capset_cli.common.output import cell, err, out, pretty, print_json, short, table, verbatim
from capset_cli.common.remote import Url

if TYPE_CHECKING:
    from capset_cli.administration import Admin


_SHOWN: Final = ("id", "name", "version", "status", "read_only", "static_hash", "description", "model", "tags")
_TEXTS: Final = tuple(field.name for field in AGENT_FIELDS if field.name not in _SHOWN)
_TIMES: Final = ("created_at", "updated_at", "author")

Patch = Annotated[
    str, typer.Argument(metavar="PATCH", help="A JSON merge patch (null clears), @FILE with one, or - for stdin.")
]


@guarded
def list_command(
    status: Annotated[str | None, typer.Option(help="Only agents of this status: active or archived.")] = None,
    name: Annotated[str | None, typer.Option(help="Only agents of this name.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many agents.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended.")] = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """List agents: those that are installed, then the stored ones, newest first."""
    agent_status = _status(status)
    page = administer(
        url,
        lambda admin: admin.agents.list(status=agent_status, name=name, limit=limit, cursor=cursor),
        db=db,
        org=org,
    )
    if as_json:
        print_json(page.plain())
        return Exit.DONE
    columns = ("ID", "NAME", "VERSION", "STATUS", "HASH", "CAPABILITIES")
    out().print(table(*columns, rows=map(_row, page.items), folds=("NAME", "CAPABILITIES")))
    if page.next is not None:
        err().print(f"[dim]more: --cursor {cell(page.next)}[/]")
    return Exit.DONE


@guarded
def show_command(
    id: Id,
    number: Annotated[int | None, typer.Option("--version", min=1, help="As it was in this version.")] = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Show one agent, as it is or as it was."""

    async def read(admin: Admin) -> AgentDetail:
        return await (admin.agents.get(id) if number is None else admin.agents.version(id, number))

    show(administer(url, read, db=db, org=org), as_json=as_json)
    return Exit.DONE


def show(agent: AgentDetail, *, as_json: bool) -> None:
    """Print one agent and its warnings."""
    fields = agent.plain()
    if as_json:
        print_json(fields)
        return
    for notice in agent.notices:
        err().print(f"[yellow]notice:[/] {verbatim(notice)}", soft_wrap=True)
    for name in (*_SHOWN, *_TIMES, *_TEXTS):
        value = fields.get(name)
        if value not in (None, "", [], False):
            text = value if isinstance(value, str) else pretty(value)
            out().print(f"{name:<14} {cell(text) if name in _SHOWN else verbatim(text)}", soft_wrap=True)


def _row(agent: AgentDetail) -> list[str]:
    ids = ", ".join(entry.id for entry in agent.capability_entries)
    texts = (agent.id, agent.name, str(agent.version), agent.status)
    return [*map(cell, texts), short(agent.static_hash), cell(ids or "–")]


def _status(named: str | None) -> AgentStatus | None:
    if named is None:
        return None
    for status in get_args(AgentStatus):
        if named == status:
            return status
    raise DefinitionError(unknown("status", named, get_args(AgentStatus)))


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
    agent_input = read_input(file)
    created = administer(
        url, lambda admin: admin.agents.create(agent_input), db=db, org=org, creates=True, principal=principal
    )
    if as_json:
        show(created, as_json=True)
    else:
        print(created.id, flush=True)
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
    changes = _patch(patch)
    changed = administer(
        url, lambda admin: admin.agents.change(id, changes, version=expected), db=db, org=org, principal=principal
    )
    return _print_agent(changed, as_json=as_json)


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
    """Archive an agent: it takes no new sessions; those that it has can only be read; its versions stay."""
    archived = administer(
        url,
        lambda admin: admin.agents.change(id, {"status": "archived"}, version=expected),
        db=db,
        org=org,
        principal=principal,
    )
    return _print_agent(archived, as_json=as_json)


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
    changed = administer(
        url, lambda admin: admin.agents.rollback(id, to, version=expected), db=db, org=org, principal=principal
    )
    return _print_agent(changed, as_json=as_json)


def _patch(text: str) -> dict[str, Any]:  # JSON
    return from_json(read_object("PATCH", text))


def _print_agent(agent: AgentDetail, *, as_json: bool) -> Exit:
    if as_json:
        show(agent, as_json=True)
    else:
        out().print(f"{cell(agent.name)} {cell(agent.id)} has version {agent.version} ({agent.status})", soft_wrap=True)
    return Exit.DONE
