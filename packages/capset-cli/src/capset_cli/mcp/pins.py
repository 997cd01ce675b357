"""``capset mcp list``, ``diff``, ``approve`` and ``lock``: tools of MCP servers and APIs, and their approval."""

from __future__ import annotations

import asyncio
import difflib
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from capset.errors import DefinitionError, counted, unknown
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.stores.base.pins import ToolPin
from capset_cli.common.actors import local_actor
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Db, Who
from capset_cli.common.output import cell, err, escaped, out, print_json, print_table, short_hash
from capset_cli.common.remote import format_options
from capset_cli.common.settings import Settings, has_db, load_settings, require_db
from capset_cli.common.texts import one_line
from capset_cli.common.upstream import own_source_client
from capset_connect.config_file import read_configuration
from capset_connect.mcp.server import OF_AGENTS, McpServer
from capset_connect.pins.offers import described, hash_of, shown
from capset_connect.pins.tool_pins import (
    SeenSource,
    Standing,
    approve,
    as_declared,
    capability_with,
    check_names,
    look_at,
    shape_of,
    side_by_side,
    standings,
)
from capset_connect.plain_files import read_text
from capset_connect.sources import KEYS, Source

if TYPE_CHECKING:
    from capset_connect.pins.lock import Locked, LockImport

AgentFile = Annotated[Path, typer.Option("--agent", metavar="FILE", help="The configuration file that declares them.")]
_SOURCE: Final = "The name of a server, or api:NAME for an API, as the file declares it"
Server = Annotated[str, typer.Argument(metavar="SERVER", help=f"{_SOURCE}.")]


