"""``capset agents``: the agents of an organisation, in a database or on a server.

This module has ``list``, ``show``, ``create``, ``change``, ``archive`` and ``rollback``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, get_args

import typer

from capset.stores.base import AGENT_FIELDS, AgentStatus
from capset.wire.agents import AgentDetail
from capset_cli.administration import administer
from capset_cli.agents.inputs import Expected, Id, Org, Writer, read_input
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Db, parse_choice, read_object
from capset_cli.common.output import cell, err, escaped, out, pretty, print_json, print_page, short_hash
from capset_cli.common.remote import Url

if TYPE_CHECKING:
    from capset_cli.administration import Admin


_SHOWN: Final = ("id", "name", "version", "status", "read_only", "static_hash", "description", "model", "tags")
_TEXTS: Final = tuple(field.name for field in AGENT_FIELDS if field.name not in _SHOWN)
_TIMES: Final = ("created_at", "updated_at", "author")

Patch = Annotated[
    str,
    typer.Argument(
        metavar="PATCH", help="A JSON merge patch (null clears a field), @FILE to read a file, or - for stdin."
    ),
]


@guarded
def list_command(
    status: Annotated[str | None, typer.Option(help="Only agents with this status: active or archived.")] = None,
    name: Annotated[str | None, typer.Option(help="Only agents with this name.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="The maximum number of agents.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="The cursor of the previous page, to continue after it.")] = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """List agents: the installed ones, then the stored ones, newest first."""
    agent_status: AgentStatus | None = parse_choice("status", status, get_args(AgentStatus))
    page = administer(
        url,
        lambda admin: admin.agents.list(status=agent_status, name=name, limit=limit, cursor=cursor),
        db=db,
        org=org,
    )
    columns = ("ID", "NAME", "VERSION", "STATUS", "HASH", "CAPABILITIES")
    print_page(
        page,
        columns,
        map(_row, page.items),
        folds=("NAME", "CAPABILITIES"),
        as_json=as_json,
        empty="no agents match: capset agents create FILE stores one; packages bring others",
        option="--cursor",
    )
    return Exit.DONE


@guarded
def show_command(
    id: Id,
    number: Annotated[
        int | None, typer.Option("--version", min=1, help="Show this version instead of the current one.")
    ] = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Show an agent, in its current or an earlier version."""

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
        err().print(f"[yellow]notice:[/] {escaped(notice)}", soft_wrap=True)
    for name in (*_SHOWN, *_TIMES, *_TEXTS):
        value = fields.get(name)
        if value not in (None, "", [], False):
            text = value if isinstance(value, str) else pretty(value)
            out().print(f"{name:<14} {cell(text) if name in _SHOWN else escaped(text)}", soft_wrap=True)


def _row(agent: AgentDetail) -> list[str]:
    ids = ", ".join(entry.id for entry in agent.capability_entries)
    texts = (agent.id, agent.name, str(agent.version), agent.status)
    return [*map(cell, texts), short_hash(agent.static_hash), cell(ids or "–")]


@guarded
def create_command(
    file: Annotated[
        Path, typer.Argument(help="A file (YAML, JSON or TOML) with an agent, which may also have tags and a status.")
    ],
    principal: Writer = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Store a new agent, and print its id. If capabilities are not available, all are named, and nothing is stored."""
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
    """Apply a JSON merge patch to an agent, completely or not at all. Every change creates a version."""
    changes = read_object("PATCH", patch)
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
    """Archive an agent. It accepts no new sessions, its sessions become read-only, and its versions stay."""
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
    to: Annotated[int, typer.Argument(metavar="VERSION", min=1, help="The version to restore.")],
    expected: Expected = None,
    principal: Writer = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Restore the content of a version, except its status, as a new version. It is validated like every change."""
    changed = administer(
        url, lambda admin: admin.agents.rollback(id, to, version=expected), db=db, org=org, principal=principal
    )
    return _print_agent(changed, as_json=as_json)


def _print_agent(agent: AgentDetail, *, as_json: bool) -> Exit:
    if as_json:
        show(agent, as_json=True)
    else:
        out().print(f"{cell(agent.name)} {cell(agent.id)} has version {agent.version} ({agent.status})", soft_wrap=True)
    return Exit.DONE
