"""A call as server-sent events: every message as it comes, and in the end what came of it (spec 3, K3)."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_core import to_json
from starlette.types import Receive, Send

from capset.kernel.streaming import Messages
from capset.server.limits import Limits
from capset.server.rest.watch import Watch
from capset.server.visit import Gone, Visit
from capset.wire.calls import call_data
from capset.wire.messages import message_data

_HEADERS = ((b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no"))


async def stream_events(
    messages: Messages, session: str, visit: Visit, receive: Receive, send: Send, limits: Limits
) -> None:
    """Answer with a call's messages, and with its wire shape as the event ``result``.

    The tool goes on only as its client reads. Raises ``Gone`` if the client leaves or takes nothing for too long.
    """
    stream = _Stream(send, limits)
    beat: asyncio.Task[None] | None = None
    reply: Any = None
    try:
        with Watch(receive):
            async with messages:
                await stream.start()
                beat = asyncio.get_running_loop().create_task(stream.beat())
                async for message in messages:
                    if message.kind == "event":
                        await stream.put(b"data: " + to_json(message_data(message)) + b"\n\n")
                    elif message.kind == "reply":
                        reply = message.data
            shape = call_data(messages.result, reply, session)
            await stream.put(b"event: result\ndata: " + to_json(shape) + b"\n\n")
            await stream.end()
    finally:
        visit.notes = {"tool": messages.tool, "record": messages.record}
        if beat is not None:
            beat.cancel()


class _Stream:
    """The client's end; it takes each part in a bounded time."""

    def __init__(self, send: Send, limits: Limits) -> None:
        self._send = send
        self._limits = limits

    async def start(self) -> None:
        await self._send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})

    async def put(self, part: bytes, *, more: bool = True) -> None:
        try:
            async with asyncio.timeout(self._limits.send_seconds):
                await self._send({"type": "http.response.body", "body": part, "more_body": more})
        except TimeoutError:
            raise Gone from None

    async def end(self) -> None:
        await self.put(b"", more=False)

    async def beat(self) -> None:
        """Show that the stream lives, so that nothing between takes it for dead."""
        while True:
            await asyncio.sleep(self._limits.beat_seconds)
            await self._send({"type": "http.response.body", "body": b":\n\n", "more_body": True})
