"""``capset audit query|tail|export``: outcomes of calls, the newest records, and the whole chain with all columns."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Generator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO, get_args

import typer

from capset.cli.common.exits import Exit, guarded
from capset.cli.common.options import AsJson, Db, Since, Until, instant
from capset.cli.common.output import cell, err, out, print_json, short, table
from capset.cli.common.remote import Url, ask, server_of
from capset.cli.common.settings import existing_db, load_settings
from capset.cli.common.targets import opened_store
from capset.definitions.records import Outcome, Record
from capset.errors import DefinitionError, StoreError, unknown
from capset.stores.base import AuditLog, AuditQuery
from capset.stores.base.audit import FILTERS
from capset.wire.audit import AuditPageShape, ExportShape, audit_page_shape, record_data

if TYPE_CHECKING:
    from capset.client import Client


_LARGEST_PAGE: Final = 200

POLL_SECONDS: Final = 0.5
"""The polling interval of ``--follow``."""

_PAGE: Final = 500
"""The number of records in memory at once."""


@guarded
def query_command(
    tool: Annotated[str | None, typer.Option(help="Only calls of this tool.")] = None,
    outcome: Annotated[str | None, typer.Option(help="Only calls that ended so, such as denied.")] = None,
    principal: Annotated[str | None, typer.Option(help="Only calls of this principal.")] = None,
    session: Annotated[str | None, typer.Option(help="Only calls of this session.")] = None,
    correlation: Annotated[str | None, typer.Option(help="Only calls with this correlation.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only calls of this agent.")] = None,
    approval: Annotated[str | None, typer.Option(help="Only calls that this request for an approval was for.")] = None,
    code: Annotated[str | None, typer.Option(help="Only calls that ended with an error of this code.")] = None,
    since: Since = None,
    until: Until = None,
    record: Annotated[str | None, typer.Option(help="Only the record with this id.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many records.")] = 50,
    before: Annotated[int | None, typer.Option(min=1, max=2**63 - 1, help="Only records before this position.")] = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Show how calls ended, the newest first."""
    server = server_of(url, db=db)
    query = AuditQuery(
        record,
        tool,
        _outcome(outcome),
        principal,
        session,
        correlation,
        limit,
        before,
        agent=agent,
        approval=approval,
        code=code,
        since=instant("--since", since),
        until=instant("--until", until),
    )
    if server is not None:
        page = ask(server, lambda client: _query_there(client, query))
    else:
        page = asyncio.run(_query(existing_db(load_settings(db=db).db), query))
    if as_json:
        print_json(page.plain())
        return Exit.DONE
    columns = ("SEQ", "TIME", "PRINCIPAL", "TOOL", "OUTCOME", "WHY", "HASH")
    out().print(table(*columns, rows=map(_row, page.items), folds=("PRINCIPAL", "WHY")))
    if page.next is not None:
        err().print(f"[dim]more: --before {page.next}[/]")
    return Exit.DONE


def _row(record: Mapping[str, Any]) -> list[str]:  # a record's values are of every JSON type
    why = record["reason"] or record["code"] or record["decision"] or "–"
    texts = (record["time"][:19].replace("T", " "), record["principal"], record["tool"], record["outcome"] or "–", why)
    return [str(record["seq"]), *map(cell, texts), short(record["hash"])]


def _outcome(named: str | None) -> Outcome | None:
    if named is None:
        return None
    for known in get_args(Outcome):
        if named == known:
            return known
    raise DefinitionError(unknown("outcome", named, get_args(Outcome)))


async def _query_there(client: Client, query: AuditQuery) -> AuditPageShape:
    """Return the requested number of records, in several pages, up to one that ends early by its size."""
    items: list[dict[str, Any]] = []
    cursor = str(query.before) if query.before is not None else None
    while True:
        limit = min(query.limit - len(items), _LARGEST_PAGE)
        page = await client.records.list(
            **{name: getattr(query, name) for name in FILTERS},
            since=query.since,
            until=query.until,
            limit=limit,
            cursor=cursor,
        )
        items += page.items
        cursor = page.next
        if cursor is None or len(page.items) < limit or len(items) >= query.limit:
            return AuditPageShape(items=items, next=int(cursor) if cursor else None)


async def _query(url: str, query: AuditQuery) -> AuditPageShape:
    async with opened_store(url) as store:
        return await audit_page_shape(store.audit, query)


