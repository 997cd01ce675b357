"""``capset audit query|tail|export``: outcomes of calls, the newest records, and the whole chain with all columns."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Container, Generator, Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, cast, get_args

import typer

from capset.clock import iso
from capset.definitions.calls.records import Outcome, Phase, Record
from capset.definitions.governance.acts import ACTS
from capset.errors import DefinitionError, ForeignAnswer, StoreError, counted
from capset.fingerprint.checkpoints import checkpoint_of
from capset.ids import Ids
from capset.kernel.governance.acts import act_entry
from capset.stores.base import AuditLog, AuditQuery, Store
from capset.stores.base.audit import FILTERS, Kind
from capset.wire.audit import AuditPageShape, ExportShape, audit_page_shape, record_data
from capset.wire.chain_files import chain_pages, first_exported
from capset_cli.audit.keys import signing_key
from capset_cli.common.actors import local_actor
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Db, Since, Until, parse_choice, parse_time
from capset_cli.common.output import cell, err, out, pretty, print_json, print_page, short_hash
from capset_cli.common.remote import Url, run_on_server, select_server
from capset_cli.common.settings import Settings, load_settings, require_db
from capset_cli.common.targets import open_store

if TYPE_CHECKING:
    from capset_server.client import Client


Kinds = Annotated[
    str | None, typer.Option("--kind", help="call, act or all: outcomes of calls, acts of administration, or both.")
]


@guarded
def query_command(
    tool: Annotated[str | None, typer.Option(help="Only calls of this tool.")] = None,
    outcome: Annotated[str | None, typer.Option(help="Only calls with this outcome, such as denied.")] = None,
    principal: Annotated[
        str | None, typer.Option(help="Only calls of the principal with this id, without a kind: ada, not user:ada.")
    ] = None,
    session: Annotated[str | None, typer.Option(help="Only calls of this session.")] = None,
    correlation: Annotated[str | None, typer.Option(help="Only calls with this correlation.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only calls of this agent.")] = None,
    approval: Annotated[str | None, typer.Option(help="Only calls of the approval request with this id.")] = None,
    code: Annotated[str | None, typer.Option(help="Only calls that ended with an error of this code.")] = None,
    act: Annotated[str | None, typer.Option(help="Only acts of this name, such as key.create.")] = None,
    kind: Kinds = None,
    since: Since = None,
    until: Until = None,
    record: Annotated[str | None, typer.Option(help="Only the record with this id.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The maximum number of records.")] = 50,
    before: Annotated[int | None, typer.Option(min=1, max=2**63 - 1, help="Only records before this position.")] = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Show outcomes of calls, or acts of administration (--kind), newest first. The query itself is recorded."""
    server = select_server(url, db=db)
    query = AuditQuery(
        record,
        tool,
        parse_choice("outcome", outcome, get_args(Outcome)),
        principal,
        session,
        correlation,
        limit=limit,
        before=before,
        agent=agent,
        approval=approval,
        code=code,
        act=parse_choice("act", act, tuple(ACTS)),
        kind=_parse_kind(kind),
        since=parse_time("--since", since),
        until=parse_time("--until", until),
    )
    if server is not None:
        page = run_on_server(server, lambda client: _query_on_server(client, query))
    else:
        page = asyncio.run(_query(_local_settings(db), query, as_json=as_json))
    columns = ("SEQ", "TIME", "PRINCIPAL", "TOOL", "OUTCOME", "WHY", "HASH")
    print_page(
        page,
        columns,
        map(_row, page.items),
        folds=("PRINCIPAL", "WHY"),
        as_json=as_json,
        empty="no records match: outcomes of calls are listed; --kind act lists acts of administration",
    )
    return Exit.DONE


def _row(record: Mapping[str, Any]) -> list[str]:  # a record's values are of every JSON type
    why = record["reason"] or record["code"] or record["decision"] or "–"
    subject = record.get("act") or record["tool"]
    why = _act_details(record) if record.get("act") and why == "–" else why
    texts = (record["time"][:19].replace("T", " "), record["principal"], subject, record["outcome"] or "–", why)
    return [str(record["seq"]), *map(cell, texts), short_hash(record["hash"])]


