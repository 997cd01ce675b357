"""Whatever a server sends, a fetch needs less than 64 MB beside what the process had before it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from importlib import import_module
from typing import Any

import pytest

from scripts.packages import ROOT
from tests.helpers.net.support import Answer, answer, server
from tests.helpers.tools.web_fetch.codings import CODINGS
from tests.helpers.tools.web_fetch.support import CHUNKED, HTML, PLAIN, endless, head

pytestmark = pytest.mark.nightly

MOST = 64.0
SIZE = 10_000_000


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"  # of this process; the fetch is in another


def bomb(coding: str, data: bytes, times: int) -> bytes:
    """Return an answer that says a few MB of data many times over, packed without ever being whole."""
    if coding == "br":
        packer = import_module("brotli").Compressor(quality=3)
        packed = b"".join(packer.process(data) for _ in range(times)) + packer.finish()
    else:
        packed = CODINGS[coding](data) * times if coding != "deflate" else CODINGS[coding](data * 12)
    return head(HTML, f"Content-Encoding: {coding}") + packed


MB = 1_000_000
WIDE = ("<p>" + "hello world " * 8 + "😀").encode()
CASES: dict[str, tuple[Any, dict[str, bool]]] = {
    **{f"a bomb of {coding}": (lambda coding=coding: bomb(coding, b"x" * MB, 100), {}) for coding in CODINGS},
    "a bomb of zeros": (lambda: bomb("gzip", bytes(MB), 100), {}),
    "a bomb of tags": (lambda: bomb("gzip", b"<div><a href=x>" * (MB // 15), 100), {"as_markdown": True}),
    "a bomb of wide letters": (lambda: bomb("gzip", WIDE * (MB // len(WIDE)), 100), {}),
    "a bomb of wide letters, converted": (lambda: bomb("gzip", WIDE * (MB // len(WIDE)), 100), {"as_markdown": True}),
    "a bomb of wide letters as text": (lambda: bomb("gzip", WIDE * (MB // len(WIDE)), 100), {"as_text": True}),
    "a body without end": (lambda: endless(head(PLAIN), b'"\\\n' * 20_000), {}),
    "chunks without end": (
        lambda: endless(head(HTML, CHUNKED), (b"400\r\n" + b"<" * 1_024 + b"\r\n") * 64),
        {"as_text": True},
    ),
    "one wide letter at the end": (
        lambda: answer(body=b"x" * (SIZE - 4) + "😀x".encode(), content_type="text/html"),
        {},
    ),
    "an old charset": (lambda: answer(body="Привет ".encode("cp1251") * 2 * MB, content_type="text/html"), {}),
    "utf-16": (
        lambda: answer(body=("\ufeff" + "wide 😀 " * MB).encode("utf-16"), content_type="text/html"),
        {"as_markdown": True},
    ),
}


@pytest.fixture
async def measure() -> AsyncGenerator[Any]:
    pages: dict[str, Answer] = {"/warm": answer(body="<p>grüße 😀".encode(), content_type="text/html")}
    async with server(pages) as page_server:

        async def measured(page: Answer, arguments: dict[str, bool]) -> dict[str, Any]:
            page_server.pages["/page"] = page
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, str(ROOT / "tests/helpers/tools/web_fetch/measured.py")),
                *(page_server.url("/page"), page_server.url("/warm"), json.dumps(arguments)),
                stdout=asyncio.subprocess.PIPE,
            )
            output, _ = await child.communicate()
            assert child.returncode == 0
            return json.loads(output)

        yield measured


@pytest.mark.realtime
@pytest.mark.spec("P27", "T27")
@pytest.mark.parametrize("case", CASES)
async def test_a_fetch_takes_little_memory(case: str, measure: Any) -> None:
    make, arguments = CASES[case]
    measurement = await measure(make(), arguments)
    assert (measurement["size"], measurement["truncated"]) == (SIZE, True)
    assert measurement["end"].endswith("[..more content was cut off at 10000000 bytes...]")
    assert measurement["mb"] < MOST


@pytest.mark.realtime
@pytest.mark.spec("P26")
@pytest.mark.parametrize(("content_type", "body"), [("image/png", b"x" * 65_536), ("", b"\0" * 65_536)])
async def test_binary_content_takes_none(content_type: str, body: bytes, measure: Any) -> None:
    measurement = await measure(endless(head(f"Content-Type: {content_type}"), body), {})
    assert "Binary content" in measurement["error"]
    assert measurement["mb"] < 4
