"""``capset audit tail``: the newest records, and new ones as they come."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

import typer

from capset.cli.common.exits import Exit, guarded
from capset.cli.common.options import AsJson, Db
from capset.cli.common.output import cell, out, print_json, short
from capset.cli.common.settings import existing_db, load_settings
from capset.cli.common.targets import opened_store
from capset.definitions.records import Record
from capset.stores.base import AuditLog, AuditQuery
from capset.wire.audit import record_data

POLL_SECONDS: Final = 0.5
"""The polling interval of ``--follow``."""


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
