"""``/v1/sessions/{id}/calls``: one governed call, as JSON or as a stream of server-sent events (spec 5, P9).

The route is declared to FastAPI like every other, for the OpenAPI document, but requests are answered before any router
sees them: agents use this path constantly, and routing costs more than a call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header
from pydantic import ValidationError
from pydantic_core import to_json
from starlette.types import ASGIApp, Receive, Scope, Send

from capset.definitions.messages import Json, Message
from capset.errors import NotFound
from capset.kernel.call.session import Session
from capset.kernel.results import Result
from capset.schemas.validation_errors import validation_fields
from capset.server.http.disconnects import DisconnectWatch
from capset.server.http.idempotency import Idempotency, is_refused
from capset.server.http.limits import RequestLimits
from capset.server.http.request_context import RequestContext, caller_of, path_of, request_context
from capset.server.http.responses import answer, answer_refusal, misfit, retry_headers
from capset.server.rest.event_stream import EventStream
from capset.server.rest.routing import Calls, Id, Served, check_json_type, parse_json, problems, refuse_query
from capset.server.service import Service
from capset.wire.calls import CallInput, CallShape, approval_of, call_data

IdempotencyKey = Annotated[
    str | None,
    Header(
        description="A request that is sent again under its key is answered again, and done once",
        pattern="^[!-~]{1,255}$",
    ),
]


_BEFORE: Final = "/v1/sessions/"
_AFTER: Final = "/calls"
_WEIGHT: Final = re.compile(r"[01](\.[0-9]{0,3})?")
_REPLAYED: Final = (b"idempotent-replayed", b"true")
router = APIRouter(prefix="/sessions", tags=["calls"])


@router.post(
    "/{id}/calls",
    operation_id="call_tool",
    responses={
        202: {
            "description": "The call has to be approved first: `approval` is the id of the request, `Location` where "
            "it is. Once it is approved, the same call is let through. As events, a call waits.",
            "model": CallShape,
            "headers": {"Location": {"description": "The request", "schema": {"type": "string"}}},
        },
        **problems(400, 404, 409, 413, 415, 422, 429),
        200: {
            "description": "The call was let through; `success` says whether the tool did its work. "
            "As events: every message while it runs, then this object as `result`.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
    },
)
async def call_tool(
    service: Served, caller: Calls, id: Id, given: CallInput, idempotency_key: IdempotencyKey = None
) -> CallShape:
    """Call a tool in a session, governed and on record.

    A call that is refused in its session (403, 404, 409, 422, 429, 503) has its record, and answers with problem
    details that have the members of this object too.
    """
    raise NotFound("There is no such path")  # calls are answered before any router sees them


class CallsFirst:
    """Middleware that answers calls, and passes everything else on to ``app``."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        path = path_of(scope)
        if scope["method"] == "POST" and path.startswith(_BEFORE) and path.endswith(_AFTER):
            session = path[len(_BEFORE) : -len(_AFTER)]
            if session and "/" not in session:
                return await answer_call(self._service, session, scope, receive, send)
        return await self._app(scope, receive, send)


async def answer_call(service: Service, session_id: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request for a call."""
    request_info, caller = request_context(scope), caller_of(scope)
    caller.check("capset:call")
    refuse_query(scope)
    check_json_type(request_info.header(b"content-type"))
    body: bytes = (await receive())["body"]
    given = parse_call(body)
    session = await service.session(caller, session_id)
    once = (
        Idempotency(service, caller, session_id, key, body)
        if (key := request_info.header(b"idempotency-key"))
        else None
    )
    kept = await once.begin() if once is not None else None
    message = session.message(given.tool, Json(to_json(given.arguments)), correlation=request_info.correlation)
    if prefers_events(request_info.header(b"accept")):
        authorization = request_info.header(b"authorization") or None
        respond, session = (
            _as_events,
            session.options(
                approvals="wait",
                approval=given.approval,
                credential=lambda: service.callers.knows(authorization, afresh=True),
            ),
        )
    else:
        respond, session = _as_json, session.options(approvals="defer", approval=given.approval)
    await respond(
        CallRequest(session, message, request_info, service.limits, once, scope["root_path"]), kept, receive, send
    )


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A requested call: its request, and its idempotency."""

    session: Session
    message: Message
    request_info: RequestContext
    limits: RequestLimits
    once: Idempotency | None
    root: str
    """The root path of the application."""


async def _as_json(asked: CallRequest, kept: tuple[int, bytes] | None, receive: Receive, send: Send) -> None:
    if kept is not None:
        return await answer(send, kept[0], b"application/json", kept[1], _REPLAYED)
    asked.request_info.notes["tool"] = asked.message.type
    with DisconnectWatch(receive):
        result = await asked.session.try_message(asked.message)
    asked.request_info.notes["record"] = result.record
    data = call_data(result, result.data, asked.session.id)
    body = to_json(data)
    if asked.once is not None:
        await asked.once.end(result, body)
    status, error = status_of(result), result.error
    if status >= 400 and error is not None:
        return await answer_refusal(send, error, asked.request_info.correlation, data)
    headers = retry_headers(error)
    if (approval := approval_of(error)) is not None:
        headers.append((b"location", f"{asked.root}/v1/approvals/{approval}".encode()))
    return await answer(send, status, b"application/json", body, *headers)


async def _as_events(asked: CallRequest, kept: tuple[int, bytes] | None, receive: Receive, send: Send) -> None:
    stream = EventStream(send, asked.limits)
    if kept is not None:
        await stream.start(_REPLAYED)
        return await stream.end(kept[1])
    messages = asked.session.invoke(asked.message)
    asked.request_info.notes.update(tool=asked.message.type, record=messages.record)
    reply = await stream.follow(messages, receive)
    result = messages.result
    body = to_json(call_data(result, reply, asked.session.id))
    if asked.once is not None:
        await asked.once.end(result, body)
    return await stream.end(body)


def parse_call(body: bytes) -> CallInput:
    """Return the call in a body. Raises ``HttpRefusal`` for invalid JSON, ``InvalidArguments`` for invalid content."""
    data = parse_json(body)
    try:
        return CallInput.model_validate(data)
    except ValidationError as error:
        raise misfit("call", validation_fields(error, list(CallInput.model_fields), data)) from None


def status_of(result: Result[Any]) -> int:
    """Return 200 for a call that was let through, even if its tool failed; else the status of the refusal.

    A call that can be made again once it is approved answers 202.
    """
    error = result.error
    if approval_of(error) is not None:
        return 202
    return error.status if error is not None and is_refused(error) else 200


def prefers_events(accept: str) -> bool:
    """Return whether a client prefers events to JSON; it may name both, with weights (RFC 9110 §12.5.1)."""
    weights = {"text/event-stream": 0.0, "application/json": 0.0}
    for part in accept.lower().split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        if kind in weights:
            weight = next((one[2:] for one in parameters if one.startswith("q=")), "1")
            weights[kind] = float(weight) if _WEIGHT.fullmatch(weight) else 0.0
    return weights["text/event-stream"] > weights["application/json"]
