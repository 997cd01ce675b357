"""Followers of sessions' events that cost their process little: a protocol that keeps numbers and types, no texts."""

from __future__ import annotations

import asyncio
import re
from typing import Self, cast

from lab.siege.connection import request

_EVENT = re.compile(rb"id: (\d+)\r?\nevent: ([a-z.]+)\r?\n")
_TAIL = 64
"""How much of what has come may be the beginning of an event whose rest is still to come."""


class Follower(asyncio.Protocol):
    """One stream of a session's events: the numbers of those that came, and whether a turn has ended among them."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.status = ""
        self.events = 0
        self.gaps = 0
        self.turns = 0
        self.is_open = False
        self._rest = b""
        self._began = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, port: int, session: str, key: str) -> Self:
        """Open the stream, and return once it has begun. Raises ``RuntimeError`` if it does not."""
        loop = asyncio.get_running_loop()
        transport, follower = await loop.create_connection(lambda: cls(session), "127.0.0.1", port)
        transport.write(request("GET", f"/v1/sessions/{session}/events", key))
        await asyncio.wait_for(follower._began, 60)
        if follower.status != "200":
            raise RuntimeError(f"a stream of events was answered with {follower.status or 'no status'}")
        return follower

    def close(self) -> None:
        """Leave, as a client does that is gone."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection, to close it."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by its type

    def data_received(self, data: bytes) -> None:
        """Count the events in what has come."""
        if not self._began.done():
            self.status, self.is_open = data[9:12].decode(), True
            self._began.set_result(None)
        self._rest += data
        end = 0
        for match in _EVENT.finditer(self._rest):
            self.gaps += int(match[1]) != self.events + 1
            self.events = int(match[1])
            self.turns += match[2] == b"turn.ended"
            end = match.end()
        self._rest = self._rest[max(end, len(self._rest) - _TAIL) :]

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the stream has ended."""
        self.is_open = False
        if not self._began.done():
            self._began.set_result(None)
