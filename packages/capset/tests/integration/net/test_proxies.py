"""Proxies on the way to a host: what they are told, and what is checked all the same (spec 7, M104)."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path

import pytest

from capset.errors import DefinitionError, ToolError, TransientError
from capset.net.client import HttpClient
from capset.net.proxies import Proxy, environment_proxy, parse_proxy
from tests.helpers.net.proxies import proxy_to, tls
from tests.helpers.net.support import Names, answer, fetched, server
from tests.helpers.net.tls import Tls

__all__ = ["tls"]

pytestmark = pytest.mark.spec("M104")


async def test_a_host_behind_a_proxy_is_spoken_to_by_tls_and_its_name_is_the_proxys_to_look_up(tls: Tls) -> None:
    names = Names({})
    async with server({"/a": answer(body=b"hello")}, tls.server) as site, proxy_to(site.port) as proxy:
        client = HttpClient(resolver=names, tls=tls.client, proxies=proxy.proxies("ada:p@ss"))
        _, body = await fetched(client, "https://shop.example/a", headers={"Authorization": "Bearer x"})
    assert (body.data, proxy.lines, names.asked) == (b"hello", ["CONNECT shop.example:443 HTTP/1.1"], [])
    assert proxy.credentials == ["Basic " + base64.b64encode(b"ada:p@ss").decode()]
    headers = site.asked[0].headers
    assert (headers["authorization"], "proxy-authorization" in headers) == ("Bearer x", False)


async def test_plain_http_goes_to_a_proxy_with_its_whole_url() -> None:
    async with server({"/a": answer(body=b"hello", connection="close")}) as site, proxy_to(site.port) as proxy:
        client = HttpClient(resolver=Names({}), proxies=proxy.proxies())
        _, body = await fetched(client, "http://shop.example:8080/a?b=c")
    assert (body.data, proxy.lines) == (b"hello", ["GET http://shop.example:8080/a?b=c HTTP/1.1"])
    assert site.asked[0].headers["host"] == "shop.example:8080"


async def test_a_proxy_may_be_spoken_to_by_tls_itself(tmp_path: Path) -> None:
    of_proxy, tls = Tls(tmp_path, "127.0.0.1"), Tls(tmp_path)
    both = ssl.create_default_context(cadata=of_proxy.public + tls.public)
    hello = server({"/": answer(body=b"hello")}, tls.server)
    async with hello as site, proxy_to(site.port, tls=of_proxy.server) as proxy:
        client = HttpClient(tls=both, proxies=proxy.proxies(scheme="https"))
        _, body = await fetched(client, "https://shop.example/")
    assert (body.data, tls.named) == (b"hello", ["shop.example"])


@pytest.mark.parametrize(("status", "error", "code"), [(407, ToolError, "proxy_refused"), (502, TransientError, None)])
async def test_a_proxy_that_does_not_lead_there_says_so(status: int, error: type[ToolError], code: str | None) -> None:
    async with server() as site, proxy_to(site.port, status) as proxy:
        with pytest.raises(error, match=rf"does not lead to 'shop\.example:443': it answered {status}") as raised:
            await fetched(HttpClient(proxies=proxy.proxies()), "https://shop.example/")
    assert raised.value.code == (code or "unreachable")
    with pytest.raises(TransientError, match=r"The proxy '127\.0\.0\.1' cannot be reached"):
        await fetched(HttpClient(proxies=proxy.proxies()), "https://shop.example/")
    assert site.asked == []


@pytest.mark.spec("T93")
@pytest.mark.parametrize("host", ["10.0.0.1", "169.254.169.254", "[::1]"])
async def test_an_address_that_stands_in_a_url_is_checked_behind_a_proxy_too(host: str) -> None:
    async with server() as site, proxy_to(site.port) as proxy:
        with pytest.raises(ToolError) as refused:
            await fetched(HttpClient(proxies=proxy.proxies()), f"https://{host}/")
    assert (refused.value.code, proxy.lines) == ("address_refused", [])


@pytest.mark.spec("T93")
async def test_the_environment_is_not_asked_for_a_url_that_a_model_chooses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine shop.example login ada password hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    async with server({"/": answer(body=b"direct")}) as site, proxy_to(site.port) as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        client = HttpClient(resolver=Names({"shop.example": [["127.0.0.1"]]}), allow=[f"shop.example:{site.port}"])
        _, body = await fetched(client, f"http://shop.example:{site.port}/")
    assert (body.data, proxy.lines, "authorization" in site.asked[0].headers) == (b"direct", [], False)


@pytest.mark.parametrize(
    ("no_proxy", "host", "is_direct"),
    [
        *((no_proxy, "shop.example", False) for no_proxy in ("", "shop.example:8443", "93.184.0.0/16")),
        *((no_proxy, "shop.example", True) for no_proxy in ("*", "shop.example", "shop.example:443")),
        *((no_proxy, "api.shop.example", True) for no_proxy in ("other.example, .shop.example", "*.shop.example")),
        ("shop.example", "workshop.example", False),
        *(("93.184.0.0/16", "93.184.216.34", True), ("93.184.0.0/16", "93.185.216.34", False)),
        ("2606:2800::/32", "2606:2800:220:1::1", True),
        *((no_proxy, "2606:2800:220:1::1", True) for no_proxy in ("[2606:2800:220:1::1]:443", "2606:2800:220:1::1")),
        *(("", host, True) for host in ("localhost", "127.0.0.1", "::1")),
    ],
)
def test_no_proxy_names_what_is_reached_without_one(
    no_proxy: str, host: str, is_direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "proxy.internal:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    proxy = environment_proxy("https", host, 443)
    assert proxy == (None if is_direct else Proxy("http", "proxy.internal", 3128))
    assert environment_proxy("http", "shop.example", 80) is None


def test_a_proxy_is_read_with_its_credentials_and_shows_them_nowhere() -> None:
    proxy = parse_proxy("https://ada:p%40ss@proxy.internal:8443")
    assert proxy == Proxy("https", "proxy.internal", 8443, "ada:p@ss")
    assert "p@ss" not in repr(proxy)
    for text in ("socks5://ada:hunter2@proxy:1080", "http://ada:hunter2@", "ada:hunter2@proxy"):
        with pytest.raises(DefinitionError, match="a proxy is http://HOST:PORT") as refused:
            parse_proxy(text)
        assert "hunter2" not in str(refused.value)
