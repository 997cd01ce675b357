"""``capset agents versions``, ``diff`` and ``preview``: the versions of an agent, and previews of changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from capset.errors import DefinitionError
from capset.wire.agents import AgentDiffShape, PreviewShape, VersionShape
from capset.wire.diffs import ChangeShape
from capset_cli.administration import administer
from capset_cli.agents.inputs import Id, Org, read_input
from capset_cli.common.exits import Exit, guarded, ignoring_closed_pipe
from capset_cli.common.options import AsJson, Attribute, Db, Env, Grant, Who, read_object
from capset_cli.common.output import cell, err, escaped, out, print_json, print_page, short_hash
from capset_cli.common.remote import Url
from capset_cli.compose import tree_of
from capset_connect.plain_files import ENDINGS

if TYPE_CHECKING:
    from capset_cli.administration import Admin

_SIGNS: Final = {"added": ("+", "green"), "removed": ("-", "red")}


@guarded
def versions_command(
    id: Id,
    limit: Annotated[int, typer.Option(min=1, max=200, help="The maximum number of versions.")] = 50,
    before: Annotated[int | None, typer.Option(min=1, help="Only versions before this one.")] = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """List the versions of an agent, newest first: when each was written, and by whom."""
    cursor = None if before is None else str(before)
    page = administer(url, lambda admin: admin.agents.versions(id, limit=limit, cursor=cursor), db=db, org=org)
    columns = ("VERSION", "WRITTEN", "AUTHOR", "STATUS", "HASH", "NAME")
    print_page(
        page,
        columns,
        map(_row, page.items),
        folds=("AUTHOR", "NAME"),
        as_json=as_json,
        empty="no versions before this one: leave --before out for the newest",
    )
    return Exit.DONE


@guarded
def diff_command(
    id: Id,
    before: Annotated[int, typer.Argument(metavar="A", min=1, help="The first version.")],
    after: Annotated[
        int | None,
        typer.Argument(metavar="B", min=1, help="The version to compare it with; by default the current one."),
    ] = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 3 if they differ.")] = False,
    principal: Who = None,
    grant: Grant = None,
    attribute: Attribute = None,
    env: Env = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Compare two versions of an agent: the fields that changed, and the hashes and tools that changed with them."""
    diff = administer(
        url,
        lambda admin: admin.agents.diff(id, before, after),
        db=db,
        org=org,
        principal=principal,
        grant=grant,
        attribute=attribute,
        env=env,
    )
    with ignoring_closed_pipe():
        if as_json:
            print_json(diff.plain())
        else:
            _show_diff(diff)
    differs = bool(diff.fields) or diff.composition is None or diff.composition.differs
    return Exit.DIFFERENT if exit_code and differs else Exit.DONE


@guarded
def preview_command(
    agent: Annotated[
        str, typer.Argument(help="A file with an agent, the id of a stored agent, or the name of an installed one.")
    ],
    patch: Annotated[
        str | None,
        typer.Argument(metavar="[PATCH]", help="A JSON merge patch to apply, @FILE to read a file, or - for stdin."),
    ] = None,
    principal: Who = None,
    grant: Grant = None,
    attribute: Attribute = None,
    env: Env = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Preview an agent, or show everything that is wrong with it. Nothing is stored.

    Exits with 2 if anything is wrong.
    """
    path = Path(agent)
    agent_input = read_input(path) if path.suffix.lower() in ENDINGS else None
    if agent_input is not None and patch is not None:
        raise DefinitionError("a patch applies to a stored agent, not to a file", hint="edit the file instead")
    change: dict[str, Any] = {} if patch is None else read_object("PATCH", patch)

    async def preview_agent(admin: Admin) -> PreviewShape:
        if agent_input is None:
            return await admin.agents.preview_change(agent, change)
        return await admin.agents.preview(agent_input)

    preview = administer(
        url,
        preview_agent,
        db=db,
        org=org,
        stored=agent_input is None,
        principal=principal,
        grant=grant,
        attribute=attribute,
        env=env,
    )
    with ignoring_closed_pipe():
        if as_json:
            print_json(preview.plain())
        else:
            _show_preview(preview)
    return Exit.DONE if preview.valid else Exit.BAD_INPUT


def _row(version: VersionShape) -> list[str]:
    texts = (str(version.version), version.created_at or "in code", version.author or "–", version.status)
    return [*map(cell, texts), short_hash(version.static_hash), cell(version.name)]


def _show_diff(diff: AgentDiffShape) -> None:
    for notice in diff.notices:
        err().print(f"[yellow]notice:[/] {escaped(notice)}", soft_wrap=True)
    console = out()
    for line in _lines(diff):
        console.print(line, soft_wrap=True)


def _lines(diff: AgentDiffShape) -> Iterator[str]:
    yield f"[bold]version {diff.before} → {diff.after}[/]"
    yield from map(_change, diff.fields)
    if diff.composition is None:
        return
    for name, change in diff.composition.hashes.items():
        moved = f"[yellow]~ {name:<10} {short_hash(change.before)} → {short_hash(change.after)}[/]"
        yield moved if change.moved else f"[dim]= {name:<10} {short_hash(change.before)}[/]"
    tools = diff.composition.tools
    yield from (f"[green]+ tool {cell(tool.name)}[/]" for tool in tools.came)
    yield from (f"[red]- tool {cell(tool.name)}[/]" for tool in tools.went)
    yield from (f"[yellow]~ tool {cell(tool.name)}[/]" for tool in (*tools.changed, *tools.gated))


def _change(change: ChangeShape) -> str:
    sign, style = _SIGNS.get(change.kind, ("~", "yellow"))
    sides = [cell(_value(value)) for value in (change.before, change.after) if value is not None]
    return f"[{style}]{sign} {cell(change.path)}[/] {' → '.join(sides)}"


def _value(value: Any) -> str:  # JSON
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _show_preview(preview: PreviewShape) -> None:
    for field in preview.problems:
        meant = f" (did you mean {field.did_you_mean!r}?)" if field.did_you_mean else ""
        err().print(f"[red]error:[/] {escaped(f'{field.path}: {field.expected}{meant}')}", soft_wrap=True)
    for conflict in preview.conflicts:
        err().print(f"[red]error:[/] {escaped(conflict.message)}", soft_wrap=True)
        if conflict.hint:
            err().print(f"[dim]hint:[/]  {escaped(conflict.hint)}", soft_wrap=True)
    if preview.needs_admin:
        err().print(f"[yellow]notice:[/] only an administrator can enable {cell(', '.join(preview.needs_admin))}")
    if preview.snapshot is not None:
        out().print(tree_of(preview.snapshot))