def _act_details(record: Mapping[str, Any]) -> str:
    """Return the subject of an act, and its source."""
    arguments = record["arguments"]
    about = json.loads(arguments) if isinstance(arguments, str) else arguments
    parts = (f"{name}={pretty(value)}" for name, value in about.items() if name in ("id", "path", "by", "server"))
    return " ".join((*parts, *_approved_tools(about.get("tools")), f"from {record['source']}"))


def _approved_tools(tools: object) -> Iterator[str]:
    """Yield the tools that an act approved, each with the start of its hash, or withdrew."""
    if not isinstance(tools, Mapping):
        return
    approvals = cast("Mapping[str, str | None]", tools)
    max_shown = 5  # in one line
    for name, digest in islice(approvals.items(), max_shown):
        yield f"{name} withdrawn" if digest is None else f"{name}={digest[:8]}…"
    if len(approvals) > max_shown:
        yield f"and {len(approvals) - max_shown} more"


def _parse_kind(text: str | None) -> Kind | None:
    return parse_choice("kind", text, get_args(Kind))


async def _query_on_server(client: Client, query: AuditQuery) -> AuditPageShape:
    """Return the requested number of records, page by page, up to a page that its size cut short."""
    items: list[dict[str, Any]] = []
    cursor = str(query.before) if query.before is not None else None
    while True:
        limit = min(query.limit - len(items), 200)  # a server's largest page
        page = await client.records.list(
            **{name: getattr(query, name) for name in FILTERS},
            kind=query.kind,
            since=query.since,
            until=query.until,
            limit=limit,
            cursor=cursor,
        )
        items += page.items
        cursor = page.next
        if cursor is None or len(page.items) < limit or len(items) >= query.limit:
            return AuditPageShape(items=items, next=int(cursor) if cursor else None)


async def _query(settings: Settings, query: AuditQuery, *, as_json: bool) -> AuditPageShape:
    about = {name: value for name, value in asdict(query).items() if value is not None}
    async with open_store(settings.db) as store:
        if as_json:
            page = await audit_page_shape(store.audit, query)
        else:  # the table needs no JSON, so it also shows records whose JSON is damaged
            record_page = await store.audit.query(query)
            page = AuditPageShape(items=[asdict(record) for record in record_page.items], next=record_page.next)
        await _record_reading(store, settings, {"by": "query", **about})
        return page


async def _record_reading(store: Store, settings: Settings, about: Mapping[str, Any]) -> None:
    """Record that a command reads the log, before it prints anything."""
    actor = local_actor(settings.principal)
    await store.audit.commit(act_entry(Ids(), "log.read", about, by=actor, org=actor.org))


def _local_settings(db: str | None) -> Settings:
    settings = load_settings(db=db)
    require_db(settings.db)
    return settings


