"""Pools of connections to checked addresses: what goes over them, and what ends them (spec 7, M17)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import httpcore2
import pytest

from capset.errors import ToolError, TransientError
from capset.net.addresses import HostAllowlist, NotSent
from capset.net.connections import BUSY, MAX_CONNECTIONS, CheckedNetwork, CheckedPool, convert_failures, tls_context
from tests.helpers.net.support import Listener, Names, listening
from tests.helpers.net.tls import Tls
from tests.waiting import until

pytestmark = [pytest.mark.spec("M17"), pytest.mark.realtime]

OK = (200, b"hello")
HELLO = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
EVIL = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil"
Part = bytes | float | None
"""What a server sends, the seconds that it waits, or the end of its connection."""


@dataclass
class Scripted(Listener):
    """A server that answers each request with the next of its answers, the last one for ever."""

    answers: list[Sequence[Part]]
    port: int = 0
    connections: int = 0
    requests: list[bytes] = field(default_factory=list[bytes])
    serving: set[asyncio.Task[object]] = field(default_factory=set[asyncio.Task[object]])
    left: int = 0
    """How many clients left before their answer was there."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.partition(b"content-length: ")[2].partition(b"\r")[0])
            self.requests.append(head + await reader.readexactly(length))
            for part in self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]:
                if isinstance(part, int | float):
                    with suppress(TimeoutError):
                        self.left += await asyncio.wait_for(reader.read(1), part) == b""
                elif part is None:
                    return
                else:
                    writer.write(part)
                    await writer.drain()


@asynccontextmanager
async def scripted(*answers: Sequence[Part], tls: ssl.SSLContext | None = None) -> AsyncGenerator[Scripted]:
    server = Scripted(list(answers))
    async with listening(server, tls):
        yield server


@asynccontextmanager
async def pooled(*answers: Sequence[Part]) -> AsyncGenerator[tuple[Scripted, CheckedPool]]:
    async with scripted(*answers) as server:
        pool = CheckedPool(CheckedNetwork(Names({}), HostAllowlist.parse([f"127.0.0.1:{server.port}"])), tls_context)
        yield server, pool
        await pool.aclose()


async def sent(
    pool: CheckedPool, port: int, host: str = "127.0.0.1", scheme: str = "http", pool_timeout: float | None = None
) -> tuple[int, bytes]:
    url = httpcore2.URL(scheme=scheme, host=host, port=port, target="/mcp")
    headers = [(b"host", b"here"), (b"content-length", b"2")]
    extensions = {"timeout": {"pool": pool_timeout}}
    request = httpcore2.Request(b"POST", url, headers=headers, content=b"{}", extensions=extensions)
    with convert_failures(host):
        response = await pool.handle_async_request(request)
        try:
            return response.status, b"".join([part async for part in cast("AsyncIterable[bytes]", response.stream)])
        finally:
            await response.aclose()


