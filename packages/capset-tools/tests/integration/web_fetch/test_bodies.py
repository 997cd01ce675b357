"""What is cut, broken, binary, large or missing: each ends in a result that says so."""

from __future__ import annotations

import asyncio
import gzip
from functools import cache
from typing import Any

import pytest

from tests.helpers.net.support import Asked, answer, redirect
from tests.helpers.tools.web_fetch.codings import CODINGS
from tests.helpers.tools.web_fetch.support import CHUNKED, FOR_EVER, HTML, PLAIN, Page, endless, head, saying, site

DID_NOT_ARRIVE = "[..more content did not arrive...]"
NOT_DECODED = "[..more content could not be decoded...]"
CUT_OFF = "[..more content was cut off at {} bytes...]"


@pytest.mark.spec("P26")
async def test_a_page_is_all_that_the_seed_says() -> None:
    page = answer(
        body="<h1>Grüße</h1>".encode(),
        content_type="text/html; charset=utf-8",
        last_modified="Wed, 21 Oct 2015 07:28:00 GMT",
        content_disposition="inline; filename*=UTF-8''gr%C3%BC%C3%9Fe.html",
    )
    async with site(page) as it:
        fetched = await it.answered("/page?q=1#top", as_markdown=True)
        assert fetched == {
            "url": it.server.url("/page?q=1#top"),
            "status_code": 200,
            "content_type": "text/html; charset=utf-8",
            "size": 16,
            "last_modified": "Wed, 21 Oct 2015 07:28:00 GMT",
            "filename": "grüße.html",
            "format": "markdown",
            "content": "# Grüße",
            "truncated": False,
        }
        assert (await it.answered(as_text=True))["content"] == "Grüße"
        raw = await it.answered()
    assert (raw["format"], raw["content"]) == ("raw", "<h1>Grüße</h1>")
    assert it.server.asked[0].target == "/page?q=1"


@pytest.mark.spec("P26")
@pytest.mark.parametrize("content_type", ["text/plain", "application/json", "text/markdown", "application/xml", ""])
@pytest.mark.parametrize("options", [{"as_markdown": True}, {"as_text": True}, {}])
async def test_what_is_no_html_stays_as_it_is(content_type: str, options: dict[str, Any]) -> None:
    async with site(answer(body=b'{"a": "<b>"}', content_type=content_type)) as it:
        fetched = await it.answered(**options)
    assert (fetched["content"], fetched["format"]) == ('{"a": "<b>"}', "raw")
    assert fetched["content_type"] == (content_type or None)


@pytest.mark.spec("P26")
@pytest.mark.parametrize("content_type", ["application/xhtml+xml", "TEXT/HTML", "text/html;x=y", None])
async def test_html_by_any_name_is_converted(content_type: str | None) -> None:
    header_lines = [] if content_type is None else [f"Content-Type: {content_type}"]
    async with site(head(*header_lines) + b"\n<!DOCTYPE html><p>one<p>two") as it:
        fetched = await it.answered(as_markdown=True)
    assert (fetched["content"], fetched["format"], fetched["content_type"]) == ("one\n\ntwo", "markdown", content_type)


@pytest.mark.spec("P26")
async def test_links_lead_on_from_where_the_page_was_in_the_end() -> None:
    pages: dict[str, Any] = {"/deep/er": answer(body=b'<a href="x">y</a>', content_type="text/html")}
    async with site(redirect("/deep/er"), pages=pages) as it:
        fetched = await it.answered(as_markdown=True)
        assert fetched["content"] == f"[y]({it.server.url('/deep/x')})"
        assert fetched["url"] == it.server.url("/page")


@pytest.mark.spec("P26")
@pytest.mark.parametrize("status", [400, 403, 404, 410, 429, 500, 503])
async def test_failures_of_the_server_are_results(status: int) -> None:
    async with site(answer(status, b"sorry", content_type="text/plain")) as it:
        fetched = await it.answered()
    assert (fetched["status_code"], fetched["content"], fetched["truncated"]) == (status, "sorry", False)


@pytest.mark.spec("P26")
async def test_an_answer_without_content_has_none() -> None:
    async with site(b"HTTP/1.1 204 No Content\r\n\r\n") as it:
        fetched = await it.answered()
    assert (fetched["status_code"], fetched["content"], fetched["size"], fetched["truncated"]) == (204, "", 0, False)


