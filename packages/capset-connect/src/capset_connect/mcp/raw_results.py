"""Stream wrappers that adapt a server's responses to what the MCP SDK accepts (spec 7, M92, M96, M99).

The SDK rejects a whole result for one invalid member, and drops a line that it cannot parse, although the call was
made. So the complete result of a call is put into the metadata of a result that the SDK accepts, lists and handshakes
are made readable, and an unreadable response becomes the error of its request.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Self, cast

import anyio
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage
from mcp_types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from pydantic import ValidationError

from capset_connect.mcp.answers import METHOD, RAW, UNREADABLE, is_question
from capset_connect.mcp.lists.members import readable_result
from capset_connect.mcp.lists.meter import METHODS

if TYPE_CHECKING:
    from capset_connect.mcp.transports import Streams

_LISTEN: Final = "subscriptions/listen"
"""A request that stays open as long as its connection."""
_ID: Final = rb'"id"\s*:\s*(-?[0-9]{1,18}|"[^"\\]{0,200}")'
_FIRST_ID: Final = re.compile(_ID)
_BEGINNING: Final = re.compile(rb"\{[^{}\[\]]*")
"""The start of an object, up to the first nested value."""
_LAST_ID: Final = re.compile(_ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}$')
_LAST_BYTES: Final = 300
_OF_THE_SDK: Final = "Failed to parse "
"""The prefix of the SDK's error for an HTTP response that it cannot parse."""


class UnreadableLine(Exception):
    """A line of output that is not a message. The connection stays usable: many servers print other text."""

    def __init__(self, line: bytes) -> None:
        super().__init__("a line that is not a message")
        self.line = line


@asynccontextmanager
async def raw_results(streams: AbstractAsyncContextManager[Streams]) -> AsyncGenerator[Streams]:
    """Yield a connection's streams, with results and unreadable responses replaced before the SDK reads them."""
    async with streams as (reading, writing):
        pending: dict[RequestId, str] = {}
        yield cast("Streams", (_ReadStream(reading, pending), _WriteStream(writing, pending)))


class _WriteStream:
    """Records the method of each sent request by id, until the request is answered or cancelled."""

    def __init__(self, inner: Any, pending: dict[RequestId, str]) -> None:  # a stream of anyio or of the SDK
        self._inner = inner
        self._pending = pending

    async def send(self, item: SessionMessage) -> None:
        message = item.message
        if isinstance(message, JSONRPCRequest):
            self._pending[coerce_request_id(message.id)] = message.method
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            cancelled = (message.params or {}).get("requestId")
            self._pending.pop(coerce_request_id(cast("RequestId", cancelled)), None)
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()


class _ReadStream:
    """Yields the received messages in a form that the SDK accepts."""

    def __init__(self, inner: Any, pending: dict[RequestId, str]) -> None:  # as above
        self._inner = inner
        self._pending = pending

    @property
    def last_context(self) -> Any:  # a type of the SDK
        """The context in which the newest message was sent, if the stream records it."""
        return getattr(self._inner, "last_context", None)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> SessionMessage | Exception:
        while True:
            item: SessionMessage | Exception = await self._inner.receive()
            if isinstance(item, SessionMessage):
                return self._taken(item)
            line = _line_of(item)
            if line is not None and (request_id := request_answered(line, self._pending)) is not None:
                del self._pending[request_id]
                return SessionMessage(_unreadable(request_id))
            if not isinstance(item, UnreadableLine):
                return item

    def _taken(self, item: SessionMessage) -> SessionMessage:
        message = item.message
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            return item
        request_id = _only(self._pending) if message.id is None else coerce_request_id(message.id)
        if request_id is None:
            return item
        method = self._pending.pop(request_id, None)
        if isinstance(message, JSONRPCError):
            is_unreadable = message.error.code == PARSE_ERROR and message.error.message.startswith(_OF_THE_SDK)
            answered = JSONRPCError(jsonrpc="2.0", id=request_id, error=message.error)
            return SessionMessage(_unreadable(request_id) if is_unreadable else answered, item.metadata)
        result: dict[str, Any]  # any JSON
        if method in METHODS:
            result = readable_result(message.result)
        elif method == METHOD and not is_question(message.result):
            # The SDK validates nothing else of an error result.
            result = {"content": [], "isError": True, "resultType": "complete", "_meta": {RAW: message.result}}
        else:
            return item
        return SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=message.id, result=result), item.metadata)


def _line_of(error: Exception) -> bytes | None:
    """Return the received text that is not a message, or ``None`` for any other error."""
    if isinstance(error, UnreadableLine):
        return error.line
    if isinstance(error, ValidationError):  # the SDK's, over HTTP with SSE
        received: object = error.errors(include_url=False, include_context=False)[0]["input"]
        return (received if isinstance(received, str) else json.dumps(received, default=str)).encode(errors="replace")
    return None


def _unreadable(request_id: RequestId) -> JSONRPCError:
    error = ErrorData(code=PARSE_ERROR, message="The response cannot be read", data=UNREADABLE)
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def request_answered(line: bytes, pending: Mapping[RequestId, str]) -> RequestId | None:
    """Return the id of the pending request that an unreadable line answers, or ``None``.

    The id is also found in a line that is not valid JSON. A line without an id answers the only pending request. If
    several are pending, it ends none of them: the others would lose responses that are still to come.
    """
    text = line.strip()
    if b'"jsonrpc"' not in text or not (b'"result"' in text or b'"error"' in text):
        return None
    try:
        data: object = json.loads(text.decode(errors="replace"))
    except (ValueError, RecursionError):
        beginning = _BEGINNING.match(text)
        if beginning is None or b'"method"' in beginning[0]:
            return None
        match = _FIRST_ID.search(beginning[0]) or _LAST_ID.search(text[-_LAST_BYTES:])
        own_id: object = None if match is None else json.loads(match[1].decode(errors="replace"))
    else:
        members = cast("dict[str, object]", data) if isinstance(data, dict) else {"method": None}
        if "method" in members:
            return None
        own_id = members.get("id")
    if isinstance(own_id, int | str) and not isinstance(own_id, bool):
        request_id = coerce_request_id(own_id)
        return request_id if request_id in pending else None
    return _only(pending)


def _only(pending: Mapping[RequestId, str]) -> RequestId | None:
    """Return the id of the only pending request, or ``None`` if there are none or several."""
    waiting = [request_id for request_id, method in pending.items() if method != _LISTEN]
    return waiting[0] if len(waiting) == 1 else None
