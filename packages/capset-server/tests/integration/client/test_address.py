"""Where a key may go."""

from __future__ import annotations

import traceback

import pytest

from capset.errors import CapsetError, DefinitionError
from capset_server.client import Client
from tests.helpers.client.strangers import answer, stranger

KEY = "capset_secret"
READY = answer("200 OK", "application/json", b'{"status": "ok"}')


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8000", "capset.example.com", "ftp://h", "http://", "https://h\n", "http://[::1", "//h", "h\0"],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(DefinitionError, match="a server's address is like https://"):
        Client(url)


@pytest.mark.parametrize(
    "url", ["https://me:hunter2@h", "https://hunter2@h", "https://h?key=hunter2", "https://h#hunter2"]
)
def test_what_has_no_place_in_an_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(DefinitionError, match="no user, password, query or fragment") as caught:
        Client(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("key", ["", " ", "a b", "schlüssel", "a\nX-Evil: 1", "k" * 201])
def test_what_cannot_be_a_key_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(DefinitionError, match="invalid API key") as caught:
        Client("https://h", key=key)
    assert not key.strip() or key not in str(caught.value)


@pytest.mark.parametrize(
    "host", ["capset.example.com", "10.0.0.7", "0.0.0.0", "127.0.0.1.example.com", "[2001:db8::1]"]
)
def test_a_key_goes_to_another_machine_encrypted_only(host: str) -> None:
    with pytest.raises(DefinitionError, match="is not encrypted") as caught:
        Client(f"http://{host}:8000", key=KEY)
    assert KEY not in str(caught.value)
    Client(f"https://{host}:8000", key=KEY)
    Client(f"http://{host}:8000")
    Client(f"http://{host}:8000", key=KEY, plain_http=True)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "[::1]"])
def test_on_this_machine_plain_http_will_do(host: str) -> None:
    assert repr(Client(f"http://{host}:8000/", key=KEY)) == f"Client('http://{host.lower()}:8000')"


async def test_the_key_stands_in_its_header_and_nowhere_else() -> None:
    async with stranger(READY) as server, Client(server.url, key=KEY) as client:
        await client.health()
        assert [line for line in server.heads[0].splitlines() if KEY in line] == [f"Authorization: Bearer {KEY}"]
        assert KEY not in repr(client)
        assert KEY not in str(vars(client._connection))
    with pytest.raises(CapsetError) as caught:
        await client.health()
    assert KEY not in "".join(traceback.format_exception(caught.value))


async def test_a_path_before_the_api_is_kept() -> None:
    async with stranger(READY) as server, Client(f"{server.url}/tools/capset/") as client:
        await client.health()
    assert server.heads[0].startswith("GET /tools/capset/v1/readyz HTTP/1.1")


async def test_a_proxy_of_the_environment_does_not_see_plain_http(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stranger(READY) as server, stranger(READY) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        async with Client(server.url, key=KEY) as client:
            await client.health()
    assert (len(server.heads), proxy.heads) == (1, [])


async def test_a_proxy_of_the_environment_carries_https_and_sees_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stranger(answer("403 Forbidden", "text/plain", b"")) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url)
        async with Client("https://capset.invalid", key=KEY) as client:
            with pytest.raises(CapsetError, match=r"cannot reach https://capset\.invalid: 403 Forbidden"):
                await client.health()
    (head,) = proxy.heads
    assert head.startswith("CONNECT capset.invalid:443")
    assert KEY not in head


async def test_a_client_is_opened_once_at_a_time() -> None:
    client = Client("http://localhost:1")
    with pytest.raises(CapsetError, match="not open"):
        await client.health()
    async with client:
        with pytest.raises(CapsetError, match="already open"):
            await client.__aenter__()
    async with stranger(READY) as server:
        reused_client = Client(server.url)
        for _ in range(2):
            async with reused_client:
                await reused_client.health()
    assert len(server.heads) == 2