@pytest.mark.spec("P26")
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["Content-Type: image/png", "Content-Length: 123456789"], ("image/png", 123_456_789)),
        (["Content-Type: text/html", "Content-Length: 7"], ("text/html", 7)),
        (["Content-Type: text/html", "Content-Encoding: gzip", "Content-Length: 7"], ("text/html", 7)),
        ([], (None, None)),
    ],
)
async def test_head_tells_what_is_known(lines: list[str], expected: tuple[str, int | None]) -> None:
    async with site(head(*lines, "Content-Disposition: attachment; filename=a.png")) as it:
        fetched = await it.answered(method="HEAD")
    assert it.server.asked[0].method == "HEAD"
    assert fetched == {
        "url": it.server.url("/page"),
        "status_code": 200,
        "content_type": expected[0],
        "size": expected[1],
        "filename": "a.png",
        "format": "raw",
        "truncated": False,
    }


@pytest.mark.spec("P26")
@pytest.mark.parametrize(
    "content_type", ["image/png", "application/pdf", "audio/mpeg", "video/mp4", "font/woff2", "application/zip"]
)
async def test_binary_content_is_told_of_and_not_read(content_type: str) -> None:
    lines = (f"Content-Type: {content_type}", "Content-Length: 5000000000", "Last-Modified: yesterday")
    async with site(endless(head(*lines), b"\0" * 65_536), first_byte=FOR_EVER, body=FOR_EVER) as it:
        fetched = await it.answered("/page", as_markdown=True)
    assert "content" not in fetched
    assert (fetched["content_type"], fetched["size"], fetched["last_modified"]) == (
        content_type,
        5_000_000_000,
        "yesterday",
    )
    assert (fetched["format"], fetched["truncated"], fetched["status_code"]) == ("raw", False, 200)
    assert "Binary content is not supported" in fetched["error"]
    assert content_type in fetched["error"]


@pytest.mark.spec("P26")
@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n" + b"x" * 2_000,
        b"%PDF-1.7\n" + b"x" * 2_000,
        b"text and \0" + b"x" * 2_000,
        b"PK\x03\x04" + b"x" * 2_000,
    ],
    ids=["png", "pdf", "nul", "zip"],
)
@pytest.mark.parametrize("content_type", ["Content-Type: application/octet-stream", "X: no type", "Content-Type: ?"])
async def test_binary_content_of_no_known_type_is_seen_by_its_beginning(content_type: str, data: bytes) -> None:
    async with site(
        endless(head(content_type, CHUNKED), b"%x\r\n%b\r\n" % (len(data), data)), first_byte=FOR_EVER, body=FOR_EVER
    ) as it:
        fetched = await it.answered()
        assert ("content" in fetched, fetched["size"], fetched["truncated"]) == (False, None, False)
        it.server.pages["/page"] = head(content_type) + data
        fetched = await it.answered()
        assert "Binary content" in fetched["error"]
        assert fetched["size"] is None
        it.server.pages["/page"] = head(content_type) + data[:9]
        assert (await it.answered())["size"] == 9


@pytest.mark.spec("P26")
@pytest.mark.parametrize("lines", [(), ("Content-Type: application/octet-stream",), (PLAIN,)])
async def test_text_of_no_known_type_is_text(lines: tuple[str, ...]) -> None:
    async with site(head(*lines) + b"some words " * 500) as it:
        fetched = await it.answered()
    assert (fetched["content"], fetched["size"]) == ("some words " * 500, 5_500)


@pytest.mark.spec("P26")
@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n", b"\x7fELF", b"\0\xff\xfe\0" * 9])
async def test_plain_text_that_is_none_is_binary(data: bytes) -> None:
    async with site(answer(body=data, content_type="text/plain")) as it:
        assert "Binary content" in (await it.answered())["error"]


@cache
def bombs(coding: str) -> bytes:
    return CODINGS[coding](b"boom " * 3_000_000)


@pytest.mark.spec("P27")
@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("options", [{}, {"as_markdown": True}])
async def test_a_bomb_is_cut_at_the_cap(coding: str, options: dict[str, Any]) -> None:
    bomb = bombs(coding)
    assert len(bomb) < 200_000
    async with site(head(HTML, f"Content-Encoding: {coding}") + bomb, first_byte=FOR_EVER, body=FOR_EVER) as it:
        fetched = await it.answered(**options)
    assert (fetched["size"], fetched["truncated"]) == (10_000_000, True)
    assert fetched["content"].startswith("boom boom ")
    assert fetched["content"].endswith(CUT_OFF.format(10_000_000))


@pytest.mark.spec("P27")
@pytest.mark.parametrize("coding", CODINGS)
async def test_every_coding_is_undone(coding: str) -> None:
    async with site(
        answer(body=CODINGS[coding](b"hello " * 9), content_type="text/css", content_encoding=coding)
    ) as it:
        fetched = await it.answered()
    assert (fetched["content"], fetched["size"], fetched["truncated"]) == ("hello " * 9, 54, False)
    assert it.server.asked[0].headers["accept-encoding"] == "gzip, deflate, br, zstd"


