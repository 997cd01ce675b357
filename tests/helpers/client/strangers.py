"""Servers that are not capset: they answer every connection with the same bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.waiting import moment


@dataclass
class Stranger:
    """Where it is, and the heads of the requests that came."""

    url: str = ""
    heads: list[str] = field(default_factory=list[str])


def answer(status: str, media_type: str, body: bytes, *more: str) -> bytes:
    """Return a whole HTTP answer."""
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {media_type}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *more,
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + body


def events(body: bytes, *more: str) -> bytes:
    """Return the answer of a stream of server-sent events that ends with its connection."""
    head = ["HTTP/1.1 200 OK", "Content-Type: text/event-stream; charset=utf-8", "Connection: close", *more, "", ""]
    return "\r\n".join(head).encode() + body


@asynccontextmanager
async def stranger(*parts: bytes, stays: bool = False) -> AsyncGenerator[Stranger]:
    """Answer with these parts, a moment apart; then close the connection, unless the server ``stays``."""
    peer, over = Stranger(), asyncio.Event()
    serving: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        try:
            peer.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            for part in parts:
                writer.write(part)
                await writer.drain()
                await moment(0.01)
            if stays:
                await over.wait()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    peer.url = f"http://{host}:{port}"
    try:
        yield peer
    finally:
        over.set()
        server.close()
        await server.wait_closed()
        await asyncio.gather(*(task for task in serving if task is not None))
