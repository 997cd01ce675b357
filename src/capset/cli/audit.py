"""``capset audit``: reading and checking the record of every attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import typer

from capset.cli.exits import Exit, ended, guarded
from capset.cli.options import AsJson, Db
from capset.cli.output import cell, err, out, print_json, short, table, verbatim
from capset.cli.remote import Url, ask, server_of
from capset.cli.settings import existing_db, load_settings
from capset.cli.stored import opened_store
from capset.definitions.records import Outcome
from capset.errors import DefinitionError, unknown
from capset.fingerprint.chain import Verification
from capset.stores.base import AuditPage, AuditQuery
from capset.wire.audit import AuditPageShape, audit_page_shape, verification_shape

if TYPE_CHECKING:
    from capset.client import Client

_LARGEST_PAGE: Final = 200


@guarded
def query_command(
    tool: Annotated[str | None, typer.Option(help="Only calls of this tool.")] = None,
    outcome: Annotated[str | None, typer.Option(help="Only calls that ended so, such as denied.")] = None,
    principal: Annotated[str | None, typer.Option(help="Only calls of this principal.")] = None,
    session: Annotated[str | None, typer.Option(help="Only calls of this session.")] = None,
    correlation: Annotated[str | None, typer.Option(help="Only calls with this correlation.")] = None,
    record: Annotated[str | None, typer.Option(help="Only the record with this id.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many records.")] = 50,
    before: Annotated[int | None, typer.Option(min=1, max=2**63 - 1, help="Only records before this position.")] = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Show how calls ended, the newest first."""
    server = server_of(url, db=db)
    query = AuditQuery(record, tool, _outcome(outcome), principal, session, correlation, limit, before)
    if server is not None:
        page = ask(server, lambda client: _query_there(client, query))
    else:
        page = asyncio.run(_query(existing_db(load_settings(db=db).db), query))
    if as_json:
        print_json((audit_page_shape(page) if isinstance(page, AuditPage) else page).plain())
        return Exit.DONE
    items = map(asdict, page.items) if isinstance(page, AuditPage) else page.items
    columns = ("SEQ", "TIME", "PRINCIPAL", "TOOL", "OUTCOME", "WHY", "HASH")
    out().print(table(*columns, rows=map(_row, items), folds=("PRINCIPAL", "WHY")))
    if page.next is not None:
        err().print(f"[dim]more: --before {page.next}[/]")
    return Exit.DONE


@guarded
def verify_command(db: Db = None, as_json: AsJson = False) -> Exit:
    """Check the whole chain of records; the exit code is 3 if it does not hold."""
    found = asyncio.run(_verify(existing_db(load_settings(db=db).db)))
    with ended():
        if as_json:
            print_json(verification_shape(found).plain())
        elif found.ok:
            held = f"{found.checked} records, every hash holds" if found.checked else "there are no records"
            out().print(f"[green]verified:[/] {held}")
        else:
            err().print(f"[red]not verified:[/] {verbatim(found.problem or '')}", soft_wrap=True)
            err().print(f"[dim]{found.checked} records before it hold[/]")
    return Exit.DONE if found.ok else Exit.REFUSED


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
    """Return as many records as are wanted, which may be more than the server gives at once."""
    items: list[dict[str, Any]] = []
    cursor = str(query.before) if query.before is not None else None
    while True:
        page = await client.records.list(
            id=query.id,
            tool=query.tool,
            outcome=query.outcome,
            principal=query.principal,
            session=query.session,
            correlation=query.correlation,
            limit=min(query.limit - len(items), _LARGEST_PAGE),
            cursor=cursor,
        )
        items += page.items
        cursor = page.next
        if cursor is None or len(items) >= query.limit:
            return AuditPageShape(items=items, next=int(cursor) if cursor else None)


async def _query(url: str, query: AuditQuery) -> AuditPage:
    async with opened_store(url) as store:
        return await store.audit.query(query)


async def _verify(url: str) -> Verification:
    async with opened_store(url) as store:
        return await store.audit.verify()