@pytest.mark.spec("P27")
@pytest.mark.parametrize(
    "page",
    [
        endless(head(PLAIN), b"1234567890" * 100),
        endless(head(PLAIN, CHUNKED), b"a\r\n1234567890\r\n" * 100),
        answer(body=b"1234567890" * 101, content_type="text/plain"),
    ],
    ids=["until it closes", "chunked", "of a length"],
)
async def test_what_is_longer_than_the_cap_is_cut(page: Page | bytes) -> None:
    async with site(page, max_bytes=1_001, first_byte=FOR_EVER, body=FOR_EVER) as it:
        fetched = await it.answered()
    assert (fetched["size"], fetched["truncated"]) == (1_001, True)
    assert fetched["content"] == "1234567890" * 100 + "1" + CUT_OFF.format(1_001)


@pytest.mark.spec("P27")
@pytest.mark.parametrize("size", [2, 3, 4])
async def test_what_is_as_long_as_the_cap_is_whole_and_no_letter_is_halved(size: int) -> None:
    async with site(answer(body="aü'".encode(), content_type="text/plain"), max_bytes=size) as it:
        fetched = await it.answered()
    content = {2: "a" + CUT_OFF.format(2), 3: "aü" + CUT_OFF.format(3), 4: "aü'"}[size]
    assert (fetched["content"], fetched["size"], fetched["truncated"]) == (content, size, size < 4)


@pytest.mark.spec("P27")
async def test_html_that_would_take_too_much_memory_is_converted_in_part() -> None:
    page = (b"<!--" + b"x" * 10_000 + b"-->" + "<p>😀".encode()) * 700
    async with site(answer(body=page, content_type="text/html"), first_byte=FOR_EVER, body=FOR_EVER) as it:
        fetched = await it.answered(as_markdown=True)
    assert (fetched["size"], fetched["truncated"]) == (len(page), True)
    assert fetched["content"].startswith("😀\n\n😀")
    assert fetched["content"].endswith("[..the rest of the page is too large to convert...]")
    assert 500 < fetched["content"].count("😀") < 700


BROKEN: dict[str, tuple[bytes, str]] = {
    "shorter than it says": (head(HTML, "Content-Length: 10") + b"half", "half" + DID_NOT_ARRIVE),
    "nothing of what it says": (head(HTML, "Content-Length: 10"), DID_NOT_ARRIVE),
    "without its last chunk": (head(HTML, CHUNKED) + b"4\r\nhalf\r\n", "half" + DID_NOT_ARRIVE),
    "in chunks that are none": (head(HTML, CHUNKED) + b"4\r\nhalf\r\nno size\r\n", "half" + DID_NOT_ARRIVE),
    "in a chunk with too much to say": (
        head(HTML, CHUNKED) + b"4\r\nhalf\r\n4;" + b"x" * 200_000,
        "half" + DID_NOT_ARRIVE,
    ),
    "gzip without its end": (
        head(HTML, "Content-Encoding: gzip") + gzip.compress(b"half")[:-8],
        "half" + DID_NOT_ARRIVE,
    ),
    "longer than it says": (head(HTML, "Content-Length: 4") + b"half of it", "half"),
    "of nothing, though gzip": (head(HTML, "Content-Encoding: gzip", "Content-Length: 0"), ""),
}


@pytest.mark.spec("P26", "P27")
@pytest.mark.parametrize("page", BROKEN)
async def test_of_what_breaks_off_there_is_what_came(page: str) -> None:
    response, content = BROKEN[page]
    async with site(response) as it:
        fetched = await it.answered()
    assert (fetched["content"], fetched["truncated"]) == (content, content.endswith("...]"))


