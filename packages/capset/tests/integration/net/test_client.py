"""The guarded client against real servers: where it goes, what it sends, what it takes, and when it gives up."""

from __future__ import annotations

import asyncio
import gzip
import os
from typing import Any

import httpcore2
import pytest

from capset import ToolError
from capset.errors import TransientError
from capset.net.client import HttpClient
from tests.helpers.net.support import PUBLIC, Asked, Bottle, Names, answer, fetched, redirect, server

LOCAL = HttpClient(allow=["127.0.0.1"])


async def stall(request: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nthe beginning")
    await writer.drain()
    await asyncio.sleep(3_600)


async def silence(request: Asked, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(3_600)


@pytest.mark.spec("G29")
async def test_it_connects_to_the_address_that_was_checked_and_asks_for_it_once() -> None:
    names = Names({"shop.example": [[PUBLIC], ["127.0.0.1"]]})
    async with server({"/a": answer(body=b"hello")}) as site:
        bottle = Bottle(site.port)
        response, body = await fetched(HttpClient(resolver=names, network=bottle), "http://shop.example/a?b=c#d")
    assert (response.status, response.url, body.data) == (200, "http://shop.example/a?b=c", b"hello")
    assert names.asked == ["shop.example"]
    assert bottle.dialled == [(PUBLIC, 80)]
    assert site.asked[0].headers["host"] == "shop.example"


@pytest.mark.spec("G29")
async def test_every_hop_is_looked_up_and_checked_again() -> None:
    names = Names({"shop.example": [[PUBLIC], ["127.0.0.1"]]})
    async with server({"/": redirect("/again")}) as site:
        bottle = Bottle(site.port)
        with pytest.raises(ToolError) as refused:
            await fetched(HttpClient(resolver=names, network=bottle), "http://shop.example/")
    assert refused.value.code == "address_refused"
    assert names.asked == ["shop.example", "shop.example"]
    assert bottle.dialled == [(PUBLIC, 80)]
    assert [request.target for request in site.asked] == ["/"]


@pytest.mark.spec("G29")
@pytest.mark.parametrize("others", [["127.0.0.1"], ["fe80::1%eth0"], ["::ffff:8.8.8.8"], ["8.8.4.4", "10.0.0.1"]])
async def test_one_refused_address_of_a_name_refuses_them_all(others: list[str]) -> None:
    names, bottle = Names({"shop.example": [[PUBLIC, *others]]}), Bottle(0)
    with pytest.raises(ToolError) as refused:
        await fetched(HttpClient(resolver=names, network=bottle), "http://shop.example/")
    assert refused.value.code == "address_refused"
    assert not any(address in refused.value.message for address in others), "it tells nothing of the network"
    assert bottle.dialled == []


async def test_the_next_address_is_tried_where_one_does_not_answer() -> None:
    names = Names({"shop.example": [["8.8.8.8", PUBLIC, "8.8.4.4"]]})
    async with server({"/": answer(body=b"hello")}) as site:
        bottle = Bottle(site.port, unreachable=["8.8.8.8"])
        _, body = await fetched(HttpClient(resolver=names, network=bottle), "http://shop.example/")
    assert body.data == b"hello"
    assert bottle.dialled == [("8.8.8.8", 80), (PUBLIC, 80)]


@pytest.mark.parametrize("addresses", [{}, {"shop.example": [[]]}])
async def test_a_name_without_addresses_is_unknown(addresses: dict[str, list[list[str]]]) -> None:
    with pytest.raises(ToolError) as refused:
        await fetched(HttpClient(resolver=Names(addresses)), "http://shop.example/")
    assert refused.value.code == "unknown_host"


@pytest.mark.spec("G29")
async def test_a_name_of_this_machine_is_refused_by_the_systems_own_resolver() -> None:
    async with server() as site:
        with pytest.raises(ToolError) as refused:
            await fetched(HttpClient(), site.url(host="localhost"))
        assert refused.value.code == "address_refused"
        allowed = HttpClient(allow=[f"localhost:{site.port}"])
        assert (await fetched(allowed, site.url(host="localhost")))[0].status == 404
    assert len(site.asked) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_followed(status: int) -> None:
    pages = {"/a/b": redirect("../c?d", status), "/c": redirect("//127.0.0.1:PORT/ü"), "/%C3%BC": answer(body=b"here")}
    async with server(pages) as site:
        site.pages["/c"] = redirect(f"//127.0.0.1:{site.port}/ü")
        response, body = await fetched(LOCAL, site.url("/a/b"))
    assert (response.url, body.data) == (site.url("/%C3%BC"), b"here")


async def test_a_redirect_without_a_location_is_an_answer() -> None:
    async with server({"/": answer(302, b"where?")}) as site:
        response, body = await fetched(LOCAL, site.url())
    assert (response.status, body.data) == (302, b"where?")


@pytest.mark.spec("G29")
async def test_redirects_are_bounded() -> None:
    async with server({"/": redirect("/")}) as site:
        with pytest.raises(ToolError, match="more than 10 redirects") as refused:
            await fetched(LOCAL, site.url())
        assert refused.value.code == "too_many_redirects"
        assert len(site.asked) == 11
        with pytest.raises(ToolError):
            async with LOCAL.open("GET", site.url(), timeout=5, redirects=0):
                pass
    assert len(site.asked) == 12


@pytest.mark.spec("G29")
async def test_credentials_stay_with_the_origin_that_they_were_for() -> None:
    headers = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Api-Key": "k", "Accept": "text/plain"}
    async with server() as first, server() as two:
        first.pages |= {"/": redirect("/same"), "/same": redirect(two.url("/other")), "/back": answer()}
        two.pages |= {"/other": redirect(first.url("/back"))}
        await fetched(LOCAL, first.url(), headers=headers)
    sent = {request.target: request.headers for request in first.asked + two.asked}
    secrets = {"authorization", "cookie", "x-api-key"}
    assert secrets <= set(sent["/"]) & set(sent["/same"])
    assert not secrets & (set(sent["/other"]) | set(sent["/back"]))
    assert all(fields["accept"] == "text/plain" for fields in sent.values())


async def test_head_has_no_body() -> None:
    page = answer(body=b"hello", content_encoding="gzip")
    async with server({"/": page}) as site, LOCAL.open("HEAD", site.url(), timeout=5) as response:
        assert (response.header("Content-Length"), (await response.read(10)).data) == ("5", b"")
    assert site.asked[0].method == "HEAD"


@pytest.mark.spec("G29")
async def test_a_body_is_cut_at_its_cap_and_a_bomb_too() -> None:
    bomb = answer(body=gzip.compress(bytes(50_000_000)), content_encoding="gzip")
    async with server({"/": answer(body=b"0123456789"), "/bomb": bomb}) as site:
        for limit, data, cut in ((10, b"0123456789", None), (9, b"012345678", "size")):
            _, body = await fetched(LOCAL, site.url(), limit=limit)
            assert (body.data, body.cut) == (data, cut)
        _, body = await fetched(LOCAL, site.url("/bomb"), limit=100_000)
    assert (body.data, body.cut) == (bytes(100_000), "size")


async def test_a_body_without_end_is_cut() -> None:
    async def endless(request: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
            await writer.drain()

    async with server({"/": endless}) as site:
        _, body = await fetched(LOCAL, site.url(), limit=10_000)
    assert (len(body.data), body.cut) == (10_000, "size")


@pytest.mark.parametrize("page", [stall, silence])
async def test_the_whole_ends_at_its_deadline(page: object) -> None:
    async with server({"/": page}) as site:  # pyright: ignore[reportArgumentType]
        with pytest.raises(TransientError, match="was not there within") as late:
            await fetched(LOCAL, site.url(), timeout=0.2)
    assert late.value.code == "timeout"


async def test_a_hop_has_a_deadline_of_its_own() -> None:
    async with server({"/": redirect("/silence"), "/silence": silence, "/stall": stall}) as site:
        with pytest.raises(TransientError, match="did not begin to answer"):
            async with LOCAL.open("GET", site.url(), timeout=20, hop_timeout=0.3):
                pass
        async with LOCAL.open("GET", site.url("/stall"), timeout=20, hop_timeout=5) as response:
            body = await response.read(1_000, within=0.3)
    assert (body.data, body.cut) == (b"the beginning", "time")


@pytest.mark.parametrize("timeout", [None, 20])
async def test_a_timeout_of_the_block_is_not_taken_for_the_requests(timeout: float | None) -> None:
    async def fail(url: str) -> None:
        async with LOCAL.open("GET", url, timeout=timeout, hop_timeout=20):
            raise TimeoutError("the reader's own")

    async with server({"/": answer(body=b"hello")}) as site:
        with pytest.raises(TimeoutError, match="the reader's own"):
            await fail(site.url())


async def test_a_timeout_of_the_network_is_not_taken_for_a_deadline() -> None:
    class Tired(Bottle):
        async def connect_tcp(self, *rest: Any, **named: Any) -> Any:
            raise TimeoutError("the network's own")

    client = HttpClient(resolver=Names({"shop.example": [[PUBLIC]]}), network=Tired(0))
    with pytest.raises(TimeoutError, match="the network's own"):
        async with client.open("GET", "http://shop.example/", timeout=20, hop_timeout=20):
            pass


async def test_a_timeout_within_a_body_does_not_cut_it() -> None:
    class Tiring(httpcore2.AsyncNetworkStream):
        """Fails when the headers have been read."""

        def __init__(self, below: httpcore2.AsyncNetworkStream) -> None:
            self._below, self._reads = below, 0

        async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
            self._reads += 1
            if self._reads > 1:
                raise TimeoutError("the network's own")
            return await self._below.read(max_bytes, timeout)

        async def write(self, buffer: bytes, timeout: float | None = None) -> None:
            await self._below.write(buffer, timeout)

        async def aclose(self) -> None:
            await self._below.aclose()

        def get_extra_info(self, info: str) -> Any:
            return self._below.get_extra_info(info)

    class Wrapping(Bottle):
        async def connect_tcp(self, *rest: Any, **named: Any) -> Any:
            return Tiring(await super().connect_tcp(*rest, **named))

    async with server({"/": stall}) as site:
        client = HttpClient(resolver=Names({"shop.example": [[PUBLIC]]}), network=Wrapping(site.port))
        with pytest.raises(TimeoutError, match="the network's own"):
            async with client.open("GET", "http://shop.example/", timeout=20) as response:
                await response.read(1_000, within=20)


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n",
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy",
        answer(body=gzip.compress(b"hello", mtime=0)[:-4], content_encoding="gzip"),
    ],
    ids=["nothing", "ssh", "half", "chunks", "upgrade", "lengths", "gzip"],
)
async def test_what_breaks_off_or_is_no_http_is_told(response: bytes) -> None:
    async with server({"/": response}) as site:
        with pytest.raises(TransientError) as raised:
            await fetched(LOCAL, site.url())
    assert raised.value.code == "unreachable"


@pytest.mark.parametrize(
    "headers", [b"X: " + b"x" * 1_000_000, b"X: x\r\n" * 200_000, b"X: x\r\n " + b"x\r\n " * 200_000]
)
async def test_headers_without_end_are_told(headers: bytes) -> None:
    async with server({"/": b"HTTP/1.1 200 OK\r\n" + headers}) as site:
        with pytest.raises(ToolError, match="more than 100 KiB") as raised:
            await fetched(LOCAL, site.url())
    assert raised.value.code == "headers_too_long"


@pytest.mark.spec("G29", "T27")
async def test_interim_answers_without_end_are_told() -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"

    async def endless(request: Asked, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(hints * 100)
            await writer.drain()

    few, more = hints * 8 + answer(body=b"hello"), hints * 9 + answer(body=b"hello")
    async with server({"/": endless, "/few": few, "/more": more}) as site:
        for target in ("/", "/more"):
            with pytest.raises(ToolError, match="more than 8 interim answers") as raised:
                await fetched(LOCAL, site.url(target))
            assert (raised.value.code, raised.value.status) == ("too_many_interim", 502)
        _, body = await fetched(LOCAL, site.url("/few"))
    assert body.data == b"hello"


@pytest.mark.realtime
async def test_no_address_of_a_name_takes_the_time_of_the_others() -> None:
    class Slow(Bottle):
        async def connect_tcp(
            self, host: str, port: int, timeout: float | None = None, *rest: Any, **named: Any
        ) -> Any:
            if host != PUBLIC:
                self.dialled.append((host, port))
                assert timeout is not None
                await asyncio.sleep(timeout)
                raise httpcore2.ConnectTimeout
            return await super().connect_tcp(host, port, timeout, **named)

    async with server({"/": answer(body=b"hello")}) as site:
        bottle = Slow(site.port)
        client = HttpClient(resolver=Names({"shop.example": [["8.8.8.8", "8.8.4.4", PUBLIC]]}), network=bottle)
        async with client.open("GET", "http://shop.example/", timeout=None, hop_timeout=1) as response:
            assert (await response.read(10)).data == b"hello"
    assert bottle.dialled == [("8.8.8.8", 80), ("8.8.4.4", 80), (PUBLIC, 80)]


async def test_nobody_at_a_port_is_told() -> None:
    async with server() as site:
        pass
    with pytest.raises(TransientError, match="cannot be reached"):
        await fetched(LOCAL, site.url())


async def test_an_encoding_that_nobody_asked_for_is_told() -> None:
    async with server({"/": answer(body=b"x", content_encoding="gzip, br")}) as site:
        with pytest.raises(ToolError) as raised:
            await fetched(LOCAL, site.url())
    assert raised.value.code == "bad_encoding"


@pytest.mark.spec("G29")
async def test_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    async with server({"/": answer(body=b"direct")}) as site, server() as proxy:
        for name in ("HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url())
            monkeypatch.setenv(name.lower(), proxy.url())
        path = os.path.join(str(tmp_path), "netrc")  # noqa: PTH118
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write("machine 127.0.0.1 login ada password hunter2\n")
        monkeypatch.setenv("NETRC", path)
        _, body = await fetched(LOCAL, site.url())
    assert body.data == b"direct"
    assert proxy.asked == []
    assert "authorization" not in site.asked[0].headers


async def test_nothing_is_kept_between_requests() -> None:
    async with server({"/": answer(set_cookie="a=b")}) as site:
        await fetched(LOCAL, site.url())
        await fetched(LOCAL, site.url())
    assert all("cookie" not in request.headers for request in site.asked)


@pytest.mark.spec("M9")
async def test_a_body_is_sent_whole_and_once() -> None:
    got: list[tuple[str, dict[str, str], bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        got.append((head[0].split(" ")[0], headers, body))
        writer.write(redirect("/elsewhere", 307))
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
    async with listening:
        async with LOCAL.open("POST", url, timeout=5, content=b"x" * 100_000) as response:
            assert response.status == 307, "a request with effects is not sent a second time"
        async with LOCAL.open("PATCH", url, timeout=5) as response:
            assert response.location == "/elsewhere"
        async with LOCAL.open("DELETE", url, timeout=5) as response:
            assert response.status == 307
        async with LOCAL.open("GET", url, timeout=5, redirects=None) as response:
            assert response.status == 307, "the caller follows it, or does not"
    assert [(method, len(body)) for method, _, body in got] == [
        ("POST", 100_000),
        ("PATCH", 0),
        ("DELETE", 0),
        ("GET", 0),
    ]
    assert [fields.get("content-length") for _, fields, _ in got] == ["100000", "0", None, None]