@guarded
def tail_command(
    lines: Annotated[
        int, typer.Option("-n", "--lines", min=0, max=1000, help="How many of the newest records to show.")
    ] = 10,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Show new records as they are written, until Ctrl-C.")
    ] = False,
    kind: Kinds = None,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Show the outcomes of the newest calls, newest last; with --json, one JSON object per line."""
    asyncio.run(_tail(_local_settings(db), lines, _parse_kind(kind), follow=follow, as_json=as_json))
    return Exit.DONE


async def _tail(settings: Settings, lines: int, kind: Kind | None, *, follow: bool, as_json: bool) -> None:
    query = AuditQuery(limit=max(lines, 1), kind=kind)
    async with open_store(settings.db) as store:
        span = await store.audit.span()
        page = await store.audit.query(query)
        await _record_reading(store, settings, {"by": "tail", "kind": kind, "lines": lines, "follow": follow})
        for record in reversed(page.items[:lines]):
            _show(record, as_json=as_json)
        after = max(span[1] if span else 0, page.items[0].seq if page.items else 0)
        while follow:
            after = await _show_new_records(store.audit, after, query.phases, as_json=as_json)
            await asyncio.sleep(0.5)


async def _show_new_records(audit: AuditLog, after: int, phases: Container[Phase], *, as_json: bool) -> int:
    """Show the records of some phases after a position, and return the position of the last record that was read."""
    while page := await audit.read(after=after):
        for record in page:
            if record.phase in phases:
                _show(record, as_json=as_json)
        after = page[-1].seq
    return after


def _show(record: Record, *, as_json: bool) -> None:
    if as_json:
        print_json(record_data(record))
        return
    subject = record.act or record.tool
    texts = (record.time[:19].replace("T", " "), record.principal, subject, record.outcome or "–")
    why = record.reason or (record.code if record.code != record.outcome else None)
    if record.act is not None and why is None:
        why = _act_details(asdict(record))
    line = [str(record.seq), *map(cell, texts), short_hash(record.hash), *([cell(why)] if why else [])]
    out().print(" ".join(line), soft_wrap=True)


@guarded
def export_command(
    to: Annotated[Path | None, typer.Option(metavar="FILE", help="A new file to write to, instead of stdout.")] = None,
    first: Annotated[int | None, typer.Option(min=1, max=2**53, help="Only records from this position on.")] = None,
    since: Since = None,
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The private key to sign with; by default that of capset serve."),
    ] = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Write the chain to a file, for capset audit verify FILE: all records in order, then the checkpoints over them.

    The last line is a new checkpoint, over the last record of the file. A log without a key adopts one, as with capset
    serve. With --url, a server exports and signs its own chain, with an operator's key: capset:admin, without an
    organisation.
    """
    if as_json and to is None:
        raise DefinitionError(
            "--json reports what was written to a file: name one with --to", hint="stdout is JSON anyway"
        )
    start = parse_time("--since", since)
    server = select_server(url, db=db, key=key)
    if server is not None:
        with _open_output(to) as file:
            exported = run_on_server(
                server, lambda client: _write_lines(client.records.chain(first=first, since=start), file)
            )
    else:
        settings = _local_settings(db)
        with _open_output(to) as file:
            exported = asyncio.run(_export(settings, first, start, key, file))
    if as_json:
        print_json(exported.plain())
    else:
        err().print(
            f"[dim]{counted(exported.records, 'record')}, {counted(exported.checkpoints, 'checkpoint')} over them[/]"
        )
    return Exit.DONE


async def _export(
    settings: Settings, first: int | None, since: str | None, key: Path | None, file: TextIO
) -> ExportShape:
    options = {"by": "chain", "first": first, "since": since}
    async with open_store(settings.db) as store:
        log = store.audit
        signer = await signing_key(log, key, by=local_actor(settings.principal))
        await _record_reading(store, settings, {name: value for name, value in options.items() if value is not None})
        end = await log.checkpoint(signer, now=iso(time.time_ns()))
        if end is None:
            raise StoreError("the log has no records, although its export was recorded")
        start = await first_exported(log, first=first, since=since)
        return await _write_lines(_lines(chain_pages(log, start, end)), file)


async def _lines(pages: AsyncIterator[str]) -> AsyncGenerator[str]:
    async for page in pages:
        for line in page.splitlines():
            yield line


async def _write_lines(lines: AsyncIterator[str], file: TextIO) -> ExportShape:
    """Write the lines of an export, and return their numbers. Raises ``ForeignAnswer`` if some are missing."""
    count, checkpoint_count, first, last = 0, 0, "", ""
    try:
        async for last in lines:
            file.write(last + "\n")
            first = first or last
            count += 1
            checkpoint_count += '"signature"' in last and "signature" in json.loads(last)
        start, end = json.loads(first)["seq"], checkpoint_of(json.loads(last)).seq
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ForeignAnswer("the export does not end with a checkpoint: it is not complete") from None
    record_count = count - checkpoint_count
    if record_count != end - start + 1:
        raise ForeignAnswer(f"the export has {record_count} of the records {start} to {end}: it is not complete")
    return ExportShape(records=record_count, checkpoints=checkpoint_count, first=start, last=end)


@contextlib.contextmanager
def _open_output(path: Path | None) -> Generator[TextIO]:
    """Yield a new file, which is removed after an error, or stdout."""
    if path is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    try:
        file = path.open("x", encoding="utf-8", newline="\n")
    except FileExistsError:
        raise DefinitionError(f"the file {str(path)!r} already exists", hint="name another, or remove it") from None
    try:
        with file:
            yield file
    except BaseException:
        path.unlink()
        raise
