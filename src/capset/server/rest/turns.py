"""``/v1/sessions/{id}/messages`` and ``…/events``: turns of agents, and their events (spec 5, P10)."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import WithJsonSchema
from pydantic_core import from_json, to_json
from starlette.types import Receive, Scope, Send

from capset.errors import CapsetError
from capset.server.http.idempotency import Idempotency
from capset.server.http.request_context import HttpRefusal, RequestContext, RequestLimits, request_context
from capset.server.rest.calls import EventStream, IdempotencyKey, prefers_events
from capset.server.rest.routing import Asked, Calls, Id, Served, StrictRoute, problems
from capset.server.service import Service
from capset.server.turns import Gap, follow
from capset.stores.base import EventRow
from capset.wire.turns import GapShape, TurnInput, TurnShape, event_shape

router = APIRouter(prefix="/sessions", tags=["turns"], route_class=StrictRoute)
_NUMBER: Final = re.compile("[0-9]{1,15}")
_EVENTS: Final[dict[str, Any]] = {"text/event-stream": {"schema": {"type": "string"}}}
_RETRY: Final = b"retry: 2000\n\n"
"""The delay before a browser reconnects by itself, in milliseconds."""
_REPLAYED: Final = (b"idempotent-replayed", b"true")

LastEventId = Annotated[
    str | None,
    WithJsonSchema({"type": "string", "pattern": f"^{_NUMBER.pattern}$"}),
    Header(alias="Last-Event-ID", description="As `after`, and before it: what browsers send when they come again"),
]


class Followed(Asked):
    """From where on, and whether those that are still to come are waited for."""

    after: Annotated[int, Query(ge=0, lt=10**15, description="The number of the last event that is known")] = 0
    follow: Annotated[bool, Query(description="`false` ends the answer after the events that there are")] = True


@router.post(
    "/{id}/messages",
    status_code=202,
    operation_id="send_message",
    response_model=TurnShape,
    responses={
        200: {"description": "As events: those of this turn, up to its end", "content": _EVENTS},
        **problems(400, 404, 409, 413, 415, 422, 429, 501),
        202: {"description": "The turn has begun. It goes on without this client; `events` tells how"},
    },
)
async def send_message(
    service: Served,
    caller: Calls,
    id: Id,
    given: TurnInput,
    request: Request,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Tell the session's agent something, and begin its turn. A session is in one turn at a time."""
    row = await service.session_row(caller, id)
    service.turns.check_runner()
    once = (
        Idempotency(service, caller, id, idempotency_key, await request.body()) if idempotency_key is not None else None
    )
    kept = await once.begin() if once is not None else None
    if kept is not None:
        body = kept[1]
    else:
        request_info = request_context(request.scope)
        try:
            begun = await service.begin_turn(caller, row, given.content, request_info.correlation)
        except CapsetError:
            if once is not None:
                await once.release()
            raise
        request_info.notes["turn"] = begun.turn
        after = begun.last - 1
        path = f"{request.scope['root_path']}/v1/sessions/{id}/events?after={after}"
        body = to_json(TurnShape(turn=begun.turn, session=id, after=after, events=path))
        if once is not None:
            await once.store_reply(202, body)
    headers: list[tuple[bytes, bytes]] = [_REPLAYED] if kept is not None else []
    if prefers_events(request.headers.get("accept", "")):
        turn = TurnShape.model_validate(from_json(body))
        return Events(service, request_context(request.scope), id, turn.after, headers, turn=turn.turn)
    answer = Response(body, 202, media_type="application/json")
    answer.raw_headers.extend(headers)
    return answer


@router.get(
    "/{id}/events",
    operation_id="list_events",
    response_class=Response,  # without a media type in FastAPI's document
    responses={
        200: {
            "description": "Server-sent events. Each has its number as `id`, its type as `event`, and as `data` "
            "`{seq, turn, type, at, data}`. An event `gap` `{after, last}` says which are not kept any more.",
            "content": _EVENTS,
        },
        **problems(400, 404, 422),
    },
)
async def list_events(
    service: Served,
    caller: Calls,
    id: Id,
    wanted: Annotated[Followed, Query()],
    request: Request,
    last_event_id: LastEventId = None,
) -> Response:
    """Tell what happens in a session's turns: what was told already, and then what comes, until the client leaves."""
    await service.session_row(caller, id)
    after = wanted.after
    if last_event_id is not None:
        if not _NUMBER.fullmatch(last_event_id):
            raise HttpRefusal(400, "invalid_header", "Last-Event-ID is the id of an event, a number")
        after = int(last_event_id)
    return Events(service, request_context(request.scope), id, after, waits=wanted.follow)


class Events(Response):
    """The live events of a session, or of one of its turns, for as long as the caller's key is valid."""

    def __init__(
        self,
        service: Service,
        request_info: RequestContext,
        session: str,
        after: int,
        more: list[tuple[bytes, bytes]] | None = None,
        *,
        turn: str | None = None,
        waits: bool = True,
    ) -> None:
        super().__init__()
        self._limits: RequestLimits = service.limits
        self._more = more or []
        bell, authorization = service.turns.bell, request_info.header(b"authorization")

        async def may() -> bool:
            return await service.callers.knows(authorization)

        self._rows = follow(service.kernel, bell, session, after, turn=turn, waits=waits, may=may)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, at the client's pace. Raises ``ClientLeft`` when it disconnects."""
        async with aclosing(_parts(self._rows)) as parts:
            await EventStream(send, self._limits).send_parts(parts, receive, *self._more)


async def _parts(rows: AsyncGenerator[EventRow | Gap]) -> AsyncGenerator[bytes]:
    async with aclosing(rows):
        yield _RETRY
        async for row in rows:
            if isinstance(row, Gap):
                gap = to_json(GapShape(after=row.after, last=row.last))
                yield b"id: %d\nevent: gap\ndata: %b\n\n" % (row.last, gap)
            else:
                yield b"id: %d\nevent: %b\ndata: %b\n\n" % (row.seq, row.type.encode(), to_json(event_shape(row)))
