"""Connections that are kept between requests: what goes over them, and what ends them (spec 7, M17)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from capset.errors import ToolError, TransientError
from capset.net.addresses import Allowed
from capset.net.kept_connections import MAX_CONNECTIONS, HttpOrigin, KeptConnections, request_head
from tests.net.support import Listener, Names, listening
from tests.net.test_tls import Tls
from tests.waiting import until

pytestmark = [pytest.mark.spec("M17"), pytest.mark.realtime]

JSON = b"content-type: application/json\r\n"
HELLO = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n" + JSON + b"\r\nhello"
HEAD = request_head(b"/mcp", [(b"host", b"here")])
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
    there = Scripted(list(answers))
    async with listening(there, tls):
        yield there


def connections_to(there: Scripted) -> KeptConnections:
    allowed = Allowed.read([f"127.0.0.1:{there.port}"])
    return KeptConnections(HttpOrigin("http", "127.0.0.1", there.port), Names({}), allowed)


async def sent(connections: KeptConnections, body: bytes = b"{}") -> tuple[int, bytes]:
    response = await connections.send(HEAD + b"\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
    try:
        return response.status, b"".join([part async for part in response])
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
        ([HELLO.replace(JSON, b"connection: close\r\n")], False),
        ([HELLO + b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil"], False),
        ([HELLO + b"\0\0\0"], False),
    ],
)
async def test_a_response_is_read_to_its_end_and_its_connection_kept_if_another_may_follow(
    answer: Sequence[Part], is_kept: bool
) -> None:
    async with scripted(answer) as there:
        connections = connections_to(there)
        assert await sent(connections, b'{"a":1}') == (200, b"hello")
        assert await sent(connections) == (200, b"hello")
        assert there.requests[0] == b'POST /mcp HTTP/1.1\r\nhost: here\r\ncontent-length: 7\r\n\r\n{"a":1}'
        assert there.connections == (1 if is_kept else 2)
        await connections.aclose()


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ([None], "unreachable"),
        ([b"SSH-2.0-OpenSSH_9\r\n"], "unreachable"),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhello", None], "unreachable"),
        ([b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", None], "unreachable"),
        (
            [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n"],
            "unreachable",
        ),
        ([b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"], "unreachable"),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello"], "unreachable"),
        ([b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"], "unreachable"),
        ([b"HTTP/1.1 200 OK\r\nx: " + b"x" * 200_000], "headers_too_long"),
        ([b"HTTP/1.1 103 Early Hints\r\nx: y\r\n\r\n" * 5_000], "too_many_interim"),
        ([b"HTTP/1.1 102 Processing\r\n\r\n" * 9 + HELLO], "too_many_interim"),
        ([b"HTTP/1.1 200 OK\r\n" + b"a:\r\n" * 50_000], "headers_too_long"),
        ([b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;" + b"x" * 200_000], "headers_too_long"),
    ],
)
async def test_what_is_no_response_fails_and_ends_its_connection(answer: Sequence[Part], code: str) -> None:
    async with scripted(answer, [HELLO]) as there:
        connections = connections_to(there)
        with pytest.raises((ToolError, TransientError)) as raised:
            await asyncio.wait_for(sent(connections), 60)
        assert raised.value.code == code
        assert await sent(connections) == (200, b"hello")
        assert there.connections == 2
        await connections.aclose()


async def test_a_long_body_waits_for_its_reader() -> None:
    long = b"x" * 3_000_000
    async with scripted([b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\n\r\n" % (JSON, len(long)), long]) as there:
        connections = connections_to(there)
        response = await connections.send(HEAD + b"\r\ncontent-length: 0\r\n\r\n")
        await asyncio.sleep(0.1)
        assert response.whole(10_000_000) is None
        first = await anext(response)
        assert len(first) < 1_000_000
        assert first + b"".join([part async for part in response]) == long
        await response.aclose()
        assert await sent(connections) == (200, long)
        assert there.connections == 1
        await connections.aclose()


async def test_a_response_that_nobody_asked_for_is_taken_by_none_and_ends_its_connection() -> None:
    evil = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil"
    async with scripted([HELLO, 0.05, evil, 5.0], [HELLO]) as there:
        connections = connections_to(there)
        response = await connections.send(HEAD + b"\r\ncontent-length: 0\r\n\r\n")
        await until(lambda: not connections._open, "the connection to be closed")
        assert [part async for part in response] == [b"hello"]
        await response.aclose()
        assert await sent(connections) == (200, b"hello")
        assert there.connections == 2
        await connections.aclose()
    async with scripted([HELLO, 0.05, evil, 5.0], [HELLO]) as there:
        connections = connections_to(there)
        assert await sent(connections) == (200, b"hello")
        # It comes while the connection is idle.
        await until(lambda: not connections._open, "the connection to be closed")
        assert await sent(connections) == (200, b"hello")
        assert there.connections == 2
        await connections.aclose()


async def test_what_surrounds_a_body_ends_the_connection_though_nobody_reads() -> None:
    begun = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n1;"
    async with scripted([begun, 0.1, *(b"x" * 10_000 for _ in range(10_000))]) as there:
        connections = connections_to(there)
        response = await connections.send(HEAD + b"\r\ncontent-length: 0\r\n\r\n")
        await until(lambda: not there.serving)
        assert await anext(response) == b"x"
        with pytest.raises(ToolError, match="headers, or a line between them"):
            await anext(response)
        await response.aclose()
        await connections.aclose()


async def test_a_server_that_answers_without_reading_gathers_nothing_here() -> None:
    came, over = 0, asyncio.Event()

    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal came
        came += 1
        await reader.readexactly(10)
        writer.write(HELLO)
        await over.wait()
        writer.transport.abort()

    listening = await asyncio.start_server(answering, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    connections = KeptConnections(HttpOrigin("http", "127.0.0.1", port), Names({}), Allowed.read([f"127.0.0.1:{port}"]))
    for number in range(1, 4):
        assert await sent(connections, b"x" * 20_000_000) == (200, b"hello")
        assert came == number
    await connections.aclose()
    listening.close()
    over.set()
    await asyncio.sleep(0.05)


async def test_a_caller_that_leaves_closes_its_connection_and_no_other() -> None:
    async with scripted([5.0], [HELLO]) as there:
        connections = connections_to(there)
        leaving = asyncio.create_task(sent(connections))
        await until(lambda: there.requests)
        assert await sent(connections) == (200, b"hello")
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert await sent(connections) == (200, b"hello")
        await until(lambda: there.left)
        assert (there.left, there.connections) == (1, 2)
        await connections.aclose()


async def test_so_many_requests_run_at_once_and_others_wait() -> None:
    async with scripted([0.05, HELLO]) as there:
        connections = connections_to(there)
        assert await asyncio.gather(*(sent(connections) for _ in range(3 * MAX_CONNECTIONS))) == [(200, b"hello")] * 30
        assert there.connections == MAX_CONNECTIONS
        await connections.aclose()


async def test_one_that_its_server_closed_while_it_was_idle_is_not_used_again() -> None:
    async with scripted([HELLO, 0.05, None], [HELLO]) as there:
        connections = connections_to(there)
        assert await sent(connections) == (200, b"hello")
        await until(lambda: not connections._open, "the connection to be closed")
        assert await sent(connections) == (200, b"hello")
        assert there.connections == 2
        await connections.aclose()


async def test_closing_ends_what_runs() -> None:
    async with scripted([5.0]) as there:
        connections = connections_to(there)
        running = asyncio.create_task(sent(connections))
        await until(lambda: there.requests)
        await connections.aclose()
        with pytest.raises(TransientError):
            await running
        with pytest.raises(TransientError):
            await sent(connections)


@pytest.mark.spec("M2")
async def test_each_connection_is_to_an_address_that_was_checked_for_it() -> None:
    async with scripted([HELLO.replace(JSON, b"connection: close\r\n")]) as there:
        names = Names({"shop.example": [["127.0.0.1"], ["10.0.0.1"]]})
        allowed = Allowed.read(["127.0.0.1"])
        connections = KeptConnections(HttpOrigin("http", "shop.example", there.port), names, allowed)
        with pytest.raises(ToolError) as refused:
            await sent(connections)
        assert refused.value.code == "address_refused"
        assert there.connections == 0
        nobody = KeptConnections(HttpOrigin("http", "nobody.example", there.port), names, allowed)
        with pytest.raises(ToolError) as unknown:
            await sent(nobody)
        assert unknown.value.code == "unknown_host"


@pytest.mark.spec("M2")
async def test_tls_is_spoken_with_the_name_of_the_url(tmp_path: Path) -> None:
    tls = Tls(tmp_path, "localhost")
    async with scripted([HELLO], tls=tls.server) as there:
        allowed = Allowed.read([f"localhost:{there.port}"])
        names = Names({"localhost": [["127.0.0.1"]], "other": [["127.0.0.1"]]})
        connections = KeptConnections(HttpOrigin("https", "localhost", there.port), names, allowed, tls.client)
        assert await sent(connections) == (200, b"hello")
        assert await sent(connections) == (200, b"hello")
        assert (tls.named, there.connections) == (["localhost"], 1)
        await connections.aclose()
        strangers = KeptConnections(HttpOrigin("https", "localhost", there.port), names, allowed)
        with pytest.raises(ToolError, match="certificate") as refused:
            await sent(strangers)
        assert refused.value.code == "tls_failed"


def test_a_header_ends_no_line() -> None:
    for bad in (b"a\r\nx: y", b"a\nb", b"a\0b"):
        with pytest.raises(ValueError, match="line break"):
            request_head(b"/", [(b"mcp-name", bad)])
