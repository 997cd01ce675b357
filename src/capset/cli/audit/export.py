"""``capset audit export``: the links of the chain with all columns, one JSON object per line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Generator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final, TextIO

import typer

from capset.cli.common.exits import Exit, guarded
from capset.cli.common.options import AsJson, Db, Since, Until, instant
from capset.cli.common.output import err, print_json
from capset.cli.common.settings import existing_db, load_settings
from capset.cli.common.targets import opened_store
from capset.errors import DefinitionError, StoreError
from capset.stores.base import AuditLog
from capset.wire.audit import ExportShape

_PAGE: Final = 500
"""The number of records in memory at once."""


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
