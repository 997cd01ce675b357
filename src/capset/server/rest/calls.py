"""``/v1/sessions/{id}/calls``: one governed call, as JSON or as a stream of server-sent events (spec 5, P9).

The route is declared to FastAPI like every other, for the OpenAPI document, and answers by itself: this is the path
that agents take all day.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from pydantic import ConfigDict, Field, ValidationError
from pydantic_core import to_json
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from capset.definitions.messages import Json, Message
from capset.definitions.misfits import misfits
from capset.errors import InvalidArguments, StoreError
from capset.kernel.results import Result
from capset.kernel.session import Session
from capset.server.answers import answer_json
from capset.server.rest.events import stream_events
from capset.server.rest.parts import Calls, Id, Served, check_json_type, parse_json, problems
from capset.server.rest.watch import Watch
from capset.server.visit import Visit, caller_of, visit_of
from capset.wire.calls import CallShape, call_shape
from capset.wire.shapes import Shape


class CallInput(Shape):
    """Which tool is called, as ``tool`` or ``capability.tool``, with which arguments."""

    model_config = ConfigDict(strict=True)

    tool: Annotated[str, Field(min_length=1, max_length=200)]
    arguments: dict[str, Any] = Field(default_factory=dict[str, Any])  # of the tool's own schema


class CallRoute(APIRoute):
    """A route that answers by itself."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        """Return a handler that hands over to ``answer_call``."""

        async def handle(request: Request) -> Response:
            return _Call()

        return handle


class _Call(Response):
    """The answer to a call: nothing is known of it before it is asked for."""

    def __init__(self) -> None:
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await answer_call(scope, receive, send)


router = APIRouter(prefix="/sessions", tags=["calls"], route_class=CallRoute)


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
    raise NotImplementedError("answer_call answers")


async def answer_call(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request for a call."""
    visit, caller = visit_of(scope), caller_of(scope)
    caller.check("capset:call")
    check_json_type(visit.header(b"content-type"))
    given = parse_call((await receive())["body"])
    service = scope["app"].state.service
    session: Session = await service.session(caller, scope["path_params"]["id"])
    message = session.message(given.tool, Json(to_json(given.arguments)), correlation=visit.correlation)
    if "text/event-stream" in visit.header(b"accept"):
        await stream_events(session.invoke(message), session.id, visit, receive, send, service.limits)
    else:
        await _answer_whole(session, message, visit, receive, send)


async def _answer_whole(session: Session, message: Message, visit: Visit, receive: Receive, send: Send) -> None:
    reply: Any = None
    with Watch(receive):
        async with session.invoke(message) as messages:
            async for one in messages:
                if one.kind == "reply":
                    reply = one.data
    shape = call_shape(messages.result, reply, session.id)
    visit.notes = {"tool": message.type, "record": shape.record}
    await answer_json(send, status_of(messages.result), shape.plain())


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
