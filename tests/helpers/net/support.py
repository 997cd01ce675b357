"""Real servers on this machine, and an Internet in a bottle whose public addresses lead to them."""

from __future__ import annotations

import asyncio
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import cast

import httpcore2

from capset.net.client import HttpClient
from capset.net.response import Body, HttpResponse

PUBLIC = "93.184.216.34"
"""An address of the open Internet, to which no test connects."""


@dataclass
class Asked:
    """A request as it came over the wire; names of headers are lower-case."""

    method: str
    target: str
    headers: dict[str, str]


Answer = bytes | Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


class Listener(ABC):
    """A server of a test: its port once it listens, and the connections that it serves."""

    port: int
    serving: set[asyncio.Task[object]]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.serving.add(task := cast("asyncio.Task[object]", asyncio.current_task()))
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has gone, or the test is over
        except RuntimeError:
            if not writer.is_closing():
                raise
            # uvloop says so of who writes to a client that has gone
        finally:
            self.serving.discard(task)
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    @abstractmethod
    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None: ...


@dataclass
class Server(Listener):
    """Answers by path; what it was asked is in ``asked``."""

    port: int
    pages: dict[str, Answer]
    asked: list[Asked] = field(default_factory=list)
    serving: set[asyncio.Task[object]] = field(default_factory=set)

    def url(self, target: str = "/", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{target}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, target, _ = head[0].split(" ")
        pairs = (line.partition(": ") for line in head[1:] if line)
        headers = {name.lower(): value for name, _, value in pairs}
        request = Asked(method, target, headers)
        self.asked.append(request)
        page = self.pages.get(target.partition("?")[0], answer(404, b"nothing here"))
        if isinstance(page, bytes):
            writer.write(page if method == "GET" else page.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
            await writer.drain()
        else:
            await page(request, writer)


@asynccontextmanager
async def listening(listener: Listener, tls: ssl.SSLContext | None = None) -> AsyncGenerator[None]:
    """Have a server listen on a free port of 127.0.0.1, and end its connections with it."""
    tcp_server = await asyncio.start_server(listener.serve, "127.0.0.1", 0, ssl=tls)
    listener.port = tcp_server.sockets[0].getsockname()[1]
    try:
        yield
    finally:
        tcp_server.close()
        while listener.serving:
            for task in list(listener.serving):
                task.cancel()
            await asyncio.wait(listener.serving)


@asynccontextmanager
async def server(
    pages: Mapping[str, Answer] | None = None, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[Server]:
    """Start a server on a free port of 127.0.0.1."""
    page_server = Server(0, dict(pages or {}))
    async with listening(page_server, tls):
        yield page_server


def answer(status: int = 200, body: bytes = b"", **headers: str) -> bytes:
    """Return a whole answer; an underscore in a header's name stands for a hyphen."""
    fields = {"content-length": str(len(body)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} Said\r\n{lines}\r\n".encode() + body


def redirect(location: str, status: int = 302) -> bytes:
    return answer(status, b"go there", location=location)


@dataclass
class Names:
    """A resolver that knows some names; of several answers to one name it gives each once, and the last for ever."""

    known: dict[str, list[list[str]]]
    asked: list[str] = field(default_factory=list)

    async def __call__(self, host: str, /) -> list[str]:
        self.asked.append(host)
        answers = self.known.get(host)
        if answers is None:
            raise OSError(f"{host} is unknown")
        return answers.pop(0) if len(answers) > 1 else answers[0]


class Bottle(httpcore2.AsyncNetworkBackend):
    """Connects to a port of this machine whatever checked address is asked for, and keeps which it was."""

    def __init__(self, port: int, unreachable: Iterable[str] = ()) -> None:
        self.port = port
        self.dialled: list[tuple[str, int]] = []
        self._unreachable = frozenset(unreachable)
        self._real = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.dialled.append((host, port))
        if host in self._unreachable:
            raise httpcore2.ConnectError("unreachable")
        return await self._real.connect_tcp("127.0.0.1", self.port, timeout, local_address, socket_options)


async def fetched(
    client: HttpClient,
    url: str,
    *,
    limit: int = 1_000_000,
    timeout: float = 10,
    headers: Mapping[str, str] | None = None,
) -> tuple[HttpResponse, Body]:
    """Ask with GET and read the whole."""
    async with client.open("GET", url, timeout=timeout, headers=headers) as response:
        return response, await response.read(limit)
