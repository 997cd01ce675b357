"""TLS is spoken with the name of the URL, whatever address was checked."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from capset import ToolError
from capset.errors import DefinitionError, TransientError
from capset.net.client import HttpClient
from tests.certificates import certificate
from tests.helpers.net.proxies import tls
from tests.helpers.net.support import PUBLIC, Asked, Bottle, Names, answer, fetched, redirect, server
from tests.helpers.net.tls import Tls

__all__ = ["tls"]

NAMES = Names({"shop.example": [[PUBLIC]], "other.example": [[PUBLIC]]})


@pytest.mark.spec("G29")
async def test_the_name_is_verified_and_sent_though_the_address_is_connected_to(tls: Tls) -> None:
    tls.named.clear()
    async with server({"/": redirect("/b"), "/b": answer(body=b"hello")}, tls.server) as site:
        bottle = Bottle(site.port)
        _, body = await fetched(HttpClient(resolver=NAMES, network=bottle, tls=tls.client), "https://shop.example/")
    assert (body.data, bottle.dialled, tls.named) == (b"hello", [(PUBLIC, 443)] * 2, ["shop.example"] * 2)


@pytest.mark.spec("G29")
@pytest.mark.parametrize(("host", "is_trusted"), [("other.example", True), (PUBLIC, True), ("shop.example", False)])
async def test_a_certificate_for_another_name_or_that_nobody_trusts_is_refused(
    tls: Tls, host: str, is_trusted: bool
) -> None:
    async with server({"/": answer()}, tls.server) as site:
        client = HttpClient(resolver=NAMES, network=Bottle(site.port), tls=tls.client if is_trusted else None)
        with pytest.raises(ToolError, match="certificate") as refused:
            await fetched(client, f"https://{host}/")
    assert (refused.value.code, site.asked) == ("tls_failed", [])


async def test_a_server_that_speaks_no_tls_is_told(tls: Tls) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example at your service\r\n")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        with pytest.raises(ToolError, match="does not speak TLS") as refused:
            await fetched(HttpClient(allow=["127.0.0.1"], tls=tls.client), f"https://127.0.0.1:{port}/")
    assert refused.value.code == "tls_failed"


@pytest.mark.parametrize("response", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf"])
@pytest.mark.parametrize("broken", [b"\x17\x03\x03\x00\x20" + b"x" * 32, b"plain text"])
async def test_tls_that_breaks_after_its_handshake_is_told(tls: Tls, response: bytes, broken: bytes) -> None:
    async def page(request: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(response)
        await writer.drain()
        os.write(writer.get_extra_info("socket").fileno(), broken)
        await asyncio.sleep(5)

    async with server({"/": page}, tls.server) as site:
        client = HttpClient(resolver=NAMES, network=Bottle(site.port), tls=tls.client)
        with pytest.raises(TransientError) as raised:
            await fetched(client, "https://shop.example/")
    assert raised.value.code == "unreachable"


@pytest.mark.spec("M104")
async def test_authorities_of_a_file_are_trusted_and_the_file_is_read_again_when_it_has_changed(
    tls: Tls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, other = tls.public, certificate("other.example")[0]
    path = tmp_path / "authorities.pem"
    async with server({"/": answer(body=b"hello")}, tls.server) as site:

        async def ask(ca_file: str | None = None) -> bytes:
            client = HttpClient(resolver=NAMES, network=Bottle(site.port), ca_file=ca_file)
            return (await fetched(client, "https://shop.example/"))[1].data

        with pytest.raises(DefinitionError, match=r"authorities\.pem cannot be read: No such file"):
            await ask(str(path))
        path.write_text(other)
        with pytest.raises(ToolError, match="certificate"):
            await ask(str(path))
        path.write_text(other + authority)
        assert await ask(str(path)) == b"hello"
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
        assert await ask() == b"hello"
        path.write_text("no certificate")
        with pytest.raises(DefinitionError, match="the certificates in SSL_CERT_FILE"):
            await ask()
