"""The address on this machine to which a provider redirects (RFC 8252, section 7.3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import parse_qsl, urlsplit

_PATH: Final = "/callback"
_MAX_LINE: Final = 16 * 1024
_LINE_SECONDS: Final = 10.0
_CLOSING: Final = "You can close this page, and go back to the terminal."


@asynccontextmanager
async def loopback(port: int) -> AsyncGenerator[tuple[str, Callable[[str], Awaitable[Mapping[str, str]]]]]:
    """Listen on 127.0.0.1; yield the redirect URI, and a function that waits for the parameters of the redirect.

    It takes the page that was opened: only a redirect with its ``state`` counts. ``port`` is 0 for any free one.
    """
    redirected = asyncio.get_running_loop().create_future()
    opened: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_LINE_SECONDS):  # browsers open connections ahead
                line = await reader.readline()
            target = urlsplit(line.decode("ascii", "replace").split(" ")[1] if line.count(b" ") == 2 else "")
            answered = dict(parse_qsl(target.query))
            is_redirect = line.startswith(b"GET ") and target.path == _PATH and answered.get("state") in opened
            status, text = ("200 OK", _CLOSING) if is_redirect else ("404 Not Found", "Not found")
            writer.write(
                f"HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {len(text)}\r\n"
                f"referrer-policy: no-referrer\r\nconnection: close\r\n\r\n{text}".encode()
            )
            await writer.drain()
            if is_redirect and not redirected.done():
                redirected.set_result(answered)
        except (ValueError, ConnectionError, TimeoutError):
            pass  # a line that is too long, or a browser that has left
        finally:
            writer.close()

    def wait(page: str) -> Awaitable[Mapping[str, str]]:
        opened.append(dict(parse_qsl(urlsplit(page).query))["state"])
        return redirected

    server = await asyncio.start_server(answer, "127.0.0.1", port, limit=_MAX_LINE)
    try:
        number = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{number}{_PATH}", wait
    finally:
        server.close()  # without waiting for connections that a browser keeps open