@pytest.mark.spec("P27")
@pytest.mark.parametrize("coding", CODINGS)
async def test_a_coding_that_breaks_in_the_middle_gives_what_came_before(coding: str) -> None:
    words = b"".join(b"%d " % number for number in range(60_000))
    coded = bytearray(CODINGS[coding](words))
    coded[-len(coded) // 4 :] = b"\xff" * (len(coded) // 4)
    async with site(head(HTML, f"Content-Encoding: {coding}") + coded) as it:
        fetched = await it.answered()
    assert fetched["content"].startswith("0 1 2 3 ")
    # Brotli has no checksum, and may not notice.
    assert fetched["content"].endswith((NOT_DECODED, DID_NOT_ARRIVE) if coding == "br" else NOT_DECODED)
    assert fetched["truncated"] is True


@pytest.mark.spec("P27")
@pytest.mark.parametrize("coding", [*CODINGS, "compress", "gzip, br", "x" * 100])
async def test_what_is_not_coded_as_it_says_is_an_error(coding: str) -> None:
    async with site(answer(body=b"this is plain text", content_type="text/html", content_encoding=coding)) as it:
        status, code, message = await it.failed()
        assert (status, code) == (400, "bad_encoding")
        assert len(message) < 200
        fetched = await it.answered(method="HEAD")
        assert fetched["size"] == 18
        it.server.pages["/page"] = answer(body=b"x", content_type="image/png", content_encoding=coding)
        assert "Binary" in (await it.answered())["error"]


@pytest.mark.spec("P27")
async def test_redirects_are_followed_ten_times() -> None:
    async def onwards(request: Asked, writer: asyncio.StreamWriter) -> None:
        number = int(request.target.partition("?")[2] or 0)
        writer.write(redirect(f"/page?{number + 1}") if number < 10 else answer(body=b"there", content_type="text/css"))
        await writer.drain()

    async with site(
        onwards, pages={"/loop": redirect("/loop"), "/to": redirect("/fro"), "/fro": redirect("/to")}
    ) as it:
        assert (await it.answered())["content"] == "there"
        for loop in ("/loop", "/to"):
            request_count = len(it.server.asked)
            assert (await it.failed(loop))[1:] == ("too_many_redirects", "There were more than 10 redirects.")
            assert len(it.server.asked) == request_count + 11
    async with site(onwards, redirects=9) as it:
        assert (await it.failed())[1] == "too_many_redirects"


@pytest.mark.spec("P26")
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_headers_that_are_too_long_are_an_error(method: str) -> None:
    async with site(saying(b"HTTP/1.1 200 OK\r\n" + b"X: " + b"x" * 1_000_000, FOR_EVER), first_byte=5) as it:
        status, code, message = await it.failed(method=method)
    assert (status, code) == (502, "headers_too_long")
    assert "more than 100 KiB" in message


@pytest.mark.spec("P26")
async def test_what_no_reader_needs_of_a_header_is_left_out() -> None:
    long = "x" * 20_000
    lines = (
        f"Content-Type: text/plain; a={long}",
        f"Last-Modified: {long}",
        f"Content-Disposition: a; filename={long}",
    )
    async with site(head(*lines, "Content-Length: 1") + b"x") as it:
        fetched = await it.answered()
    assert (fetched["content"], fetched["content_type"], fetched["filename"]) == ("x", None, "x" * 255)
    assert "last_modified" not in fetched


@pytest.mark.spec("P26")
@pytest.mark.parametrize(
    "response", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", b"\0" * 99]
)
async def test_what_is_no_http_is_an_error(response: bytes) -> None:
    async with site(response) as it:
        status, code, message = await it.failed()
    assert (status, code) == (503, "unreachable")
    assert "127.0.0.1" in message


@pytest.mark.spec("P26")
@pytest.mark.parametrize(
    "url", ["", "page", "//a/b", "ftp://a/", "file:///etc/passwd", "http://", "http://u:p@a/", "http://a b/"]
)
async def test_what_is_no_url_is_refused(url: str) -> None:
    async with site() as it:
        result = await it.desk.session.try_message(it.desk.session.message("web_fetch", {"url": url}))
    assert result.error is not None
    assert (result.error.status, result.error.code) == (400, "url_refused")


@pytest.mark.spec("P26", "G29")
async def test_only_the_hosts_of_the_config_are_allowed() -> None:
    async with site(allow=()) as it:
        assert (await it.failed())[:2] == (403, "address_refused")
        assert it.server.asked == []
    async with site() as it, site(answer(body=b"secret"), allow=()) as other:
        it.server.pages["/page"] = redirect("http://169.254.169.254/latest/meta-data/")
        assert (await it.failed())[:2] == (403, "address_refused")
        assert other.server.asked == []


@pytest.mark.spec("P27")
@pytest.mark.parametrize("body", ["\0\x01\x02\x1b[31mred\x7f\r\n\tend", "a\0b\0"])
@pytest.mark.parametrize("charset", ["utf-8", "windows-1252", "utf-16"])
async def test_control_characters_do_not_reach_the_model(body: str, charset: str) -> None:
    async with site(answer(body=body.encode(charset), content_type=f"text/html; charset={charset}")) as it:
        fetched = await it.answered()
    assert fetched["content"] == {"\0": "[31mred\r\n\tend", "a": "ab"}[body[0]]
    assert fetched["size"] == len(body.encode(charset))