@guarded
def list_command(
    agent: AgentFile,
    principal: Who = None,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """List the tools of a file's MCP servers and APIs: those that they offer now, and those that were approved.

    It connects to every server, and reads every API's document. A tool is approved, changed since its approval, new,
    gone, or left out by its declaration. Exits with 1 if a server cannot be reached or a document cannot be read.
    """
    reports = query_sources(_declared_sources(agent), load_settings(db=db, principal=principal))
    if as_json:
        print_json(
            {
                "items": [_tool_data(report, tool) for report in reports for tool in report.tools],
                "problems": _problems(reports),
            }
        )
        return _exit_code(reports)
    rows = ([cell(text) for text in _row(report, tool)] for report in reports for tool in report.tools)
    columns = ("SERVER", "TOOL", "STATE", "HASH", "EFFECT", "APPROVED BY", "PROBLEMS")
    print_table(columns, rows, folds=("PROBLEMS",), empty="none of the servers and APIs offers a tool now")
    _warn(reports)
    return _exit_code(reports)


@guarded
def diff_command(
    agent: AgentFile,
    server: Annotated[str | None, typer.Argument(metavar="SERVER", help=f"{_SOURCE}; by default all.")] = None,
    principal: Who = None,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Compare the current descriptions of tools with the approved ones. Exits with 3 if anything differs.

    Invisible characters are escaped.
    """
    reports = query_sources(_declared_sources(agent, server), load_settings(db=db, principal=principal))
    changed = [(report, tool) for report in reports for tool in report.tools if tool.state != "approved"]
    if as_json:
        items = [_tool_data(report, tool) | _shapes(tool) for report, tool in changed]
        print_json({"items": items, "problems": _problems(reports)})
    else:
        _warn(reports)
        where = f"{shlex.quote(str(agent))}{format_options(db=db)}"
        for report, tool in changed:
            for line in _difference(report.source, tool, where):
                out().print(one_line(line), soft_wrap=True, highlight=False, markup=False)
    return Exit.DIFFERENT if changed and _exit_code(reports) is Exit.DONE else _exit_code(reports)


@guarded
def approve_command(
    server: Server,
    agent: AgentFile,
    tools: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOOL...", help="Tools by their original names, or NAME@HASH; by default all of them."),
    ] = None,
    principal: Who = None,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Approve tools of an MCP server or an API in their current form, on record. Review them with capset mcp diff.

    With NAME@HASH, a tool is approved only in the form that capset mcp diff showed. Tools whose descriptions have
    problems are approved only by name, and tools that cannot be called are never approved: without names, both are
    listed with the reasons. Tools that are gone, or left out by their declaration, lose their approval.
    """
    settings = load_settings(db=db, principal=principal)
    (declared,) = _declared_sources(agent, server)
    approved, left_out = asyncio.run(_approve(declared, settings, tools or None))
    if as_json:
        items = [
            {"server": server, "tool": approval.name, "hash": approval.offer and approval.offer.hash}
            for approval in approved
        ]
        unapproved = [{"server": server, "tool": tool.name, "problems": list(tool.problems)} for tool in left_out]
        print_json({"items": items, "left_out": unapproved})
        return Exit.DONE
    for tool in left_out:
        state = "stays unusable" if tool.is_unusable else "is approved only by name"
        warning = one_line(escaped(f"{tool.name} {state}: {'; '.join(tool.problems)}"))
        err().print(f"[yellow]warning:[/] {warning}", soft_wrap=True)
    for standing in approved:
        message = f"is {standing.state}, and is no longer approved"
        if standing.offer is not None:
            message = f"is approved, as {short_hash(standing.offer.hash)}"
        out().print(f"{escaped(standing.name)} {message}", soft_wrap=True)
    if not approved:
        err().print("[dim]nothing has changed: all tools were approved before, or have problems[/]")
    return Exit.DONE


@guarded
def lock_command(
    file: Annotated[Path, typer.Argument(help="The lock file, such as mcp.lock.json.")],
    check: Annotated[
        bool,
        typer.Option("--check", help="Write nothing, and exit with 3 if the file differs from what is approved here."),
    ] = False,
    imports: Annotated[
        bool, typer.Option("--import", help="Approve the tools in the file, and no others of its servers.")
    ] = False,
    names: Annotated[
        list[str] | None,
        typer.Option("--tool", metavar="SERVER/TOOL", help="Import this tool despite its problems; may be repeated."),
    ] = None,
    principal: Who = None,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Write the approvals of all MCP servers and APIs to a file, for review in git; or import them from it.

    Tools whose descriptions have problems are imported only by name; if any are left out, it exits with 3. A file with
    a tool that cannot be called is refused.
    """
    from capset_connect.pins.lock import lock_text, read_lock

    settings = load_settings(db=db, principal=principal)
    if file.suffix != ".json":
        raise DefinitionError(f"the name of a lock file must end in .json; got {file.name!r:.80}")
    if check and imports:
        raise DefinitionError("--check changes nothing, and --import does: give one of them")
    if names and not imports:
        raise DefinitionError("--tool names a tool for --import: give both")
    if imports:
        imported = asyncio.run(_import(settings, read_lock(read_text(file, "a lock file")), names or ()))
        for key, offer in imported.left_out:
            message = (
                f"{key}/{offer.name} is left out: {'; '.join(offer.problems)}; --tool {key}/{offer.name} approves it"
            )
            err().print(f"[yellow]warning:[/] {one_line(escaped(message))}", soft_wrap=True)
        message = f"{counted(len(imported.changed), 'tool')} changed, as {file} says"
        return _report_lock(message, as_json=as_json, code=Exit.DIFFERENT if imported.left_out else Exit.DONE)
    text = lock_text(pins := asyncio.run(_list_pins(require_db(settings.db))))
    if check:
        if read_text(file, "a lock file") != text:
            message = f"{file} differs from what is approved in this database"
            return _report_lock(message, as_json=as_json, code=Exit.DIFFERENT)
        return _report_lock(f"{file} matches what is approved in this database", as_json=as_json)
    file.write_text(text, encoding="utf-8")
    return _report_lock(f"{file} has {counted(len(pins), 'tool')}", as_json=as_json)


def _report_lock(message: str, *, as_json: bool, code: Exit = Exit.DONE) -> Exit:
    if as_json:
        print_json({"same": code is Exit.DONE, "message": message})
    else:
        err().print(f"[dim]{escaped(message)}[/]", soft_wrap=True)
    return code


def _declared_sources(file: Path, name: str | None = None) -> Sequence[Source]:
    """Return the sources of a file, or only the one called ``name``. Raises ``DefinitionError`` if there is none."""
    sources = read_configuration(file, Registry.installed(), upstream=lambda _: capability_with).sources
    if not sources:
        raise DefinitionError(f"{file} declares no MCP server and no API", hint=f"under the keys {' and '.join(KEYS)}")
    if name is None:
        return sources
    by_key = {source.pin_key: source for source in sources}
    if name not in by_key:
        raise DefinitionError(f"{file}: {unknown('MCP server or API', name, by_key)}")
    return [by_key[name]]


def query_sources(sources: Sequence[Source], settings: Settings) -> list[SeenSource[Source]]:
    """Connect to all sources at once, and return what each offers, compared with the approvals in the database."""
    return asyncio.run(_query(sources, settings))


async def _query(sources: Sequence[Source], settings: Settings) -> list[SeenSource[Source]]:
    pins = await _list_pins(settings.db) if has_db(settings.db) else ()
    return await side_by_side(
        partial(
            look_at, source, [pin for pin in pins if pin.server == source.pin_key], own_source_client(source, settings)
        )
        for source in sources
    )


async def _list_pins(db: str) -> Sequence[ToolPin]:
    """Return the pins of sources in files. Those of stored agents are approved over REST, by their organisations."""
    async with Kernel(store=db) as kernel:
        return [pin for pin in await kernel.store.pins.list() if not pin.server.startswith(OF_AGENTS)]


async def _approve(
    source: Source, settings: Settings, references: Sequence[str] | None
) -> tuple[Sequence[Standing], Sequence[Standing]]:
    """Return the tools whose approval changed, and, if none were named, those left out because of problems."""
    hashes = None if references is None else dict(map(_parse_reference, references))
    async with own_source_client(source, settings) as client, Kernel(store=settings.db) as kernel:
        offers = await client.offers()
        await check_names(source, client)
        for offer in offers:
            expected = (hashes or {}).get(offer.name, "")
            if not offer.hash.startswith(expected):
                raise DefinitionError(
                    f"{offer.name!r} does not have the hash {expected}: it is {short_hash(offer.hash)} now",
                    hint="review it again: capset mcp diff --agent FILE",
                )
        changed = await approve(kernel, source, offers, local_actor(settings.principal), chosen=hashes)
        tools = standings(await kernel.store.pins.list(source.pin_key), offers) if hashes is None else ()
        left_out = [tool for tool in tools if tool.problems and (tool.is_unusable or tool.state != "approved")]
        return await as_declared(client, changed), left_out


def _parse_reference(reference: str) -> tuple[str, str]:
    name, separator, start = reference.partition("@")
    if separator and len(start) < 32:  # a server could find two texts that share fewer digits
        raise DefinitionError(f"the hash of {name!r} must have at least 32 of its digits; got {start!r}")
    return name, start


async def _import(settings: Settings, locked: Locked, names: Sequence[str]) -> LockImport:
    from capset_connect.pins.lock import import_lock

    async with Kernel(store=settings.db) as kernel:
        return await import_lock(kernel, locked, local_actor(settings.principal), named=names)


def _problems(reports: Iterable[SeenSource[Source]]) -> list[dict[str, Any]]:
    """Return the problems of sources as JSON data: they cannot be reached, or lack what their declarations name.

    ``output`` has the last lines of a server's process, if there are any.
    """
    return [
        {"server": report.source.pin_key, "message": message} | ({"output": [*report.output]} if report.output else {})
        for report in reports
        for message in ([report.problem] if report.problem is not None else report.unmatched)
    ]


def _exit_code(reports: Iterable[SeenSource[Source]]) -> Exit:
    """Return the exit code of a command that queried these sources. It fails if one of them did not answer."""
    return Exit.FAILED if any(report.problem for report in reports) else Exit.DONE


def _warn(reports: Iterable[SeenSource[Source]]) -> None:
    for report in reports:
        for problem in _problems([report]):
            text = f"{problem['server']}: {problem['message']}"
            err().print(f"[yellow]warning:[/] {escaped(text)}", soft_wrap=True)
        for line in report.output:
            err().print(f"  [dim]{escaped(line)}[/]", soft_wrap=True)


def _shapes(tool: Standing) -> dict[str, Any]:
    """Return the approved and the current description of a tool as JSON data."""
    return {"before": tool.pin and shape_of(tool.pin), "now": tool.offer and tool.offer.shape}


def _tool_data(report: SeenSource[Source], tool: Standing) -> dict[str, Any]:
    pin, offer = tool.pin, tool.offer
    return {
        "server": report.source.pin_key,
        "tool": tool.name,
        "state": report.state(tool),
        "hash": offer.hash if offer else None,
        "approved": pin and {"hash": pin.hash, "by": pin.approved_by, "at": pin.approved_at},
        "effect": tool_effect(report, tool),
        "problems": list(tool.problems),
        "notes": list(tool.notes),
    }


def _row(report: SeenSource[Source], tool: Standing) -> Iterator[str]:
    yield report.source.pin_key
    yield tool.name
    yield report.state(tool)
    yield short_hash(tool.offer.hash if tool.offer else tool.pin.hash if tool.pin else None)
    yield tool_effect(report, tool)
    yield f"{tool.pin.approved_by}, {tool.pin.approved_at[:10]}" if tool.pin else "–"
    yield "; ".join((*tool.problems, *tool.notes)) or "–"


def tool_effect(report: SeenSource[Source], tool: Standing) -> str:
    """Return the effect of a tool under its source's rules."""
    from capset_connect.pins.tool_states import effect_in_source

    shape: Mapping[str, Any] = {}
    if tool.pin is not None:
        shape = shape_of(tool.pin)
    elif tool.offer is not None:
        shape = tool.offer.shape
    return effect_in_source(report.source, shape) or "–"


def _difference(source: Source, tool: Standing, where: str) -> Iterator[str]:
    """Yield the lines of a unified diff of a tool, from its approved to its current description.

    ``where`` has the file and the options by which ``capset mcp approve`` finds it.
    """
    server, pin, offer = source.pin_key, tool.pin, tool.offer
    before = f"approved by {pin.approved_by} on {pin.approved_at[:10]}" if pin else "not approved"
    after = f"{offer.hash[:16]} now" if offer else tool.state
    approved: Mapping[str, Any] = shape_of(pin) if pin else {}
    now: Mapping[str, Any] = offer.shape if offer else {}
    name = f"{server}/{shown(tool.name)}"
    sides = f"{name} ({before})", f"{name} ({after})"
    yield from difflib.unified_diff(described(approved), described(now), *sides, n=3, lineterm="")
    for problem in tool.problems:
        yield f"! {shown(problem)}"
    words, words_now = hash_of(approved, ignores_word_order=True), hash_of(now, ignores_word_order=True)
    if words == words_now and isinstance(source, McpServer):
        yield "! only the order of its words differs: with ignore_word_order: true for its server, it would be approved"
    for note in tool.notes:
        yield f"  {note}"
    if offer is not None and not offer.is_unusable:
        reference = shlex.quote(f"{shown(tool.name)}@{offer.hash}")
        yield f"  capset mcp approve {server} {reference} --agent {where}"
    yield ""
