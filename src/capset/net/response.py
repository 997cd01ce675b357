"""The response to a request, read up to a limit (spec 4, G29; spec 5, P26, P27)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from capset.errors import TransientError
from capset.net.content_coding import decoder_for
from capset.net.urls import Url

if TYPE_CHECKING:
    import httpcore2


@dataclass(frozen=True, slots=True)
class Body:
    """The bytes read. ``cut`` is the limit that truncated them, if any: size or time."""

    data: bytes
    cut: Literal["size", "time"] | None = None


class HttpResponse:
    """A response that has begun. ``url`` is its source, after all redirects; header names are lower-case."""

    def __init__(self, url: Url, answer: httpcore2.Response) -> None:
        self.url = str(url)
        self.host = url.host
        self.status = answer.status
        self.headers = tuple(
            (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in answer.headers
        )
        self._answer = answer

    def header(self, name: str) -> str | None:
        """Return a header's value, several joined by commas, or ``None`` if it is absent."""
        found = [value for key, value in self.headers if key == name.lower()]
        return ", ".join(found) if found else None

    @property
    def location(self) -> str | None:
        """The target of a redirect; servers send raw UTF-8, though they should not."""
        found = next((value for key, value in self.headers if key == "location"), None)
        return found and found.encode("latin-1").decode(errors="replace")

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Yield the decoded body, in pieces of about 64 KiB at most, as it arrives. Can be read once.

        Raises ``ToolError`` (``bad_encoding``) if the encoding is unknown or broken, ``TransientError``
        (``unreachable``) if the connection breaks.
        """
        from capset.net.connections import told

        decoder = decoder_for(self.header("content-encoding") or "")
        with told(self.host):
            async with aclosing(self._answer.aiter_stream()) as stream:
                async for data in stream:
                    for piece in decoder.decode(data):
                        yield piece
        if not decoder.is_complete:
            raise TransientError("The answer broke off.", code="unreachable")

    async def read(self, limit: int, *, within: float | None = None) -> Body:
        """Return the decoded body, at most ``limit`` bytes, and only the part received ``within`` so many seconds.

        Raises as ``chunks`` does; a truncated body is not an error.
        """
        data, scope = bytearray(), asyncio.timeout(within)
        try:
            async with scope, aclosing(self.chunks()) as chunks:
                async for piece in chunks:
                    data += piece
                    if len(data) > limit:
                        return Body(bytes(data[:limit]), "size")
        except TimeoutError:
            if not scope.expired():
                raise
            return Body(bytes(data), "time")
        return Body(bytes(data))
