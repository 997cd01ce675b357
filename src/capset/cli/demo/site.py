"""A web site for the demo, on a free local port: one page."""

from __future__ import annotations

import asyncio
import html
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


@asynccontextmanager
async def serving_page(title: str, lines: list[str]) -> AsyncGenerator[str]:
    """Serve a page with a heading and one line per paragraph for every request; yield its ``host:port``."""
    body = page_of(title, lines).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head.encode() + body)
            await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


def page_of(title: str, lines: list[str]) -> str:
    """Return an HTML page, with a script that a conversion must leave out."""
    said = "\n".join(f"<p>{html.escape(line)}</p>" for line in lines)
    return f"""<!doctype html>
<html lang="en"><head><title>{html.escape(title)}</title><script>alert("not for readers")</script></head>
<body><h1>{html.escape(title)}</h1>
{said}
</body></html>"""
