"""``/v1/sessions/{id}/calls``: one governed call, as JSON or as a stream of server-sent events (spec 5, P9).

The route is declared to FastAPI like every other, for the OpenAPI document, but requests are answered before any router
sees them: agents use this path constantly, and routing costs more than a call.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterable, Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Request
from pydantic import ValidationError
from pydantic_core import to_json
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from capset.definitions.calls.messages import Json, Message
from capset.errors import StoreError
from capset.kernel.call.session import Session
from capset.kernel.results import Result
from capset.kernel.streams.messages import Messages
from capset.schemas.validation_errors import validation_fields
from capset.wire.calls import CallInput, CallShape, approval_of, call_data, message_data
from capset_server.auth.callers import Caller, InsufficientScope, check_tool
from capset_server.http.bodies import ClientLeft, DisconnectWatch
from capset_server.http.idempotency import Idempotency
from capset_server.http.request_context import RequestContext, body_of, caller_of, request_context
from capset_server.http.request_rules import RequestLimits
from capset_server.http.responses import answer, answer_refusal, misfit, retry_headers
from capset_server.rest.routing import CallsSome, Id, Served, check_json_type, parse_json, problems, refuse_query
from capset_server.service import Service

_HEADERS = ((b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no"))
IdempotencyKey = Annotated[
    str | None,
    Header(
        description="A request that is repeated with the same key is carried out once, and gets the same response",
        pattern="^[!-~]{1,255}$",
    ),
]
_WEIGHT: Final = re.compile(r"[01](\.[0-9]{0,3})?")
_REPLAYED: Final = (b"idempotent-replayed", b"true")
router = APIRouter(prefix="/sessions", tags=["calls"])


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

        The tool advances only as fast as the client reads. Raises ``ClientLeft`` if the client disconnects, or reads
        nothing for too long.
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

    async def send_parts(self, parts: AsyncIterable[bytes], receive: Receive, *headers: tuple[bytes, bytes]) -> None:
        """Send a response of parts as they arrive. Raises ``ClientLeft`` as ``follow`` does."""
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


@router.post(
    "/{id}/calls",
    operation_id="call_tool",
    response_model=CallShape,
    responses={
        202: {
            "description": "The call must be approved first: `approval` is the id of the approval request, "
            "`Location` its path. Once it is approved, the same call is allowed. As events, the call waits instead.",
            "model": CallShape,
            "headers": {"Location": {"description": "The approval request", "schema": {"type": "string"}}},
        },
        **problems(400, 404, 409, 413, 415, 422),
        200: {
            "description": "The call was allowed; `success` says whether the tool succeeded. "
            "As events: every message while it runs, without a name, then this object as the event `result`.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
    },
)
async def call_tool(
    request: Request,
    service: Served,
    caller: CallsSome,
    id: Id,
    call_input: CallInput,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Call a tool in a session, governed and recorded.

    A call that is refused in its session (403, 404, 409, 422, 429, 503) is recorded, too. Its problem details also have
    the members of this object.
    """
    return await prepare_call(service, caller, id, call_input, idempotency_key, await request.body(), request.scope)


