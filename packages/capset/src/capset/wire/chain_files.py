"""The chain as a file: one JSON object per line, the records in order, then the checkpoints over them (spec 4, G64)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from dataclasses import asdict
from typing import Final

from capset.definitions.calls.records import Record
from capset.errors import NotFound, StoreError
from capset.fingerprint.checkpoints import Checkpoint
from capset.stores.base import AuditLog

PAGE: Final = 500
"""The maximum number of lines in memory at once."""


async def first_exported(log: AuditLog, *, first: int | None, since: str | None) -> int:
    """Return the position of the first record at or after a position and a time. Raises ``NotFound`` if there is none.

    ``since`` has the format of ``capset.clock.iso``.
    """
    span = await log.span(since=since)
    if span is None:
        raise NotFound(f"there are no records since {since}")
    start = max(span[0], first or 1)
    if start > span[1]:
        raise NotFound(f"there is no record {start}: the newest one is {span[1]}")
    return start


async def chain_pages(log: AuditLog, start: int, end: Checkpoint) -> AsyncGenerator[str]:
    """Yield the lines of an export, page by page: records from ``start`` on, and the checkpoints over them.

    ``end`` is the last line, and covers the last record. The checkpoint over the record before ``start`` is included,
    since it vouches for the beginning of a part. Raises ``StoreError`` if a line is missing, or cannot be read; whether
    the hashes hold is for ``verify``.
    """
    after = start - 1
    while after < end.seq:
        page = await log.read(after=after, limit=min(PAGE, end.seq - after))
        for record in page:
            after += 1
            if record.seq != after:
                raise _missing(f"record {after}")
        if not page:
            raise _missing(f"record {after + 1}")
        yield "".join(map(_line, page))
    number = 0
    while number < end.number:
        checkpoints = await log.checkpoints(after=number, limit=PAGE)
        if not checkpoints:
            raise _missing(f"checkpoint {end.number}")
        for checkpoint in checkpoints:
            if number and checkpoint.number != number + 1:
                raise _missing(f"checkpoint {number + 1}")
            number = checkpoint.number
        yield "".join(
            _line(checkpoint)
            for checkpoint in checkpoints
            if checkpoint.seq >= start - 1 and checkpoint.number <= end.number
        )


def _line(item: Record | Checkpoint) -> str:
    return json.dumps(asdict(item), ensure_ascii=True) + "\n"


def _missing(subject: str) -> StoreError:
    return StoreError(f"{subject} is missing", hint="capset audit verify checks the whole log")
