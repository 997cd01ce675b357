"""Export of records over HTTP: page by page, as NDJSON or CSV, in bounded memory (spec 5, P54, P97)."""

from __future__ import annotations

import csv
import io
import json
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import asdict, replace
from typing import Any, Final, Literal

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from capset.definitions.calls.records import COLUMNS, Record
from capset.errors import CapsetError, Unauthenticated
from capset.stores.base import AuditLog, AuditQuery
from capset.wire.pages import PAGE_BYTES
from capset_server.auth.callers import REFUSED, Caller
from capset_server.http.bodies import BrokenOff, DisconnectWatch, send_in_parts
from capset_server.service import Service

ExportFormat = Literal["ndjson", "csv"]
MEDIA_TYPES: Final[Mapping[ExportFormat, str]] = {
    "ndjson": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8; header=present",
}
_PAGE: Final = 500
"""Maximum number of records in memory at once; large records make it fewer."""
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""The characters with which a formula begins in a spreadsheet."""
_log = logging.getLogger("capset.server")


class ExportResponse(Response):
    """A response whose body is read while it is sent, so that only one page is in memory."""

    def __init__(
        self,
        service: Service,
        caller: Caller,
        authorization: str,
        pages: AsyncGenerator[str],
        media_type: str,
        file_name: str,
    ) -> None:
        self.background = None
        self._service = service
        self._caller = caller
        self._authorization = authorization
        self._pages = pages
        self._headers = [
            (b"content-type", media_type.encode()),
            (b"content-disposition", f'attachment; filename="{file_name}"'.encode()),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the pages. An error on the way aborts the response, so that it does not look complete."""
        seconds = self._service.limits.send_seconds
        async with aclosing(self._pages) as pages:
            text = await anext(pages, None)  # an error here still becomes an error response
            await send({"type": "http.response.start", "status": 200, "headers": self._headers})
            try:
                with DisconnectWatch(receive):
                    while text is not None:
                        body = {"type": "http.response.body", "body": text.encode(errors="replace"), "more_body": True}
                        await send_in_parts(send, body, seconds)
                        text = await anext(pages, None)
                        if text is not None and not await self._service.callers.knows(
                            self._caller, self._authorization
                        ):
                            raise Unauthenticated(REFUSED)
            except CapsetError as error:
                _log.error("an export of records was aborted: %s", error.message)
                raise BrokenOff from None
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def record_pages(log: AuditLog, query: AuditQuery, export_format: ExportFormat) -> AsyncGenerator[str]:
    """Yield the records that match a query, newest first, as the text of an export."""
    query = replace(query, limit=_PAGE, max_bytes=PAGE_BYTES)
    text = _csv([COLUMNS]) if export_format == "csv" else ""
    while True:
        page = await log.query(query)
        yield text + _text(page.items, export_format)
        if page.next is None:
            return
        query, text = replace(query, before=page.next), ""


def _text(items: Iterable[Record], export_format: ExportFormat) -> str:
    if export_format == "csv":
        return _csv([_cell(value) for value in asdict(record).values()] for record in items)
    return "".join(json.dumps(asdict(record), ensure_ascii=True) + "\n" for record in items)


def _csv(rows: Iterable[Iterable[object]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerows(rows)
    return buffer.getvalue()


def _cell(value: Any) -> Any:  # a column's value
    """Return a value as a cell; a text that begins like a formula gets an apostrophe, so that it is not run."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