@pytest.mark.parametrize(
    ("answer", "is_kept"),
    [
        ([HELLO], True),
        ([HELLO[:20], HELLO[20:-2], 0.02, HELLO[-2:]], True),
        ([b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n", 0.02, b"3\r\nllo\r\n0\r\n\r\n"], True),
        ([b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 8 + HELLO], True),
        ([b"HTTP/1.1 200 OK\r\n\r\nhello", None], False),
        ([HELLO.replace(b"\r\n", b"\r\nconnection: close\r\n", 1)], False),
        ([HELLO + EVIL], False),
    ],
)
async def test_a_connection_is_kept_after_a_response_if_another_may_follow(
    answer: Sequence[Part], is_kept: bool
) -> None:
    async with pooled(answer) as (server, pool):
        for _ in range(2):  # nobody asked for what followed the first
            assert await sent(pool, server.port) == OK
        assert server.requests[0] == b"POST /mcp HTTP/1.1\r\nhost: here\r\ncontent-length: 2\r\n\r\n{}"
        assert server.connections == (1 if is_kept else 2)


async def test_what_comes_or_ends_while_a_connection_is_idle_ends_its_use() -> None:
    for after in (EVIL, None):
        async with pooled([HELLO, 0.05, after, 5.0], [HELLO]) as (server, pool):
            assert await sent(pool, server.port) == OK
            await asyncio.sleep(0.3)
            assert await sent(pool, server.port) == OK
            assert server.connections == 2


async def test_a_caller_that_leaves_closes_its_connection_and_no_other() -> None:
    async with pooled([5.0], [HELLO]) as (server, pool):
        leaving = asyncio.create_task(sent(pool, server.port))
        await until(lambda: server.requests)
        assert await sent(pool, server.port) == OK
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert await sent(pool, server.port) == OK
        await until(lambda: server.left)
        assert (server.left, server.connections) == (1, 2)


async def test_so_many_requests_run_at_once_and_others_wait() -> None:
    async with pooled([0.05, HELLO]) as (server, pool):
        expected = [OK] * 3 * MAX_CONNECTIONS
        assert await asyncio.gather(*(sent(pool, server.port) for _ in expected)) == expected
        assert server.connections == MAX_CONNECTIONS


async def test_a_request_that_waits_too_long_for_others_was_not_sent() -> None:
    async with pooled([5.0]) as (server, pool):
        running = [asyncio.create_task(sent(pool, server.port)) for _ in range(MAX_CONNECTIONS)]
        await until(lambda: len(server.requests) == MAX_CONNECTIONS)
        with pytest.raises(NotSent) as busy:
            await sent(pool, server.port, pool_timeout=0.05)
        assert (busy.value.code, len(server.requests)) == (BUSY, MAX_CONNECTIONS)
        await pool.aclose()
        await asyncio.wait(running)
        assert all(isinstance(task.exception(), TransientError) for task in running)


async def test_a_connection_that_is_made_while_its_pool_closes_is_not_used() -> None:
    looking, goes_on = asyncio.Event(), asyncio.Event()

    async def resolver(_: str, /) -> list[str]:
        looking.set()
        await goes_on.wait()
        return ["127.0.0.1"]

    async with scripted([HELLO]) as server:
        pool = CheckedPool(CheckedNetwork(resolver, HostAllowlist.parse([f"shop.example:{server.port}"])), tls_context)
        late = asyncio.create_task(sent(pool, server.port, "shop.example"))
        await looking.wait()
        await pool.aclose()
        goes_on.set()
        with pytest.raises(NotSent):
            await late
        assert server.requests == []


async def test_closing_ends_what_runs() -> None:
    async with pooled([5.0]) as (server, pool):
        running = asyncio.create_task(sent(pool, server.port))
        await until(lambda: server.requests)
        await pool.aclose()
        with pytest.raises(TransientError):
            await running
        with pytest.raises(TransientError):
            await sent(pool, server.port)
        assert server.connections == 1


@pytest.mark.spec("M2")
async def test_each_connection_is_to_an_address_that_was_checked_for_it() -> None:
    async with scripted([HELLO.replace(b"\r\n", b"\r\nconnection: close\r\n", 1)]) as server:
        names = Names({"shop.example": [["127.0.0.1"]]})
        pool = CheckedPool(CheckedNetwork(names, HostAllowlist.parse([f"shop.example:{server.port}"])), tls_context)
        assert await sent(pool, server.port, "shop.example") == OK
        names.known["shop.example"] = [["127.0.0.1", "169.254.169.254"]]
        with pytest.raises(ToolError) as refused:
            await sent(pool, server.port, "shop.example")
        assert (refused.value.code, server.connections) == ("address_refused", 1)
        with pytest.raises(ToolError) as unknown:
            await sent(pool, server.port, "nobody.example")
        assert unknown.value.code == "unknown_host"
        await pool.aclose()


@pytest.mark.spec("M2")
async def test_tls_is_spoken_with_the_name_of_the_url(tmp_path: Path) -> None:
    tls = Tls(tmp_path, "localhost")
    async with scripted([HELLO], tls=tls.server) as server:

        def network() -> CheckedNetwork:
            allowed = HostAllowlist.parse([f"localhost:{server.port}"])
            return CheckedNetwork(Names({"localhost": [["127.0.0.1"]]}), allowed)

        pool = CheckedPool(network(), lambda: tls.client)
        for _ in range(2):
            assert await sent(pool, server.port, "localhost", "https") == OK
        assert (tls.named, server.connections) == (["localhost"], 1)
        await pool.aclose()
        strangers = CheckedPool(network(), tls_context)
        with pytest.raises(ToolError, match="certificate"):
            await sent(strangers, server.port, "localhost", "https")
        await strangers.aclose()
