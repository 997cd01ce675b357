"""HTTP/1.1 by hand: one connection, no more work for each request than the measurement needs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

_LENGTH = re.compile(rb"(?i)\r\ncontent-length: (\d+)")
CLOSED = 0
"""The status of an answer that never came: the server closed the connection."""


class Answer(NamedTuple):
    """A status, ``CLOSED`` for none, and a body."""

    status: int
    body: bytes

    @property
    def json(self) -> Any:  # any JSON
        """The body as JSON."""
        return json.loads(self.body)


class Connection:
    """A connection to a server on this machine, opened when it is used and after it was closed."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        """Return the connection."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return the streams."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self.port, limit=2**16)
        return self._streams

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def ask(self, request: bytes, *, whole: bool = False) -> Answer:
        """Send a request and return its answer; that of a stream without a body, unless it is to be ``whole``."""
        with _as_closed() as answer:
            reader, writer = await self.open()
            writer.write(request)
            await writer.drain()
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            body = b""
            if length:
                body = await reader.readexactly(int(length[1]))
            elif b"chunked" in head and whole:
                body = await _chunks(reader)
            elif b"chunked" in head:
                self.close()  # what is read of a stream is the attack's business
            if b"connection: close" in head.lower():
                self.close()
            answer.append(Answer(int(head[9:12]), body))
        if answer[-1].status == CLOSED:
            self.close()
        return answer[-1]


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    chunks: list[bytes] = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        chunks.append((await reader.readexactly(size + 2))[:-2])
    await reader.readexactly(2)
    return b"".join(chunks)


@contextmanager
def _as_closed() -> Generator[list[Answer]]:
    answers: list[Answer] = []
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        yield answers
    if not answers:
        answers.append(Answer(CLOSED, b""))


async def in_time(connection: Connection, http_request: bytes, timeout: float) -> str:
    """Send a request and return the status as text: ``closed`` without an answer, ``silent`` if none came in time."""
    try:
        async with asyncio.timeout(timeout):
            answer = await connection.ask(http_request)
    except TimeoutError:
        connection.close()
        return "silent"
    return status(answer)


def status(answer: Answer) -> str:
    """Return a status as text, ``closed`` if there was none."""
    return str(answer.status or "closed")


def request(
    method: str, path: str, key: str | None = None, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> bytes:
    """Return a request, with the key of its caller."""
    lines = {"host": "127.0.0.1"}
    if key is not None:
        lines["authorization"] = f"Bearer {key}"
    if body or method in ("POST", "PUT", "PATCH"):
        lines |= {"content-type": "application/json", "content-length": str(len(body))}
    lines |= headers or {}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body
