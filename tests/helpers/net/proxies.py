"""An HTTP proxy."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from capset.net.proxies import Proxy, ProxySelector
from tests.helpers.net.support import Listener, answer, listening
from tests.helpers.net.tls import Tls


@dataclass
class ProxyServer(Listener):
    """A proxy of the test's own, which leads every request and every tunnel to one port of this machine."""

    target_port: int = 0
    status: int = 200
    """The answer to CONNECT."""
    port: int = 0
    lines: list[str] = field(default_factory=list[str])
    """The first line of each request."""
    credentials: list[str] = field(default_factory=list[str])
    serving: set[asyncio.Task[object]] = field(default_factory=set[asyncio.Task[object]])

    def proxies(self, credentials: str = "", scheme: str = "http") -> ProxySelector:
        return lambda _scheme, _host, _port: Proxy(scheme, "127.0.0.1", self.port, credentials)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        line, *headers = head.decode().split("\r\n")
        self.lines.append(line)
        self.credentials += [
            header.partition(": ")[2] for header in headers if header.lower().startswith("proxy-authorization")
        ]
        if line.startswith("CONNECT ") and self.status != 200:
            writer.write(answer(self.status))
            await writer.drain()
            return
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
        if line.startswith("CONNECT "):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            method, url, version = line.split(" ")
            path = "/" + url.split("/", 3)[3]
            there_writer.write(f"{method} {path} {version}\r\n".encode() + head.partition(b"\r\n")[2])
        try:
            await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))
        finally:
            there_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


@asynccontextmanager
async def proxy_to(port: int, status: int = 200, tls: ssl.SSLContext | None = None) -> AsyncGenerator[ProxyServer]:
    proxy = ProxyServer(port, status)
    async with listening(proxy, tls):
        yield proxy


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return Tls(tmp_path_factory.mktemp("tls"))