async def answer_call(service: Service, id: str | None, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a call request like ``call_tool``, without the cost of FastAPI's parameter resolution."""
    request_info, caller = request_context(scope), caller_of(scope)
    caller.check_calls()
    refuse_query(scope)
    check_json_type(request_info.header(b"content-type"))
    if body_of(scope).is_large:
        await service.session_row(caller, str(id))
    body: bytes = (await receive())["body"]
    await _pause_if_large(scope)
    call_input, key = parse_call(body), request_info.header(b"idempotency-key") or None
    await _pause_if_large(scope)
    response = await prepare_call(service, caller, str(id), call_input, key, body, scope)
    await response(scope, receive, send)


async def _pause_if_large(scope: Scope) -> None:
    """Let other tasks run between two steps on a large body, each of which may take tens of milliseconds."""
    if body_of(scope).is_large:
        await asyncio.sleep(0)


async def prepare_call(
    service: Service, caller: Caller, session_id: str, call_input: CallInput, key: str | None, body: bytes, scope: Scope
) -> CallResponse:
    """Return a response that makes the call while it is sent. An idempotency ``key`` is bound to ``body``."""
    request_info = request_context(scope)
    session = await service.session(caller, session_id)
    is_stream = prefers_events(request_info.header(b"accept"))
    if is_stream:
        try:
            await check_tool(caller, session, call_input.tool)
        except InsufficientScope:
            is_stream = False  # the head of a stream could not report this
    idempotency = Idempotency(service, caller, session_id, key, body, request_info.correlation) if key else None
    stored_reply = await idempotency.begin() if idempotency is not None else None
    message = session.message(
        call_input.tool, Json(to_json(call_input.arguments)), correlation=request_info.correlation
    )
    await _pause_if_large(scope)
    if is_stream:
        authorization = request_info.header(b"authorization")
        respond, session = (
            _as_events,
            session.options(
                approvals="wait",
                approval=call_input.approval,
                credential=service.credential(caller, session.snapshot.agent_id, authorization),
            ),
        )
    else:
        respond, session = _as_json, session.options(approvals="defer", approval=call_input.approval)
    call_request = CallRequest(session, message, request_info, service.limits, idempotency, scope["root_path"])
    return CallResponse(call_request, stored_reply, respond)


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A requested call, with its HTTP request and its idempotency."""

    session: Session
    message: Message
    request_info: RequestContext
    limits: RequestLimits
    once: Idempotency | None
    root: str
    """The root path of the application."""


Respond = Callable[[CallRequest, "tuple[int, bytes] | None", Receive, Send], Awaitable[None]]


class CallResponse(Response):
    """A response that makes its call while it is sent, so that the call can stream, and ends if the client leaves."""

    def __init__(self, call_request: CallRequest, stored_reply: tuple[int, bytes] | None, respond: Respond) -> None:
        self.background = None
        self._asked = call_request
        self._kept = stored_reply
        self._respond = respond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Make the call and send its result."""
        await self._respond(self._asked, self._kept, receive, send)


async def _as_json(
    call_request: CallRequest, stored_reply: tuple[int, bytes] | None, receive: Receive, send: Send
) -> None:
    if stored_reply is not None:
        return await answer(send, stored_reply[0], b"application/json", stored_reply[1], _REPLAYED)
    call_request.request_info.notes["tool"] = call_request.message.type
    if call_request.once is None:
        with DisconnectWatch(receive):
            result = await call_request.session.try_message(call_request.message)
        reply = result.data
    else:
        result, reply = await _call_once(call_request, call_request.once, receive)
    call_request.request_info.notes["record"] = result.record
    data = call_data(result, reply, call_request.session.id)
    body = to_json(data)
    if call_request.once is not None:
        await call_request.once.end(result, body)
    status, error = status_of(result), result.error
    if status >= 400 and error is not None:
        return await answer_refusal(send, error, call_request.request_info.correlation, data)
    headers = retry_headers(error)
    if (approval := approval_of(error)) is not None:
        headers.append((b"location", f"{call_request.root}/v1/approvals/{approval}".encode()))
    return await answer(send, status, b"application/json", body, *headers)


async def _call_once(call_request: CallRequest, idempotency: Idempotency, receive: Receive) -> tuple[Result[Any], Any]:
    """Make a call by its messages, which show how far it came if the client leaves. Also return its JSON data."""
    messages, reply = call_request.session.invoke(call_request.message), None
    try:
        with DisconnectWatch(receive):
            async with messages:
                async for message in messages:
                    reply = message.data if message.kind == "reply" else reply
    except ClientLeft:
        await idempotency.abandon(messages)
        raise
    return messages.result, reply


async def _as_events(
    call_request: CallRequest, stored_reply: tuple[int, bytes] | None, receive: Receive, send: Send
) -> None:
    stream = EventStream(send, call_request.limits)
    if stored_reply is not None:
        await stream.start(_REPLAYED)
        return await stream.end(stored_reply[1])
    messages = call_request.session.invoke(call_request.message)
    call_request.request_info.notes.update(tool=call_request.message.type, record=messages.record)
    try:
        reply = await stream.follow(messages, receive)
    except ClientLeft:
        if call_request.once is not None:
            await call_request.once.abandon(messages)
        raise
    result = messages.result
    body = to_json(call_data(result, reply, call_request.session.id))
    if call_request.once is not None:
        await call_request.once.end(result, body)
    return await stream.end(body)


def parse_call(body: bytes) -> CallInput:
    """Parse the call in a body. Raises ``HttpRefusal`` for invalid JSON, ``InvalidArguments`` for invalid content."""
    data = parse_json(body)
    try:
        return CallInput.model_validate(data)
    except ValidationError as error:
        raise misfit("call", validation_fields(error, list(CallInput.model_fields), data)) from None


def status_of(result: Result[Any]) -> int:
    """Return 200 for a call whose handler was started, even if it failed, else the status of the refusal.

    It is 202 for a call that can be repeated once it is approved.
    """
    error = result.error
    if approval_of(error) is not None:
        return 202
    return error.status if error is not None and (result.refused or isinstance(error, StoreError)) else 200


def prefers_events(accept: str) -> bool:
    """Return whether a client prefers events to JSON; it may name both, with weights (RFC 9110 §12.5.1)."""
    weights = {"text/event-stream": 0.0, "application/json": 0.0}
    for part in accept.lower().split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        if kind in weights:
            weight = next((parameter[2:] for parameter in parameters if parameter.startswith("q=")), "1")
            weights[kind] = float(weight) if _WEIGHT.fullmatch(weight) else 0.0
    return weights["text/event-stream"] > weights["application/json"]
