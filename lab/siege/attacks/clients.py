"""Clients that send slowly, read nothing, or come in numbers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator

from lab.siege.attack import Attack
from lab.siege.connection import Connection, request
from lab.siege.site import Site

_MIB = 2**20


@contextlib.asynccontextmanager
async def _opened(port: int) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**12)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def _unread(site: Site, until: float) -> Counter[str]:
    """Ask for files of 20 MB on 32 connections, and read none of them."""
    path = f"/v1/sessions/{site.attacker.session}/files/large.bin"
    async with Connection(site.port) as connection:
        put = await connection.ask(request("PUT", path, site.attacker.key, os.urandom(20 * _MIB)))
    answers = Counter({str(put.status): 1})

    async def leave_unread() -> None:
        async with _opened(site.port) as (_, writer):
            writer.write(request("GET", path, site.attacker.key))
            await asyncio.sleep(max(0.0, until - time.monotonic()))
            answers["unread"] += 1

    await asyncio.gather(*(leave_unread() for _ in range(32)))
    return answers


async def _trickle(site: Site, until: float) -> Counter[str]:
    """Declare bodies of 16 MB on 200 connections, send a megabyte of each, and then a byte a second."""
    path, answers = f"/v1/sessions/{site.attacker.session}/calls", Counter[str]()
    head = request("POST", path, site.attacker.key, headers={"content-length": str(16 * _MIB)})

    async def trickle() -> None:
        async with _opened(site.port) as (reader, writer):
            writer.write(head + b" " * _MIB)
            while time.monotonic() < until and not writer.is_closing():
                writer.write(b" ")
                with contextlib.suppress(TimeoutError, OSError):
                    async with asyncio.timeout(1):
                        line = await reader.readline()
                    answers[line[9:12].decode() or "closed"] += 1
                    return
            answers["trickled"] += 1

    await asyncio.gather(*(trickle() for _ in range(200)))
    return answers


async def _idle(site: Site, until: float) -> Counter[str]:
    """Open 800 connections, and send half a request on each."""
    answers: Counter[str] = Counter()

    async def stay_idle() -> None:
        with contextlib.suppress(OSError):
            async with _opened(site.port) as (_, writer):
                writer.write(b"GET /v1/healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx: ")
                await asyncio.sleep(max(0.0, until - time.monotonic()))
                answers["idle"] += 1
                return
        answers["closed"] += 1

    await asyncio.gather(*(stay_idle() for _ in range(800)))
    return answers


async def _reads(site: Site, until: float) -> Counter[str]:
    """Read as fast as 64 connections can."""
    http_request, answers = request("GET", f"/v1/agents/{site.attacker.agent}", site.attacker.key), Counter[str]()

    async def keep_reading() -> None:
        async with Connection(site.port) as connection:
            while time.monotonic() < until:
                answers[str((await connection.ask(http_request)).status)] += 1

    await asyncio.gather(*(keep_reading() for _ in range(64)))
    return answers


async def _uploads(site: Site, until: float) -> Counter[str]:
    """Write files of 8 MB on eight connections, again and again."""
    content, answers = os.urandom(8 * _MIB), Counter[str]()

    async def upload(number: int) -> None:
        path = f"/v1/sessions/{site.attacker.session}/files/{number}.bin"
        http_request = request("PUT", path, site.attacker.key, content)
        async with Connection(site.port) as connection:
            while time.monotonic() < until:
                answers[str((await connection.ask(http_request)).status or "closed")] += 1

    await asyncio.gather(*map(upload, range(8)))
    return answers


_ALIVE = frozenset({"200", "201", "503", "429", "closed"})
ATTACKS = (
    Attack("32 downloads of 20 MB, unread", _unread, _ALIVE | {"unread"}),
    Attack("200 bodies of 16 MB that trickle", _trickle, _ALIVE | {"trickled", "408"}),
    Attack("800 unfinished requests", _idle, _ALIVE | {"idle"}),
    Attack("64 readers", _reads, _ALIVE),
    Attack("8 uploads of 8 MB", _uploads, _ALIVE),
)
