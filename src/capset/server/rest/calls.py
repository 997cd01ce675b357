"""``/v1/sessions/{id}/calls``: one governed call, as JSON or as a stream of server-sent events (spec 5, P9).

The route is declared to FastAPI like every other, for the OpenAPI document. It is answered before any router sees it:
this is the path that agents take all day, and finding a route costs more than a call.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter
from pydantic import ConfigDict, Field, ValidationError
from pydantic_core import to_json
from starlette.types import ASGIApp, Receive, Scope, Send

from capset.definitions.messages import Json, Message
from capset.definitions.misfits import misfits
from capset.errors import InvalidArguments, StoreError
from capset.kernel.results import Result
from capset.kernel.session import Session
from capset.server.answers import answer_json
from capset.server.rest.events import stream_events
from capset.server.rest.parts import Calls, Id, Served, check_json_type, parse_json, problems
from capset.server.rest.watch import Watch
from capset.server.service import Service
from capset.server.visit import Visit, caller_of, visit_of
from capset.wire.calls import CallShape, call_data
from capset.wire.shapes import Shape


class CallInput(Shape):
    """Which tool is called, as ``tool`` or ``capability.tool``, with which arguments."""

    model_config = ConfigDict(strict=True)

    tool: Annotated[str, Field(min_length=1, max_length=200)]
    arguments: dict[str, Any] = Field(default_factory=dict[str, Any])  # of the tool's own schema


_BEFORE: Final = "/v1/sessions/"
_AFTER: Final = "/calls"
router = APIRouter(prefix="/sessions", tags=["calls"])


@router.post(
    "/{id}/calls",
    operation_id="call_tool",
    responses={
        **problems(400, 404, 413, 415, 422),
        200: {
            "description": "The call was let through; `success` says whether the tool did its work. "
            "As events: every message while it runs, then this object as `result`.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
    },
)
async def call_tool(service: Served, caller: Calls, id: Id, given: CallInput) -> CallShape:
    """Call a tool in a session, governed and on record.

    A call that is refused (403, 404, 422, 503) answers with this object too, and has its record.
    """
    raise RuntimeError("calls are answered before they come to a router")


class CallsFirst:
    """Answers calls, and hands everything else on to ``app``."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path: str = scope["path"]
        if scope["method"] == "POST" and path.startswith(_BEFORE) and path.endswith(_AFTER):
            session = path[len(_BEFORE) : -len(_AFTER)]
            if session and "/" not in session:
                return await answer_call(self._service, session, scope, receive, send)
        return await self._app(scope, receive, send)


async def answer_call(service: Service, session_id: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request for a call."""
    visit, caller = visit_of(scope), caller_of(scope)
    caller.check("capset:call")
    check_json_type(visit.header(b"content-type"))
    given = parse_call((await receive())["body"])
    session = await service.session(caller, session_id)
    message = session.message(given.tool, Json(to_json(given.arguments)), correlation=visit.correlation)
    if "text/event-stream" in visit.header(b"accept"):
        await stream_events(session.invoke(message), session.id, visit, receive, send, service.limits)
    else:
        await _answer_whole(session, message, visit, receive, send)


async def _answer_whole(session: Session, message: Message, visit: Visit, receive: Receive, send: Send) -> None:
    with Watch(receive):
        result = await session.try_message(message)
    visit.notes = {"tool": message.type, "record": result.record}
    await answer_json(send, status_of(result), call_data(result, result.data, session.id))


def parse_call(body: bytes) -> CallInput:
    """Return what a body asks for. Raises ``Refused`` for no JSON, ``InvalidArguments`` for what does not fit."""
    data = parse_json(body)
    try:
        return CallInput.model_validate(data)
    except ValidationError as error:
        raise InvalidArguments("Invalid call", fields=misfits(error, list(CallInput.model_fields), data)) from None


def status_of(result: Result[Any]) -> int:
    """Return 200 for a call that was let through, whatever its tool made of it; else the status of the refusal (G4)."""
    error = result.error
    return error.status if error is not None and (error.refusal or isinstance(error, StoreError)) else 200
