"""A call as server-sent events: every message as it comes, then the result (spec 3, K3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from typing import Any

from pydantic_core import to_json
from starlette.types import Receive, Send

from capset.kernel.streams.messages import Messages
from capset.server.http.bodies import ClientLeft
from capset.server.http.disconnects import DisconnectWatch
from capset.server.http.limits import RequestLimits
from capset.wire.messages import message_data

_HEADERS = ((b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no"))


class EventStream:
    """A response of server-sent events, with a timeout for each part and keep-alives in between."""

    def __init__(self, send: Send, limits: RequestLimits) -> None:
        self._send = send
        self._limits = limits

    async def start(self, *headers: tuple[bytes, bytes]) -> None:
        """Begin the response."""
        await self._send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, *headers]})

    async def follow(self, messages: Messages, receive: Receive) -> Any:  # the reply's data, as JSON data
        """Begin the response, run a call, and send its events; return its reply's data, if there is a reply.

        The tool advances only as its client reads. Raises ``ClientLeft`` if the client disconnects, or reads nothing
        for too long.
        """
        reply: Any = None
        beat: asyncio.Task[None] | None = None
        try:
            with DisconnectWatch(receive):
                async with messages:
                    await self.start()
                    beat = asyncio.get_running_loop().create_task(self._beat())
                    async for message in messages:
                        if message.kind == "event":
                            await self._put(b"data: " + to_json(message_data(message)) + b"\n\n")
                        elif message.kind == "reply":
                            reply = message.data
        finally:
            if beat is not None:
                beat.cancel()
        return reply

    async def tell(self, parts: AsyncIterable[bytes], receive: Receive, *headers: tuple[bytes, bytes]) -> None:
        """Answer with parts as they come, one after the other. Raises ``ClientLeft`` as ``follow`` does."""
        beat: asyncio.Task[None] | None = None
        try:
            with DisconnectWatch(receive):
                await self.start(*headers)
                beat = asyncio.get_running_loop().create_task(self._beat())
                async for part in parts:
                    await self._put(part)
        finally:
            if beat is not None:
                beat.cancel()
        await self._put(b"", more=False)

    async def end(self, result: bytes) -> None:
        """Send the result of the call, a JSON document, and end the response."""
        await self._put(b"event: result\ndata: " + result + b"\n\n")
        await self._put(b"", more=False)

    async def _put(self, part: bytes, *, more: bool = True) -> None:
        try:
            async with asyncio.timeout(self._limits.send_seconds):
                await self._send({"type": "http.response.body", "body": part, "more_body": more})
        except TimeoutError:
            raise ClientLeft from None

    async def _beat(self) -> None:
        """Send keep-alives, so that no intermediary closes the connection."""
        while True:
            await asyncio.sleep(self._limits.beat_seconds)
            await self._send({"type": "http.response.body", "body": b":\n\n", "more_body": True})