@guarded
def tail_command(
    lines: Annotated[int, typer.Option("-n", "--lines", min=0, max=1000, help="How many of the newest.")] = 10,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Show those that follow, until Ctrl-C.")] = False,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Show how the newest calls ended, the newest last; with --json, a JSON object a line."""
    asyncio.run(_tail(existing_db(load_settings(db=db).db), lines, follow=follow, as_json=as_json))
    return Exit.DONE


async def _tail(url: str, lines: int, *, follow: bool, as_json: bool) -> None:
    async with opened_store(url) as store:
        span = await store.audit.span()
        page = await store.audit.query(AuditQuery(limit=max(lines, 1)))
        for record in reversed(page.items[:lines]):
            _show(record, as_json=as_json)
        after = max(span[1] if span else 0, page.items[0].seq if page.items else 0)
        while follow:
            after = await _more(store.audit, after, as_json=as_json)
            await asyncio.sleep(POLL_SECONDS)


async def _more(audit: AuditLog, after: int, *, as_json: bool) -> int:
    """Show the outcomes after a position, and return the position of the last link that was read."""
    while page := await audit.read(after=after):
        for record in page:
            if record.phase == "outcome":
                _show(record, as_json=as_json)
        after = page[-1].seq
    return after


def _show(record: Record, *, as_json: bool) -> None:
    if as_json:
        print_json(record_data(record))
        return
    texts = (record.time[:19].replace("T", " "), record.principal, record.tool, record.outcome or "–")
    why = record.reason or (record.code if record.code != record.outcome else None)
    line = [str(record.seq), *map(cell, texts), short(record.hash), *([cell(why)] if why else [])]
    out().print(" ".join(line), soft_wrap=True)


@guarded
def export_command(
    to: Annotated[Path | None, typer.Option(metavar="FILE", help="A new file to write to, instead of stdout.")] = None,
    checkpoints: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A new file for the checkpoints over these records.")
    ] = None,
    since: Since = None,
    until: Until = None,
    first: Annotated[int | None, typer.Option(min=1, help="Only from this position on.")] = None,
    last: Annotated[int | None, typer.Option(min=1, help="Only up to this position.")] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Write records as they are hashed, intents included, in chain order; capset audit verify FILE checks them."""
    if as_json and to is None:
        raise DefinitionError(
            "--json says what was written to a file: name one with --to", hint="stdout is JSON anyway"
        )
    span = instant("--since", since), instant("--until", until), first, last
    url = existing_db(load_settings(db=db).db)
    with _opened(to) as file, _opened(checkpoints) if checkpoints else contextlib.nullcontext() as beside:
        done = asyncio.run(_export(url, span, file, beside))
    if as_json:
        print_json(done.plain())
    else:
        err().print(f"[dim]{done.records} records, {done.checkpoints} checkpoints over them[/]")
    return Exit.DONE


async def _export(
    url: str, span: tuple[str | None, str | None, int | None, int | None], file: TextIO, beside: TextIO | None
) -> ExportShape:
    since, until, first, last = span
    async with opened_store(url) as store:
        ends = await store.audit.span(since=since, until=until)
        if ends is None:
            return ExportShape(records=0, checkpoints=0)
        start, end = max(ends[0], first or 1), min(ends[1], last or ends[1])
        sealed = await _write_checkpoints(store.audit, start, end, beside)
        return ExportShape(
            records=await _write_records(store.audit, start, end, file), checkpoints=sealed, first=start, last=end
        )


async def _write_records(audit: AuditLog, start: int, end: int, file: TextIO) -> int:
    after = start - 1
    while after < end:
        page = await audit.read(after=after, limit=min(_PAGE, end - after))
        for record in page:
            after += 1
            if record.seq != after:
                raise StoreError(f"record {after} is missing", hint="capset audit verify says more")
            file.write(json.dumps(asdict(record), ensure_ascii=True) + "\n")
        if not page:
            raise StoreError(f"record {after + 1} is missing", hint="capset audit verify says more")
        file.flush()
    return max(0, end - start + 1)


async def _write_checkpoints(audit: AuditLog, start: int, end: int, beside: TextIO | None) -> int:
    """Write the checkpoints for records from ``start`` to ``end``, or the one before; return how many.

    They go to ``beside``; without it, they are only counted.
    """
    written = number = 0
    while page := await audit.checkpoints(after=number):
        number = page[-1].number
        for one in page:
            if start - 1 <= one.seq <= end:
                written += 1
                if beside is not None:
                    beside.write(json.dumps(asdict(one)) + "\n")
    return written


@contextlib.contextmanager
def _opened(path: Path | None) -> Generator[TextIO]:
    """Yield a new file, or stdout."""
    if path is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    try:
        file = path.open("x", encoding="utf-8", newline="\n")
    except FileExistsError:
        raise DefinitionError(f"there is a file {str(path)!r} already", hint="name another, or remove it") from None
    with file:
        yield file
