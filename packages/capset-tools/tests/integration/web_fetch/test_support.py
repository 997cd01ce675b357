"""The server of these tests ends quietly when its client has gone, whatever it was about to write."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.helpers.net.support import Asked, server
from tests.helpers.tools.web_fetch.support import endless
from tests.waiting import moment


async def test_a_page_may_write_to_a_client_that_has_gone() -> None:
    page_done, complaints = asyncio.Event(), list[dict[str, Any]]()
    more = endless(b"", b"x" * 1_000)

    async def page(request: Asked, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()
        await moment(0.05)  # the loop has closed the handle by then
        page_done.set()
        await more(request, writer)

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: complaints.append(context))
    async with server({"/": page}) as page_server:
        reader, writer = await asyncio.open_connection("127.0.0.1", page_server.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await asyncio.wait_for(page_done.wait(), 60)
        if serving := set(page_server.serving):
            await asyncio.wait(serving, timeout=5)
        await reader.read()
        writer.close()
    loop.set_exception_handler(None)
    assert complaints == []
