"""``http_get``: what it sends and what it makes of an answer. Where it must not go is in tests/security."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import ValidationError

from capset.errors import PermissionDenied
from capset_testing import Desk, capability_suite, session_for
from capset_tools.http import HttpConfig, http, http_over
from capset_tools.web_fetch import WebFetchConfig, web_fetch
from tests.helpers.net.support import PUBLIC, Asked, Bottle, Names, Server, answer, redirect, server

LOCAL = HttpConfig(allow=("127.0.0.1",))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def site(config: HttpConfig = LOCAL, **pages: Any) -> AsyncGenerator[tuple[Server, Desk]]:
    named = {f"/{name}": page for name, page in pages.items()}
    async with server(named) as page_server, session_for(http, permissions=["http:read"], config=config) as desk:
        yield page_server, desk


async def got(desk: Desk, url: str, *, tool: str = "http_get", **arguments: Any) -> dict[str, Any]:
    result = await desk.session.try_message(desk.session.message(tool, {"url": url, **arguments}))
    assert result.data is not None, result.error
    return result.data


async def failed(desk: Desk, url: str, **arguments: Any) -> tuple[int, str, str]:
    result = await desk.session.try_message(desk.session.message("http_get", {"url": url, **arguments}))
    assert result.error is not None, result.data
    (record,) = [entry for entry in await desk.records() if entry.id == result.record]
    assert record.code == result.error.code
    return result.error.status, result.error.code, result.error.message


@pytest.mark.spec("G29")
async def test_a_body_of_json_is_its_value() -> None:
    page = answer(body=b'{"a": [1, 2.5, "\xc3\xbc"]}', content_type="application/json", x_limit="5")
    async with site(data=page) as (page_server, desk):
        response = await got(desk, page_server.url("/data?q=1"))
    assert response == {
        "status": 200,
        "headers": {"content-length": "21", "content-type": "application/json", "x-limit": "5"},
        "body": {"a": [1, 2.5, "ü"]},
        "truncated": False,
    }
    assert (page_server.asked[0].method, page_server.asked[0].target) == ("GET", "/data?q=1")


@pytest.mark.spec("G29")
@pytest.mark.parametrize(
    ("content_type", "data", "body"),
    [
        ("application/problem+json; charset=utf-8", b"[]", []),
        ("application/json; charset=utf-16", '{"a": "ü"}'.encode("utf-16"), {"a": "ü"}),
        ("application/json", b"7", 7),
        ("application/json", b"\xef\xbb\xbf[1]", [1]),
        ("text/plain", b' {"a": 1}', {"a": 1}),
        ("", b"[1]", [1]),
        # What is no JSON, or none that can be passed on, is text.
        ("application/json", b"", ""),
        ("application/json", b"{broken", "{broken"),
        ("application/json", b"NaN", "NaN"),
        ("application/json", b"[1e999]", "[1e999]"),
        ("application/json", b'"\\ud800"', '"\\ud800"'),
        ("application/json", b"[" * 1_000, "[" * 1_000),
        ("application/json", b"1" * 5_000, "1" * 5_000),
        ("text/html", b"[1]", "[1]"),
        ("text/csv", b"7", "7"),
        ("text/plain", b"7", "7"),
        ("text/plain; charset=ISO-8859-1", b"\xfc", "ü"),
        ("text/plain; charset=utf-16", "ü".encode("utf-16-le"), "ü"),
        ("text/plain; charset=unicode_escape", b"\\u00fc", "\\u00fc"),
        ("text/plain; charset=windows-9999", b"\xc3\xbc", "ü"),
        ("text/plain", b"\xfc", "ü"),
        ("application/octet-stream", "ü".encode(), "ü"),
        ("image/svg+xml", b"<svg/>", "<svg/>"),
    ],
)
async def test_a_body_is_read_as_what_it_is(content_type: str, data: bytes, body: object) -> None:
    async with site(x=answer(body=data, content_type=content_type)) as (page_server, desk):
        response = await got(desk, page_server.url("/x"))
    assert (response["body"], response["truncated"], "error" in response) == (body, False, False)
    json.dumps(response, allow_nan=False)


@pytest.mark.spec("G29")
@pytest.mark.parametrize("content_type", ["image/png", "application/octet-stream", "", "application/pdf"])
async def test_a_binary_body_is_no_failure(content_type: str) -> None:
    async with site(x=answer(body=b"\x89PNG\0\xff", content_type=content_type)) as (page_server, desk):
        response = await got(desk, page_server.url("/x"))
    assert (response["status"], response["body"], response["truncated"]) == (200, None, False)
    assert "binary" in response["error"]
    assert "6 bytes" in response["error"]


async def test_a_failure_of_the_server_is_an_answer() -> None:
    async with site(x=answer(503, b"later", retry_after="5")) as (page_server, desk):
        missing, broken = await got(desk, page_server.url("/nowhere")), await got(desk, page_server.url("/x"))
    assert (missing["status"], missing["body"]) == (404, "nothing here")
    assert (broken["status"], broken["headers"]["retry-after"]) == (503, "5")


async def test_headers_of_one_name_are_joined() -> None:
    page = b"HTTP/1.1 204 None\r\nX-A: 1\r\nx-a: 2\r\n\r\n"
    async with site(x=page) as (page_server, desk):
        response = await got(desk, page_server.url("/x"))
    assert (response["headers"], response["body"]) == ({"x-a": "1, 2"}, "")


@pytest.mark.spec("G29")
@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        ("text/html", '<meta charset="windows-1251">Привет'.encode("cp1251"), '<meta charset="windows-1251">Привет'),
        ("text/html", "<p>Grüße aus der Straße".encode("cp1252"), None),
        ("text/xml", '<?xml version="1.0" encoding="koi8-r"?><a>да</a>'.encode("koi8-r"), None),
        ("application/rss+xml", '<?xml version="1.0" encoding="big5"?><a>臺北</a>'.encode("big5"), None),
        ("text/plain; charset=utf-8", "Grüße".encode("utf-16"), "Grüße"),
        ("text/plain; charset=utf-8", "Die Straße wird größer, schöner und älter.".encode("cp1252"), None),
        ("text/csv", "name;größe\nÄpfel;3\n".encode("cp1252"), None),
        ("text/plain", "Съешь же ещё этих мягких французских булок, да выпей чаю".encode("cp1251"), None),
        ("", '{"a": "ü"}'.encode("utf-16"), {"a": "ü"}),
        ("application/json", '{"a": "größe"}'.encode("cp1252"), {"a": "größe"}),
    ],
)
async def test_a_charset_is_found_as_web_fetch_finds_it(content_type: str, body: bytes, expected: object) -> None:
    page = answer(body=body, content_type=content_type)
    async with site(page=page) as (page_server, desk):
        response = await got(desk, page_server.url("/page"))
    config = WebFetchConfig(allow=("127.0.0.1",))
    async with (
        server({"/page": page}) as page_server,
        session_for(web_fetch, permissions=["http:read"], config=config) as desk,
    ):
        fetched = await got(desk, page_server.url("/page"), tool="web_fetch")
    assert response["body"] == (fetched["content"] if expected is None else expected)
    assert isinstance(expected, dict) or response["body"] == fetched["content"]
    assert "\ufffd" not in fetched["content"]


async def test_control_characters_are_kept_in_what_an_api_says() -> None:
    async with site(page=answer(body=b'{"a": "\x7f\xc2\x85"}', content_type="application/json")) as (page_server, desk):
        assert (await got(desk, page_server.url("/page")))["body"] == {"a": "\x7f\x85"}


@pytest.mark.spec("G29")
async def test_headers_are_sent_and_secrets_are_not_on_record() -> None:
    headers = {"Authorization": "Bearer hunter2", "X-Api-Key": "hunter3", "Cookie": "id=hunter4", "Accept": "a/b"}
    async with site(x=answer()) as (page_server, desk):
        await got(desk, page_server.url("/x"), headers=headers)
        (record,) = await desk.records()
    sent = page_server.asked[0].headers
    assert {name: sent[name.lower()] for name in headers} == headers
    assert sent["host"] == f"127.0.0.1:{page_server.port}"
    assert "hunter" not in record.arguments
    assert '"a/b"' in record.arguments


@pytest.mark.spec("G20", "G29", "T16")
async def test_credentials_and_secret_looking_query_values_of_a_url_are_sent_and_not_on_record() -> None:
    async with site(tea=answer(body=b"ok")) as (page_server, desk):
        url = page_server.url("/tea?api_key=s3cret&page=2&sig=s3cret#access_token=s3cret")
        await got(desk, url)
        assert page_server.asked[0].target == "/tea?api_key=s3cret&page=2&sig=s3cret"
        await failed(desk, url.replace("http://", "http://ada:s3cret@"))
        arguments = [record.arguments for record in await desk.records()]
    assert all("s3cret" not in text for text in arguments)
    assert "/tea?api_key=[redacted]&page=2&sig=[redacted]#access_token=[redacted]" in arguments[0]
    assert "http://[redacted]@127.0.0.1" in arguments[1]


@pytest.mark.spec("G29")
@pytest.mark.parametrize(
    "headers",
    [
        *(
            {"Host": "internal"},
            {"content-length": "5"},
            {"Transfer-Encoding": "chunked"},
            {"Proxy-Authorization": "x"},
        ),
        *(
            {"X-A": "b\r\nHost: internal"},
            {"X-A\r\nHost": "internal"},
            {"X-A": "ü"},
            {"": "x"},
            {"Connection": "close"},
        ),
    ],
)
async def test_headers_that_are_not_the_callers_are_refused(headers: dict[str, str]) -> None:
    async with site(x=answer()) as (page_server, desk):
        assert (await failed(desk, page_server.url("/x"), headers=headers))[:2] == (400, "header_refused")
    assert page_server.asked == []


@pytest.mark.spec("G29")
async def test_credentials_do_not_go_along_to_another_host() -> None:
    names = Names({"one.example": [[PUBLIC]], "two.example": [[PUBLIC]]})
    async with server({"/": redirect("http://two.example/b"), "/b": answer(body=b"b")}) as page_server:
        capability = http_over(names, Bottle(page_server.port))
        async with session_for(capability, permissions=["http:read"]) as desk:
            response = await got(desk, "http://one.example/", headers={"Authorization": "x", "Accept": "a/b"})
    assert response["body"] == "b"
    first, second = page_server.asked
    assert first.headers["authorization"] == "x"
    assert "authorization" not in second.headers
    assert (second.headers["host"], second.headers["accept"]) == ("two.example", "a/b")


@pytest.mark.spec("G29")
async def test_it_gives_up_after_its_timeout() -> None:
    async def silence(request: Asked, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    async with site(x=silence) as (page_server, desk):
        assert (await failed(desk, page_server.url("/x"), timeout=100))[:2] == (504, "timeout")
        arguments = http.every_tool[0].arguments.json_schema["properties"]
    assert arguments["timeout"]["default"] == 30_000
    assert arguments["url"]["format"] == "uri"


@pytest.mark.parametrize("timeout", [0, -1, 300_001, "1", None, True])
async def test_a_timeout_that_cannot_be_is_refused(timeout: object) -> None:
    async with site(x=answer()) as (page_server, desk):
        assert (await failed(desk, page_server.url("/x"), timeout=timeout))[0] == 422


@pytest.mark.spec("G29")
@pytest.mark.parametrize(
    ("page", "body"),
    [
        (answer(body="äöü".encode() * 10, content_type="text/plain"), "äöüäö"),
        (answer(body=b"[" + b"1," * 50 + b"1]", content_type="application/json"), "[1,1,1,1,1,"),
        (answer(body=gzip.compress(b"x" * 10_000_000), content_encoding="gzip"), "x" * 11),
    ],
    ids=["letters", "json", "bomb"],
)
async def test_what_is_longer_than_the_cap_is_cut(page: bytes, body: str) -> None:
    async with site(HttpConfig(allow=("127.0.0.1",), max_bytes=11), x=page) as (page_server, desk):
        response = await got(desk, page_server.url("/x"))
    assert (response["body"], response["truncated"]) == (body, True)


async def test_redirects_are_followed_as_far_as_the_config_says() -> None:
    pages: dict[str, Any] = {"a": redirect("/b"), "b": redirect("/c"), "c": answer(body=b"c")}
    async with site(**pages) as (page_server, desk):
        assert (await got(desk, page_server.url("/a")))["body"] == "c"
    async with site(HttpConfig(allow=("127.0.0.1",), redirects=1), **pages) as (page_server, desk):
        assert (await failed(desk, page_server.url("/a")))[1] == "too_many_redirects"


@pytest.mark.spec("G29")
async def test_only_the_hosts_of_the_config_are_allowed() -> None:
    async with server({"/": answer(body=b"here")}) as allowed_server, server({"/": answer()}) as other:
        config = HttpConfig(allow=(f"127.0.0.1:{allowed_server.port}",))
        async with session_for(http, permissions=["http:read"], config=config) as desk:
            assert (await got(desk, allowed_server.url()))["body"] == "here"
            assert (await failed(desk, other.url()))[:2] == (403, "address_refused")
            allowed_server.pages["/"] = redirect(other.url())
            assert (await failed(desk, allowed_server.url()))[:2] == (403, "address_refused")
    assert other.asked == []


@pytest.mark.parametrize("allow", ["http://a", "127.1", "a/", "", "169.254.169.254"])
def test_a_config_with_what_is_no_host_is_refused(allow: str) -> None:
    with pytest.raises(ValidationError, match="an allowed host"):
        HttpConfig(allow=(allow,))


@pytest.mark.spec("G10", "G29")
async def test_it_needs_its_permission() -> None:
    async with server({"/": answer()}) as page_server, session_for(http, config=LOCAL) as desk:
        result = await desk.session.try_message(desk.session.message("http_get", {"url": page_server.url()}))
        assert isinstance(result.error, PermissionDenied)
    assert page_server.asked == []


@pytest.mark.realtime
@pytest.mark.spec("P17")
async def test_it_keeps_every_promise() -> None:
    async with server({"/": answer(body=b"{}", content_type="application/json")}) as page_server:
        examples = {"http_get": [{"url": page_server.url(), "headers": {"Accept": "a/b"}, "timeout": 5_000.5}]}
        for check in capability_suite(http, examples=examples, config=LOCAL):
            await check()
