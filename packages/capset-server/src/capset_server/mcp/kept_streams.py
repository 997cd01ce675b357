"""Response streams that are kept while their call runs, and for clients that reconnect (spec 7, M25).

On such a stream a call can also ask its client, as in revisions before 2026-07-28.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Set
from contextlib import aclosing, suppress
from typing import Any, Final, NamedTuple

from anyio import CancelScope, create_task_group, fail_after
from starlette.types import Message, Receive, Send

from capset_server.http.bodies import ClientLeft

VERSION: Final = "2025-11-25"
"""The only revision with resumable streams: older clients cannot read events without data; later ones have none."""
RETRY_MS: Final = 2_000
"""How long a client waits before it reconnects."""
GRACE_SECONDS: Final = 30.0
"""How long a call continues without its client."""
KEEP_SECONDS: Final = 300.0
"""How long a response is kept that was not fetched."""
SENT_SECONDS: Final = 30.0
"""How long a response is kept that was sent, in case it was lost on the way."""
MAX_BYTES: Final = 512 * 1024
"""Maximum size of a kept response, in bytes. Beyond it, unfetched progress is dropped, and so is a longer result."""
MAX_OWN: Final = 16
"""Maximum number of kept responses of a principal; while their calls run, further responses are not kept."""
MAX_ALL: Final = 128
PING_SECONDS: Final = 15.0
ASK_SECONDS: Final = 600.0
"""How long a person may take to answer; after that, the form counts as closed."""
SEND_SECONDS: Final = 30.0
"""How long a client may accept nothing before it counts as disconnected."""
_QUESTION: Final = re.compile(r"[0-9a-f]{8}\.[0-9a-f]{32}\.[0-9]+")
_END: Final = b"\r\n\r\n"
_HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
)


class AnswerOwner(NamedTuple):
    """The owner of a response, who alone may fetch it: a caller at one path, in one transport session."""

    identity: str
    connection: str | None


class KeptStream:
    """The response to one call: the events that are kept, and the client that reads them, if any.

    ``cancel`` ends the call; it is called when there has been no client for ``GRACE_SECONDS``. ``name`` is the prefix
    of the ids of its events, and ``tool`` the called tool, as ``CAPABILITY.TOOL``. A stream that is not resumable has
    no ids, and its call ends when its client disconnects.
    """

    def __init__(
        self,
        name: str,
        owner: AnswerOwner,
        principal: object,
        tool: str | None,
        cancel: Callable[[], None],
        *,
        is_resumable: bool = True,
    ) -> None:
        self.name, self.owner, self.principal, self.tool = name, owner, principal, tool
        self.is_resumable = is_resumable
        self.is_over, self.is_sent = False, False
        self._cancel = cancel
        self._events: list[bytes] = []
        self._first = 1
        """The number of the first event that is still kept."""
        self._size = 0
        self._reader, self._readers = 0, 0
        self._next = 1
        """The number of the event that the reader gets next."""
        self._has_begun = False
        self._plain: list[Message] = []
        """A response that is not a stream; it is passed on unchanged."""
        self._timer: asyncio.TimerHandle | None = None
        self._changed = asyncio.Event()
        self._questions = 0
        self._waiting: dict[str, asyncio.Future[Mapping[str, Any] | None]] = {}

    @property
    def is_read(self) -> bool:
        """Whether a client is reading."""
        return self._readers > 0

    @property
    def _end(self) -> int:
        return self._first + len(self._events)

    def is_of(self, owner: AnswerOwner, tools: Set[str] | None) -> bool:
        """Return whether this owner may fetch the response, with access to ``tools`` only, or to all if ``None``."""
        return self.is_resumable and self.owner == owner and (tools is None or self.tool in tools)

    def can_go_on(self, after: int) -> bool:
        """Return whether a client that has received the event of this number can get the rest."""
        return 0 <= after < self._end and not (self.is_over and after < self._end - 1 and not self._events)

    async def take(self, message: Message) -> None:
        """Accept an ASGI message of the response; wait if the reader is slow."""
        if message["type"] == "http.response.start":
            headers = dict(message["headers"])
            if not headers.get(b"content-type", b"").startswith(b"text/event-stream"):
                self._plain.append(message)
        elif self._plain:
            self._plain.append(message)
        else:
            for block in message.get("body", b"").split(_END):
                if block and not block.startswith(b":"):
                    await self._put(block + _END)
        self._has_begun = True
        self._tell()

    async def _put(self, event: bytes) -> None:
        while self.is_read and self._size > MAX_BYTES:
            await self._change(None)
        self._events.append(event)
        self._size += len(event)
        self._trim()

    async def ask(self, params: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Ask the client to fill in a form, and return the result; ``None`` for an error, or after ``ASK_SECONDS``."""
        self._questions += 1
        name = f"{self.name}.{self._questions}"
        self._waiting[name] = answer = asyncio.get_running_loop().create_future()
        request = {"jsonrpc": "2.0", "id": name, "method": "elicitation/create", "params": params}
        try:
            await self._put(b"event: message\r\ndata: " + json.dumps(request).encode() + _END)
            self._tell()
            async with asyncio.timeout(ASK_SECONDS):
                return await answer
        except TimeoutError:
            return None
        finally:
            del self._waiting[name]

    def answer(self, id: str, result: Mapping[str, Any] | None) -> bool:
        """Accept the client's answer to a question, and return whether the question was open."""
        waiting = self._waiting.get(id)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(result)
        return True

    def end(self) -> None:
        """Mark the response as complete."""
        self.is_over = True
        self._stop_timer()
        self._tell()

    def _trim(self) -> None:
        while self._size > MAX_BYTES and (self._first < self._next or not self.is_read):
            self._size -= len(self._events.pop(0))
            self._first += 1

    def _tell(self) -> None:
        self._changed.set()

    async def deliver(self, after: int, receive: Receive, send: Send) -> None:
        """Send a client the events after this number, until all are sent or the client disconnects.

        A client that comes later replaces the current one.
        """
        self._reader += 1
        self._readers += 1
        self._stop_timer()
        self._next = max(after + 1, self._first)
        self._tell()
        is_primed = False
        try:
            async with create_task_group() as tasks:
                tasks.start_soon(_watch, receive, tasks.cancel_scope)
                async with aclosing(self._messages(after, self._reader)) as messages:
                    with suppress(TimeoutError, ClientLeft, OSError):
                        async for message in messages:
                            with fail_after(SEND_SECONDS):
                                await send(message)
                            is_primed = is_primed or message["type"] == "http.response.body"
                tasks.cancel_scope.cancel()
        finally:
            self._readers -= 1
            self._tell()
            if not (self.is_read or self.is_over):
                self._wait(GRACE_SECONDS if is_primed and self.is_resumable else 0.0)
            self._trim()

    async def _messages(self, after: int, reader: int) -> AsyncGenerator[Message]:
        """Yield the messages to send; the first event has the id from which to resume."""
        while not self._has_begun and not self.is_over:
            await self._change(None)
        if self._plain or not self._has_begun:
            while not self.is_over:
                await self._change(None)
            for message in self._plain:
                yield message
            return
        yield {"type": "http.response.start", "status": 200, "headers": [*_HEADERS]}
        if self.is_resumable:
            yield _body(b"%bretry: %d\r\ndata: %b" % (self._id(after), RETRY_MS, _END))
        while reader == self._reader:
            if self._next < self._end:
                number = self._next
                event = self._events[number - self._first]
                yield _body(self._id(number) + event)
                if reader == self._reader:  # else a later client has taken over
                    self._next = number + 1
                    self._trim()
                    self._tell()
            elif self.is_over:
                self.is_sent = True
                break
            elif not await self._change(PING_SECONDS):
                yield _body(b": ping" + _END)
        yield {"type": "http.response.body", "body": b"", "more_body": False}

    async def _change(self, seconds: float | None) -> bool:
        """Wait until something changes, and return whether it did in time."""
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _id(self, number: int) -> bytes:
        return f"id: {self.name}.{number}\r\n".encode() if self.is_resumable else b""

    def _wait(self, seconds: float) -> None:
        """End the call after this time, unless a client connects."""
        self._timer = asyncio.get_running_loop().call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        self._cancel()
        self._wait(1.0)  # again: the call may not have begun yet

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """End the call now if it has no client: the process is shutting down."""
        if not (self.is_over or self.is_read):
            self._stop_timer()
            self._give_up()


