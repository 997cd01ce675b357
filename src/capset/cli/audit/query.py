"""``capset audit query``: outcomes of calls."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import typer

from capset.cli.common.exits import Exit, guarded
from capset.cli.common.options import AsJson, Db, Since, Until, instant
from capset.cli.common.output import cell, err, out, print_json, short, table
from capset.cli.common.remote import Url, ask, server_of
from capset.cli.common.settings import existing_db, load_settings
from capset.cli.common.targets import opened_store
from capset.definitions.records import Outcome
from capset.errors import DefinitionError, unknown
from capset.stores.base import AuditPage, AuditQuery
from capset.stores.base.audit import FILTERS
from capset.wire.audit import AuditPageShape, audit_page_shape

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
        print_json((audit_page_shape(page) if isinstance(page, AuditPage) else page).plain())
        return Exit.DONE
    items = [asdict(record) for record in page.items] if isinstance(page, AuditPage) else page.items
    columns = ("SEQ", "TIME", "PRINCIPAL", "TOOL", "OUTCOME", "WHY", "HASH")
    out().print(table(*columns, rows=map(_row, items), folds=("PRINCIPAL", "WHY")))
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
    """Return the requested number of records, in as many pages as the server requires."""
    items: list[dict[str, Any]] = []
    cursor = str(query.before) if query.before is not None else None
    while True:
        page = await client.records.list(
            **{name: getattr(query, name) for name in FILTERS},
            since=query.since,
            until=query.until,
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
