"""MCP over standard streams: one client, one session, one message per line."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial
from typing import Final

from anyio import CancelScope, Event, create_memory_object_stream, create_task_group, move_on_after
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.streamable_http import REQUEST_CANCELLED
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    PROTOCOL_VERSION_META_KEY,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import from_json

from capset.kernel.call.session import Session
from capset_server.auth.signing_keys import KeySource
from capset_server.mcp import changes
from capset_server.mcp.exchanges import BY_OTHERS, ApprovalAccess, Exchange
from capset_server.mcp.protocol import make_server
from capset_server.standard_streams import Streams

LAST_SECONDS: Final = 5.0
"""How long running requests may still take once the client has closed its end."""
MAX_LINE: Final = 16 * 1024 * 1024
"""The maximum length of a message, in bytes."""


async def serve_stdio(
    session: Session, *, keys: KeySource | None = None, approvals: ApprovalAccess = BY_OTHERS
) -> None:
    """Serve one session on the process's standard streams until the client closes them; cancel it to stop earlier.

    If ``keys`` outlive the process, such as ``StoredKeys``, so do the ids of tasks and the state of questions.
    ``approvals`` says how calls that wait for an approval are decided.

    From now until the process ends, the streams belong to the protocol alone; see ``Streams``. Raises ``OSError`` if
    there are no streams.
    """
    exchange = Exchange(session, approvals=approvals)
    wire = _Wire(Streams())
    server = make_server(lambda: exchange, keys)
    incoming, read = create_memory_object_stream[SessionMessage | Exception]()
    write, outgoing = create_memory_object_stream[SessionMessage]()
    async with create_task_group() as tasks:
        tasks.start_soon(wire.take, incoming, write)
        tasks.start_soon(wire.give, outgoing, tasks.cancel_scope)
        await server.run(read, write, server.create_initialization_options())
        tasks.cancel_scope.cancel()


class _Wire:
    """The two streams, and the requests still to be answered."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._open: set[RequestId] = set()
        self._answered = Event()

    async def take(
        self,
        incoming: MemoryObjectSendStream[SessionMessage | Exception],
        answers: MemoryObjectSendStream[SessionMessage],
    ) -> None:
        """Pass on incoming messages; answer malformed ones, and cancelled ones of older clients."""
        async with incoming:
            async for line in self._lines():
                if (message := await self._message(line)) is None:
                    continue
                match message.message:
                    case JSONRPCRequest(method=changes.METHOD):
                        pass  # answered only at the end
                    case JSONRPCRequest() as request:
                        self._open.add(request.id)
                        unanswered = partial(self._end_cancelled, request, answers)
                        message.metadata = ServerMessageMetadata(on_request_unanswered=unanswered)
                    case _:
                        pass
                await incoming.send(message)
            with move_on_after(LAST_SECONDS):
                while self._open:
                    self._answered = Event()
                    await self._answered.wait()

    async def give(self, outgoing: MemoryObjectReceiveStream[SessionMessage], everything: CancelScope) -> None:
        """Write every outgoing message. A client that stops reading ends everything."""
        try:
            async with outgoing:
                async for message in outgoing:
                    await self._write(message.message.model_dump_json(by_alias=True, exclude_unset=True))
                    if isinstance(message.message, JSONRPCResponse | JSONRPCError):
                        self._settle(message.message.id)
        except OSError:
            everything.cancel()

    async def _end_cancelled(self, request: JSONRPCRequest, answers: MemoryObjectSendStream[SessionMessage]) -> None:
        """Answer a cancelled request as over HTTP: only clients before revision 2026-07-28 wait for an answer."""
        if PROTOCOL_VERSION_META_KEY in ((request.params or {}).get("_meta") or {}):
            self._settle(request.id)
            return
        error = ErrorData(code=REQUEST_CANCELLED, message="Request cancelled")
        await answers.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=request.id, error=error)))

    def _settle(self, request_id: RequestId | None) -> None:
        if request_id is not None:
            self._open.discard(request_id)
        self._answered.set()

    async def _message(self, line: bytes) -> SessionMessage | None:
        """Return the message of a line. A malformed one is answered as JSON-RPC requires, without an id."""
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValidationError:
            pass
        if len(line) > MAX_LINE:
            error = ErrorData(code=INVALID_REQUEST, message=f"A message has at most {MAX_LINE} bytes")
        elif _is_json(line):
            error = ErrorData(code=INVALID_REQUEST, message="Not a JSON-RPC message: one object a line")
        else:
            error = ErrorData(code=PARSE_ERROR, message="Not JSON: one message a line")
        await self._write(
            JSONRPCError(jsonrpc="2.0", id=None, error=error).model_dump_json(by_alias=True, exclude_unset=True)
        )
        return None

    async def _lines(self) -> AsyncGenerator[bytes]:
        """Yield every line that is not blank; of one that is too long, only the beginning."""
        parts: list[bytes] = []
        skips = False
        while chunk := await self._streams.read():
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                line = b"".join([*parts, end])
                if line.strip() and not skips:
                    yield line
                parts, skips = [], False
            parts.append(rest)
            if sum(map(len, parts)) > MAX_LINE:
                if not skips:
                    yield b"".join(parts)
                parts, skips = [], True
        if (line := b"".join(parts)).strip() and not skips:
            yield line

    async def _write(self, text: str) -> None:
        await self._streams.write(text.encode() + b"\n")


def _is_json(line: bytes) -> bool:
    try:
        from_json(line)
    except ValueError:
        return False
    return True
