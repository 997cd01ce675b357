"""HTTP by hand, for what no client library would send."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.helpers.server.support import Site


@dataclass(frozen=True)
class Answer:
    """One answer, as it came."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Line:
    """A connection to the server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> Answer:
        """Read one answer."""
        async with asyncio.timeout(60):
            head = await self.reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")[:-2]
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            if headers.get("transfer-encoding") == "chunked":
                return Answer(int(first.split()[1]), headers, await self._chunks())
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
            return Answer(int(first.split()[1]), headers, body)

    async def _chunks(self) -> bytes:
        parts: list[bytes] = []
        while size := int(await self.reader.readline(), 16):
            parts.append(await self.reader.readexactly(size))
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)
        return b"".join(parts)

    async def rest(self) -> bytes:
        """Read until the server closes."""
        async with asyncio.timeout(60):
            return await self.reader.read()

    async def closed(self) -> bool:
        """Wait until the server has closed, and return whether nothing more came."""
        return await self.rest() == b""


@asynccontextmanager
async def line(site: Site) -> AsyncGenerator[Line]:
    """Connect to a site."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port, limit=2**22)
    try:
        yield Line(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError):  # the server may be quicker
            await writer.wait_closed()


def request(
    site: Site,
    method: str,
    path: str,
    body: bytes = b"",
    /,
    *,
    key: str | None = "ada",
    host: str | None = None,
    **headers: str,
) -> bytes:
    """Return a request; headers are written ``content_type="…"``."""
    sent = {"host": host or f"127.0.0.1:{site.port}"}
    if key:
        sent["authorization"] = f"Bearer {site.keys[key]}"
    if body or method in ("POST", "PUT", "PATCH"):
        sent["content-length"] = str(len(body))
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + body


async def ask(
    site: Site,
    method: str,
    path: str,
    body: bytes = b"",
    /,
    *,
    key: str | None = "ada",
    host: str | None = None,
    **headers: str,
) -> Answer:
    """Send one request on a connection of its own, and return its answer."""
    async with line(site) as connection:
        await connection.send(request(site, method, path, body, key=key, host=host, **headers))
        return await connection.answer()
