"""The guarded client against real servers: where it goes, what it sends, what it takes, and when it gives up."""

from __future__ import annotations

import asyncio
import gzip
from itertools import count
from typing import Any

import httpcore2
import pytest

from capset import ToolError
from capset.errors import TransientError
from capset.net.client import HttpClient
from tests.helpers.net.support import PUBLIC, Asked, Bottle, Names, answer, fetched, redirect, server

LOCAL = HttpClient(allow=["127.0.0.1"])
SHOP = "http://shop.example/"
HELLO = answer(body=b"hello")


def client_of(bottle: Bottle, *addresses: str) -> HttpClient:
    """Return a client that knows one name."""
    return HttpClient(resolver=Names({"shop.example": [list(addresses or [PUBLIC])]}), network=bottle)


async def refusal_of(client: HttpClient, url: str) -> ToolError:
    with pytest.raises(ToolError) as raised:
        await fetched(client, url)
    return raised.value


async def stall(request: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nthe beginning")
    await writer.drain()
    await asyncio.sleep(3_600)


async def silence(request: Asked, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(3_600)


@pytest.mark.spec("G29")
async def test_it_connects_to_the_address_that_was_checked_and_checks_again_at_every_hop() -> None:
    names = Names({"shop.example": [[PUBLIC], ["127.0.0.1"]]})
    async with server({"/a": HELLO, "/": redirect("/again")}) as site:
        bottle = Bottle(site.port)
        client = HttpClient(resolver=names, network=bottle)
        response, body = await fetched(client, f"{SHOP}a?b=c#d")
        assert (response.status, response.url, body.data) == (200, f"{SHOP}a?b=c", b"hello")
        assert (names.asked, bottle.dialled) == (["shop.example"], [(PUBLIC, 80)])
        assert site.asked[0].headers["host"] == "shop.example"
        names.known["shop.example"] = [[PUBLIC], ["127.0.0.1"]]
        assert (await refusal_of(client, SHOP)).code == "address_refused"
    assert (names.asked, bottle.dialled) == (["shop.example"] * 3, [(PUBLIC, 80)] * 2)
    assert [request.target for request in site.asked] == ["/a?b=c", "/"]


@pytest.mark.spec("G29")
@pytest.mark.parametrize("others", [["127.0.0.1"], ["fe80::1%eth0"], ["::ffff:8.8.8.8"], ["8.8.4.4", "10.0.0.1"]])
async def test_one_refused_address_of_a_name_refuses_them_all(others: list[str]) -> None:
    bottle = Bottle(0)
    refused = await refusal_of(client_of(bottle, PUBLIC, *others), SHOP)
    assert (refused.code, bottle.dialled) == ("address_refused", [])
    assert not any(address in refused.message for address in others), "it tells nothing of the network"


async def test_the_next_address_is_tried_where_one_does_not_answer() -> None:
    async with server({"/": HELLO}) as site:
        bottle = Bottle(site.port, unreachable=["8.8.8.8"])
        _, body = await fetched(client_of(bottle, "8.8.8.8", PUBLIC, "8.8.4.4"), SHOP)
    assert (body.data, bottle.dialled) == (b"hello", [("8.8.8.8", 80), (PUBLIC, 80)])


@pytest.mark.parametrize("addresses", [{}, {"shop.example": [[]]}])
async def test_a_name_without_addresses_is_unknown(addresses: dict[str, list[list[str]]]) -> None:
    assert (await refusal_of(HttpClient(resolver=Names(addresses)), SHOP)).code == "unknown_host"


@pytest.mark.spec("G29")
async def test_a_name_of_this_machine_is_refused_by_the_systems_own_resolver() -> None:
    async with server() as site:
        assert (await refusal_of(HttpClient(), site.url(host="localhost"))).code == "address_refused"
        allowed = HttpClient(allow=[f"localhost:{site.port}"])
        assert (await fetched(allowed, site.url(host="localhost")))[0].status == 404
    assert len(site.asked) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_followed(status: int) -> None:
    async with server({"/a/b": redirect("../c?d", status), "/%C3%BC": answer(302, b"where?")}) as site:
        site.pages["/c"] = redirect(f"//127.0.0.1:{site.port}/ü")
        response, body = await fetched(LOCAL, site.url("/a/b"))
    assert (response.url, response.status) == (site.url("/%C3%BC"), 302), "which leads nowhere"
    assert body.data == b"where?"


@pytest.mark.spec("G29")
async def test_redirects_are_bounded() -> None:
    async with server({"/": redirect("/")}) as site:
        assert (await refusal_of(LOCAL, site.url())).code == "too_many_redirects"
        assert len(site.asked) == 11
        with pytest.raises(ToolError):
            async with LOCAL.open("GET", site.url(), timeout=5, redirects=0):
                pass
    assert len(site.asked) == 12


@pytest.mark.spec("G29")
async def test_credentials_stay_with_the_origin_that_they_were_for() -> None:
    headers = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Api-Key": "k", "Accept": "text/plain"}
    async with server() as first, server() as second:
        first.pages |= {"/": redirect("/same"), "/same": redirect(second.url("/other")), "/back": answer()}
        second.pages |= {"/other": redirect(first.url("/back"))}
        await fetched(LOCAL, first.url(), headers=headers)
    sent = {request.target: request.headers for request in first.asked + second.asked}
    secrets = {"authorization", "cookie", "x-api-key"}
    assert secrets <= set(sent["/"]) & set(sent["/same"])
    assert not secrets & (set(sent["/other"]) | set(sent["/back"]))
    assert all(fields["accept"] == "text/plain" for fields in sent.values())


async def test_head_has_no_body_and_nothing_is_kept_between_requests() -> None:
    page = answer(body=b"hello", content_encoding="gzip", set_cookie="a=b")
    async with server({"/": page}) as site:
        for _ in range(2):
            async with LOCAL.open("HEAD", site.url(), timeout=5) as response:
                assert (response.header("Content-Length"), (await response.read(10)).data) == ("5", b"")
    assert [(request.method, "cookie" in request.headers) for request in site.asked] == [("HEAD", False)] * 2


@pytest.mark.spec("G29")
async def test_a_body_is_cut_at_its_cap_and_so_are_a_bomb_and_one_without_end() -> None:
    async def endless(request: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"400\r\n" + bytes(1024) + b"\r\n")
            await writer.drain()

    bomb = answer(body=gzip.compress(bytes(50_000_000)), content_encoding="gzip")
    async with server({"/": answer(body=b"0123456789"), "/bomb": bomb, "/endless": endless}) as site:
        for target, limit, data, cut in (
            *(("/", 10, b"0123456789", None), ("/", 9, b"012345678", "size")),
            *(("/bomb", 100_000, bytes(100_000), "size"), ("/endless", 10_000, bytes(10_000), "size")),
        ):
            _, body = await fetched(LOCAL, site.url(target), limit=limit)
            assert (body.data, body.truncated_by) == (data, cut)


@pytest.mark.parametrize("page", [stall, silence])
async def test_the_whole_ends_at_its_deadline(page: object) -> None:
    async with server({"/": page}) as site:  # pyright: ignore[reportArgumentType]
        with pytest.raises(TransientError, match="There was no response within") as late:
            await fetched(LOCAL, site.url(), timeout=0.2)
    assert late.value.code == "timeout"


async def test_a_hop_has_a_deadline_of_its_own() -> None:
    async with server({"/": redirect("/silence"), "/silence": silence, "/stall": stall}) as site:
        with pytest.raises(TransientError, match="did not begin to answer"):
            async with LOCAL.open("GET", site.url(), timeout=20, hop_timeout=0.3):
                pass
        async with LOCAL.open("GET", site.url("/stall"), timeout=20, hop_timeout=5) as response:
            body = await response.read(1_000, seconds=0.3)
    assert (body.data, body.truncated_by) == (b"the beginning", "time")


@pytest.mark.parametrize("timeout", [None, 20])
async def test_a_timeout_of_the_block_is_not_taken_for_the_requests(timeout: float | None) -> None:
    async def fail(url: str) -> None:
        async with LOCAL.open("GET", url, timeout=timeout, hop_timeout=20):
            raise TimeoutError("the reader's own")

    async with server({"/": HELLO}) as site:
        with pytest.raises(TimeoutError, match="the reader's own"):
            await fail(site.url())


@pytest.mark.parametrize("reads", [0, 1])
async def test_a_timeout_of_the_network_is_not_taken_for_a_deadline(
    reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it cut a body, once the headers have been read."""

    class Tiring(Bottle):
        async def connect_tcp(self, *rest: Any, **named: Any) -> Any:
            stream = await super().connect_tcp(*rest, **named)
            numbers, read = count(), stream.read

            async def tiring(*rest: Any, **named: Any) -> bytes:
                if next(numbers) == reads:
                    raise TimeoutError("the network's own")
                return await read(*rest, **named)

            monkeypatch.setattr(stream, "read", tiring)
            return stream

    async with server({"/": stall}) as site:
        client = client_of(Tiring(site.port))
        with pytest.raises(TimeoutError, match="the network's own"):
            async with client.open("GET", SHOP, timeout=20, hop_timeout=20) as response:
                await response.read(1_000, seconds=20)


@pytest.mark.parametrize(
    ("response", "code"),
    [
        *((b"", "unreachable"), (b"SSH-2.0-OpenSSH\r\n", "unreachable")),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "unreachable"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n", "unreachable"),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", "unreachable"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy", "unreachable"),
        (answer(body=gzip.compress(b"hello", mtime=0)[:-4], content_encoding="gzip"), "unreachable"),
        (answer(body=b"x", content_encoding="gzip, br"), "bad_encoding"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1_000_000, "headers_too_long"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 200_000, "headers_too_long"),
        (b"HTTP/1.1 200 OK\r\nX: x\r\n " + b"x\r\n " * 200_000, "headers_too_long"),
    ],
    ids=lambda parameter: parameter[:70] if isinstance(parameter, bytes) else parameter,
)
async def test_what_breaks_off_or_is_no_http_is_told(response: bytes, code: str) -> None:
    async with server({"/": response}) as site:
        assert (await refusal_of(LOCAL, site.url())).code == code
    unreachable = await refusal_of(LOCAL, site.url())
    assert isinstance(unreachable, TransientError), "nobody is at its port"
    assert "cannot be reached" in unreachable.message


@pytest.mark.spec("G29", "T27")
async def test_interim_answers_without_end_are_told() -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"

    async def endless(request: Asked, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(hints * 100)
            await writer.drain()

    async with server({"/": endless, "/few": hints * 8 + HELLO, "/more": hints * 9 + HELLO}) as site:
        for target in ("/", "/more"):
            refused = await refusal_of(LOCAL, site.url(target))
            assert (refused.code, refused.status) == ("too_many_interim", 502)
        _, body = await fetched(LOCAL, site.url("/few"))
    assert body.data == b"hello"


@pytest.mark.realtime
async def test_no_address_of_a_name_takes_the_time_of_the_others() -> None:
    class Slow(Bottle):
        async def connect_tcp(self, host: str, port: int, timeout: float | None = None, *_: Any, **named: Any) -> Any:
            if host == PUBLIC:
                return await super().connect_tcp(host, port, timeout, **named)
            self.dialled.append((host, port))
            assert timeout is not None
            await asyncio.sleep(timeout)
            raise httpcore2.ConnectTimeout

    async with server({"/": HELLO}) as site:
        bottle = Slow(site.port)
        client = client_of(bottle, "8.8.8.8", "8.8.4.4", PUBLIC)
        async with client.open("GET", SHOP, timeout=None, hop_timeout=1) as response:
            assert (await response.read(10)).data == b"hello"
    assert bottle.dialled == [("8.8.8.8", 80), ("8.8.4.4", 80), (PUBLIC, 80)]


@pytest.mark.spec("M9")
async def test_a_body_is_sent_whole_and_once() -> None:
    requests: list[tuple[str, int, str | None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        length = {name.lower(): value for name, _, value in (line.partition(": ") for line in head)}.get(
            "content-length"
        )
        body = await reader.readexactly(int(length or 0))
        requests.append((head[0].split(" ")[0], len(body), length))
        writer.write(redirect("/elsewhere", 307))
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
    async with listening:
        for method, options in (
            ("POST", {"content": b"x" * 100_000}),  # a request with effects is not sent a second time
            *(("PATCH", {}), ("DELETE", {})),
            ("GET", {"redirects": None}),  # the caller follows it, or does not
        ):
            async with LOCAL.open(method, url, timeout=5, **options) as response:  # pyright: ignore[reportArgumentType]
                assert (response.status, response.location) == (307, "/elsewhere")
    assert requests == [("POST", 100_000, "100000"), ("PATCH", 0, "0"), ("DELETE", 0, None), ("GET", 0, None)]