def _body(part: bytes) -> Message:
    return {"type": "http.response.body", "body": part, "more_body": True}


async def _watch(receive: Receive, reading: CancelScope) -> None:
    """Stop reading when the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
    reading.cancel()


class NotKept(Exception):
    """A response cannot be fetched here: the HTTP status to report, and the reason."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class KeptStreams:
    """The responses that a process keeps, limited in number per principal and in total, and in time."""

    def __init__(self) -> None:
        self._process = secrets.token_hex(4)
        self._kept: dict[str, KeptStream] = {}

    def open(
        self, owner: AnswerOwner, principal: object, tool: str | None, cancel: Callable[[], None], *, is_resumable: bool
    ) -> KeptStream | None:
        """Return the stream of a new call, ``None`` if there is no room to keep its response."""
        own_streams = [candidate for candidate in self._kept.values() if candidate.principal == principal]
        if len(own_streams) >= MAX_OWN and not self._drop_one(own_streams):
            return None
        if len(self._kept) >= MAX_ALL:
            sent = [candidate for candidate in self._kept.values() if candidate.is_sent]
            if not self._drop_one(sent or own_streams):
                return None
        name = f"{self._process}.{secrets.token_hex(16)}"
        self._kept[name] = stream = KeptStream(name, owner, principal, tool, cancel, is_resumable=is_resumable)
        return stream

    def end(self, stream: KeptStream) -> None:
        """Complete the response of a call that has ended, and keep it for a while."""
        stream.end()
        if not stream.is_resumable:
            return self._drop(stream.name)
        loop = asyncio.get_running_loop()
        # By name: a timer must not hold a stream that was dropped to make room.
        loop.call_later(SENT_SECONDS, self._drop_sent, stream.name)
        loop.call_later(KEEP_SECONDS, self._drop, stream.name)
        return None

    def find(self, event: str, owner: AnswerOwner, tools: Set[str] | None) -> tuple[KeptStream, int]:
        """Return the stream of an event, and the event's number. Raises ``NotKept``, also for another owner."""
        name, _, number = event.rpartition(".")
        if not (number.isascii() and number.isdigit() and len(number) < 10 and "." in name):
            raise NotKept(400, "Last-Event-ID must be the id of an event of this server")
        self._refuse_others(name)
        stream = self._kept.get(name)
        if stream is None or not stream.is_of(owner, tools) or not stream.can_go_on(int(number)):
            raise NotKept(
                410,
                f"This response is not stored: it is kept for {KEEP_SECONDS:g} seconds, up to {MAX_BYTES:,} bytes",
            )
        return stream, int(number)

    def answer(self, id: str, owner: AnswerOwner, result: Mapping[str, Any] | None) -> bool:
        """Pass on the answer to a question, and return whether the question was open.

        Raises ``NotKept`` if the call runs in another process.
        """
        name = id.rpartition(".")[0]
        if _QUESTION.fullmatch(id):
            self._refuse_others(name)
        stream = self._kept.get(name)
        return stream is not None and stream.owner == owner and stream.answer(id, result)

    def _refuse_others(self, name: str) -> None:
        if name.partition(".")[0] != self._process:
            raise NotKept(
                421,
                "This call runs in another process, or that has ended: send all requests of a session to one process",
            )

    def close(self) -> None:
        """End the calls that have no client: the process is shutting down."""
        for stream in self._kept.values():
            stream.close()

    def _drop_one(self, streams: Iterable[KeptStream]) -> bool:
        """Drop the oldest complete response, preferably a sent one, and return whether there was any."""
        over = [stream for stream in streams if stream.is_over]
        for stream in sorted(over, key=lambda candidate: not candidate.is_sent)[:1]:
            self._drop(stream.name)
        return bool(over)

    def _drop_sent(self, name: str) -> None:
        if (stream := self._kept.get(name)) is not None and stream.is_sent:
            self._drop(name)

    def _drop(self, name: str) -> None:
        self._kept.pop(name, None)
