"""The first byte of each hop, and the body, have their time; nothing ends before it, and nothing long after it."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import httpcore2
import pytest

from capset_testing import session_for
from capset_tools.web_fetch import WebFetchConfig, web_fetch
from tests.helpers.net.support import PUBLIC, Answer, Bottle, Names, answer, redirect, server
from tests.helpers.tools.web_fetch.support import (
    BODY,
    CHUNKED,
    FIRST,
    FOR_EVER,
    HTML,
    PLAIN,
    Clock,
    Page,
    after,
    endless,
    head,
    saying,
    trickling,
)
from tests.helpers.tools.web_fetch.support import site as patient_site

pytestmark = pytest.mark.realtime

site = partial(patient_site, first_byte=FIRST, body=BODY)
"""Opens a site with short deadlines."""
LATE = "server did not respond within 0.3 seconds"
TIMED_OUT = "[..more content timed out...]"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

SILENT: dict[str, Page] = {
    "nothing": saying(FOR_EVER),
    "half a line": saying(b"HTTP/1.1 2", FOR_EVER),
    "half the headers": saying(b"HTTP/1.1 200 OK\r\nX: 1\r\n", FOR_EVER),
    "a byte at a time": trickling(b"HTTP/1.1 200 OK\r\n" + b"X: 1\r\n" * 1_000, 0.05),
    "headers without end": after(b"HTTP/1.1 200 OK\r\n", trickling(b"X", 0.01)),
    "continue and silence": saying(CONTINUE, FOR_EVER),
}


@pytest.mark.gate
@pytest.mark.spec("P26", "T27")
async def test_servers_that_do_not_answer_are_given_up() -> None:
    quiet: dict[str, Answer] = {f"/{number}": page for number, page in enumerate(SILENT.values())}
    requests = [(path, method) for path in quiet for method in ("GET", "HEAD")]
    async with site(pages=quiet) as it:
        with Clock(FIRST):
            errors = await asyncio.gather(*(it.failed(path, method=method) for path, method in requests))
    assert dict(zip(requests, errors, strict=True)) == dict.fromkeys(requests, (504, "timeout", LATE))


@pytest.mark.spec("P26")
async def test_the_real_first_byte_has_one_second() -> None:
    async with (
        server({"/late": saying(FOR_EVER)}) as page_server,
        session_for(web_fetch, permissions=["http:read"], config=WebFetchConfig(allow=("127.0.0.1",))) as desk,
    ):
        tool = desk.session.snapshot.tools["web_fetch"].tool
        with Clock(1.0):
            result = await desk.session.try_call(tool, page_server.url("/late"))
    assert result.error is not None
    assert result.error.message == "server did not respond within 1 second"


@pytest.mark.spec("P26")
async def test_each_hop_has_a_time_of_its_own() -> None:
    soon = 0.6
    pages: dict[str, Any] = {
        "/one": saying(soon, redirect("/two")),
        "/two": saying(soon, redirect("/three")),
        "/three": saying(soon, answer(body=b"there", content_type="text/plain")),
        "/page": saying(soon, redirect("/late")),
        "/late": saying(FOR_EVER),
    }
    async with site(pages=pages, first_byte=1) as it:
        with Clock(3 * soon):
            fetched, failed = await asyncio.gather(it.answered("/one"), it.failed("/page"))
    assert fetched["content"] == "there"
    assert failed[2] == "server did not respond within 1 second"


@pytest.mark.spec("P26")
async def test_looking_up_a_name_is_part_of_it() -> None:
    async def slow(host: str, /) -> Sequence[str]:
        await asyncio.sleep(FOR_EVER)
        return []

    async with site(resolver=slow) as it:
        with Clock(FIRST):
            assert (await it.failed("http://shop.example/"))[1:] == ("timeout", LATE)


@pytest.mark.spec("P26")
async def test_connecting_is_part_of_it() -> None:
    class Nowhere(Bottle):
        async def connect_tcp(self, *where: Any, **how: Any) -> httpcore2.AsyncNetworkStream:
            await asyncio.sleep(FOR_EVER)
            raise httpcore2.ConnectError

    names = Names({"shop.example": [[PUBLIC]]})
    async with site(resolver=names, network=Nowhere(0)) as it:
        with Clock(FIRST):
            assert (await it.failed("http://shop.example/"))[1:] == ("timeout", LATE)


@pytest.mark.spec("P26")
@pytest.mark.parametrize("beginning", [b"", b"\x16\x03\x03", b"\x16\x03\x03\x40\x00" + b"\x02" * 100])
async def test_the_handshake_of_tls_is_part_of_it(beginning: bytes) -> None:
    gone = asyncio.Event()

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(beginning)
        try:
            while await reader.read(1_000):
                pass
        except ConnectionError:
            pass
        gone.set()
        writer.close()

    async with site() as it, await asyncio.start_server(half, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        with Clock(FIRST):
            assert (await it.failed(f"https://127.0.0.1:{port}/"))[1:] == ("timeout", LATE)
        await asyncio.wait_for(gone.wait(), 60)


FLOOD = "gzip of nothing"
STALLED: dict[str, tuple[Page, str]] = {
    "before it": (saying(head(HTML, "Content-Length: 9"), FOR_EVER), ""),
    "in the middle": (saying(head(HTML, "Content-Length: 9"), b"half", FOR_EVER), "half"),
    "in a letter": (saying(head(HTML, "Content-Length: 9"), "hü".encode()[:-1], FOR_EVER), "h"),
    "in a chunk": (saying(head(HTML, CHUNKED), b"4\r\nhalf\r\n5\r\nan", FOR_EVER), "halfan"),
    "in a length": (saying(head(HTML, CHUNKED), b"4\r\nhalf\r\n", FOR_EVER), "half"),
    "in trailers": (saying(head(HTML, CHUNKED), b"4\r\nhalf\r\n0\r\nX", FOR_EVER), "half"),
    "until it closes": (saying(head(HTML), b"half", FOR_EVER), "half"),
    "of no known type": (saying(head("Content-Length: 9"), b"half", FOR_EVER), "half"),
    "a byte at a time": (after(head(PLAIN), trickling(b" ", 0.02)), " "),
    "gzip": (saying(head(HTML, "Content-Encoding: gzip"), gzip.compress(b"half")[:-8], FOR_EVER), "half"),
    FLOOD: (
        after(head(HTML, "Content-Encoding: gzip"), endless(b"", gzip.compress(b"", mtime=0) * 50)),
        "",
    ),
}


@pytest.mark.spec("P26", "T27")
@pytest.mark.parametrize("pages", [[name for name in STALLED if name != FLOOD], [FLOOD]], ids=["quiet", "flood"])
async def test_of_a_body_that_stalls_there_is_what_came(pages: list[str]) -> None:
    paths = {f"/{number}": STALLED[name] for number, name in enumerate(pages)}
    async with site(pages={path: page for path, (page, _) in paths.items()}, first_byte=FOR_EVER) as it:
        with Clock(BODY):
            answers = await asyncio.gather(*(it.answered(path) for path in paths))
    for name, fetched in zip(pages, answers, strict=True):
        text = STALLED[name][1]
        assert fetched["content"].strip() == text.strip() + TIMED_OUT, name
        assert fetched["content"].startswith(text), name
        assert (fetched["status_code"], fetched["truncated"], fetched["format"]) == (200, True, "raw"), name


@pytest.mark.spec("P26")
async def test_html_that_stalls_is_converted_as_far_as_it_came() -> None:
    async with site(saying(head(HTML), b"<h1>Half</h1><p>an <b>ans", FOR_EVER), first_byte=FOR_EVER) as it:
        markdown, text = await asyncio.gather(it.answered(as_markdown=True, as_text=True), it.answered(as_text=True))
    assert (markdown["content"], markdown["format"]) == ("# Half\n\nan **ans**" + TIMED_OUT, "markdown")
    assert text["format"] == "text"
    assert text["content"].startswith("Half")
    assert text["content"].endswith("ans" + TIMED_OUT)


@pytest.mark.spec("P26")
async def test_nothing_ends_early() -> None:
    """An answer at the last moment, and a body that takes nearly all of its time, in pieces and after a redirect."""
    pieces = [piece for number in range(8) for piece in (f"{number}".encode(), 0.15)]
    page = saying(0.6, head(PLAIN, "Content-Length: 9"), *pieces, b"8")
    async with site(page, pages={"/first": saying(0.6, redirect("/page"))}, first_byte=1, body=2) as it:
        with Clock(2.4):
            fetched = await it.answered("/first")
    assert (fetched["content"], fetched["truncated"], fetched["size"]) == ("012345678", False, 9)


@pytest.mark.spec("P26")
async def test_a_body_that_comes_for_ever_and_decodes_to_nothing_ends() -> None:
    compressor = zlib.compressobj(wbits=31)
    beginning = compressor.compress(b"") + compressor.flush(zlib.Z_FULL_FLUSH)
    page = endless(head(HTML, "Content-Encoding: gzip") + beginning, b"\0\0\0\xff\xff" * 10_000)
    async with site(page, first_byte=FOR_EVER) as it:
        with Clock(BODY):
            fetched = await it.answered()
    assert (fetched["content"], fetched["size"], fetched["truncated"]) == (TIMED_OUT, 0, True)


@pytest.mark.spec("P26")
async def test_others_are_served_meanwhile() -> None:
    """A hostile answer leaves the event loop to others."""
    longest = 0.0
    done = asyncio.Event()

    async def beat() -> None:
        nonlocal longest
        loop = asyncio.get_running_loop()
        while not done.is_set():
            began = loop.time()
            await asyncio.sleep(0.01)
            longest = max(longest, loop.time() - began)

    page = endless(head(HTML, CHUNKED), b"1\r\n<\r\n" * 10_000)
    async with site(page, first_byte=FOR_EVER) as it:
        beating = asyncio.create_task(beat())
        await it.answered(as_markdown=True)
        done.set()
        await beating
    assert longest < 2


@pytest.mark.spec("P26")
@pytest.mark.parametrize("beginning", [b"", head(HTML), head(HTML) + b"half"], ids=["before", "at", "within"])
async def test_who_cancels_closes_the_connection(beginning: bytes) -> None:
    received, closed = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(beginning)
        received.set()
        with suppress(ConnectionError):
            await reader.read()
        closed.set()
        writer.close()

    async with site(first_byte=FOR_EVER, body=FOR_EVER) as it, await asyncio.start_server(serve, "127.0.0.1", 0) as at:
        url = f"http://127.0.0.1:{at.sockets[0].getsockname()[1]}/"
        calling = asyncio.create_task(it.answered(url))
        await asyncio.wait_for(received.wait(), 60)
        await asyncio.sleep(0.1)
        assert not closed.is_set()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await asyncio.wait_for(closed.wait(), 60)
