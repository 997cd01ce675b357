"""A session that fetches from a server that means harm, and what such servers do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capset_testing import Desk, session_for
from capset_tools.web_fetch import WebFetchConfig, web_fetch_over
from tests.helpers.net.support import Answer, Asked, Server, server
from tests.waiting import until

FIRST, BODY = 0.3, 0.6
"""The deadlines that the tests of deadlines set, in seconds."""
OVERRUN = 5.0
"""By how much a busy machine may be late; a deadline that does not hold is late by much more."""
FOR_EVER = 60.0

Page = Callable[[Asked, asyncio.StreamWriter], Any]


@dataclass
class Site:
    """A server, and a session that may ask it."""

    server: Server
    desk: Desk

    async def answered(self, path: str = "/page", **arguments: Any) -> dict[str, Any]:
        """Fetch and return the result."""
        result = await self._call(path, arguments)
        assert result.data is not None, result.error
        return result.data

    async def failed(self, path: str = "/page", **arguments: Any) -> tuple[int, str, str]:
        """Fetch, and return status, code and message of the error, which is the record's too."""
        result = await self._call(path, arguments)
        assert result.error is not None, result.data
        (record,) = [candidate for candidate in await self.desk.records() if candidate.id == result.record]
        assert record.code == result.error.code
        return result.error.status, result.error.code, result.error.message

    async def _call(self, path: str, arguments: dict[str, Any]) -> Any:
        url = path if "://" in path else self.server.url(path)
        return await self.desk.session.try_message(self.desk.session.message("web_fetch", {"url": url, **arguments}))


@asynccontextmanager
async def site(
    page: Answer = b"",
    *,
    pages: dict[str, Answer] | None = None,
    first_byte: float = FOR_EVER,
    body: float = FOR_EVER,
    max_bytes: int = 10_000_000,
    redirects: int = 10,
    allow: tuple[str, ...] = ("127.0.0.1",),
    **over: Any,
) -> AsyncGenerator[Site]:
    """Open a site whose ``/page`` is the page; at its end nothing of it may be left."""
    tasks, sockets = len(asyncio.all_tasks()), open_sockets()
    capability = web_fetch_over(first_byte=first_byte, body=body, **over)
    config = WebFetchConfig(allow=allow, max_bytes=max_bytes, redirects=redirects)
    async with (
        server({"/page": page, **(pages or {})}) as page_server,
        session_for(capability, permissions=["http:read"], config=config) as desk,
    ):
        yield Site(page_server, desk)
    # Transports close in the loop's next rounds.
    await until(lambda: len(asyncio.all_tasks()) <= tasks, "no more tasks than before")
    await until(lambda: open_sockets() <= sockets, "no more sockets than before")


def open_sockets() -> int:
    """Count the sockets of this process; 0 where that cannot be told."""
    count = 0
    for file in Path("/proc/self/fd").glob("*"):
        with suppress(OSError):
            count += str(file.readlink()).startswith("socket:")
    return count


class Clock:
    """Measures a block: it must take at least so long, and little longer."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *raised: object) -> None:
        took = time.monotonic() - self._began
        if raised[0] is None:
            assert self._seconds * 0.95 <= took < self._seconds + OVERRUN, f"it took {took:.2f} s"


def head(*lines: str, status: int = 200) -> bytes:
    """Return the head of an answer, its headers as they are given."""
    return "\r\n".join([f"HTTP/1.1 {status} Said", *lines, "", ""]).encode()


HTML = "Content-Type: text/html; charset=utf-8"
PLAIN = "Content-Type: text/plain"
CHUNKED = "Transfer-Encoding: chunked"


def saying(*parts: bytes | float) -> Page:
    """Return a page that writes bytes, sleeps for numbers of seconds, and then closes the connection."""

    async def page(request: Asked, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            if isinstance(part, bytes):
                writer.write(part)
                await writer.drain()
            else:
                await asyncio.sleep(part)

    return page


def trickling(data: bytes, every: float) -> Page:
    """Return a page that writes a byte at a time, again and again."""

    async def page(request: Asked, writer: asyncio.StreamWriter) -> None:
        while True:
            for byte in data:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(every)

    return page


def endless(beginning: bytes, more: bytes) -> Page:
    """Return a page that goes on as fast as it can."""

    async def page(request: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(beginning)
        while True:
            writer.write(more)
            await writer.drain()

    return page


def after(beginning: bytes, page: Page) -> Page:
    """Return a page that begins with something."""

    async def extended_page(request: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(beginning)
        await page(request, writer)

    return extended_page
