"""``/v1/sessions/{id}/messages`` and ``…/events``: turns of agents, and their events (spec 5, P10)."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import WithJsonSchema
from pydantic_core import from_json, to_json
from starlette.types import Receive, Scope, Send

from capset.errors import CapsetError
from capset.stores.base import EventRow, SessionRow
from capset.wire.pages import PAGE_BYTES
from capset.wire.sessions import SessionShape, session_shape
from capset.wire.turns import (
    ConversationPageShape,
    EventShape,
    ForkInput,
    GapShape,
    RewindInput,
    RewoundShape,
    TurnInput,
    TurnShape,
    conversation_page_shape,
    event_shape,
)
from capset_server.auth.callers import Caller
from capset_server.followers import FollowerCredential, Gap, follow
from capset_server.http.idempotency import Idempotency
from capset_server.http.request_context import request_context
from capset_server.http.request_rules import HttpRefusal, RequestLimits
from capset_server.rest.calls import EventStream, IdempotencyKey, prefers_events
from capset_server.rest.routing import Asked, Calls, Id, Served, StrictRoute, problems
from capset_server.service import Service

router = APIRouter(prefix="/sessions", tags=["turns"], route_class=StrictRoute)
_NUMBER: Final = re.compile("[0-9]{1,15}")
EVENTS: Final[dict[str, Any]] = {"text/event-stream": {"schema": {"type": "string"}}}
_RETRY: Final = b"retry: 2000\n\n"
"""The delay before a browser reconnects by itself, in milliseconds."""
_REPLAYED: Final = (b"idempotent-replayed", b"true")

FindTurn = Callable[[], Awaitable[tuple[SessionRow, Any]]]
"""Returns the session of a new turn, and its content: any JSON."""

LastEventId = Annotated[
    str | None,
    WithJsonSchema({"type": "string", "pattern": f"^{_NUMBER.pattern}$"}),
    Header(
        alias="Last-Event-ID", description="The number of the last known event: browsers send it when they reconnect"
    ),
]


class Followed(Asked):
    """The first event to send, and whether to wait for future ones.

    ``newest`` begins with that number of the newest events, and overrides ``after``.
    """

    newest: Annotated[int | None, Query(ge=0, le=10_000, description="Number of newest events to begin with")] = None
    after: Annotated[
        int, Query(ge=0, lt=10**15, description="The number of the last known event, unless `Last-Event-ID` has it")
    ] = 0
    follow: Annotated[bool, Query(description="`false` ends the response after the existing events")] = True


@router.post(
    "/{id}/messages",
    status_code=202,
    operation_id="send_message",
    response_model=TurnShape,
    responses={
        200: {
            "description": "The events of this turn, up to its end, each named by its type",
            "content": EVENTS,
        },
        **problems(400, 404, 409, 413, 415, 422, 501),
        202: {"description": "The turn has begun. It continues without this client; its events are at `events`"},
    },
)
async def send_message(
    service: Served,
    caller: Calls,
    id: Id,
    body: TurnInput,
    request: Request,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Send a message to the session's agent, and begin its turn. A session has one turn at a time."""
    row = await service.session_row(caller, id)
    service.turns.check_runner()
    if not prefers_events(request.headers.get("accept", "")):
        begun, replayed = await begin_turn(service, caller, row, body.content, request, idempotency_key)
        answer = Response(to_json(begun), 202, media_type="application/json")
        answer.raw_headers.extend(replayed)
        return answer
    leave = service.turns.followers.join(caller.principal)  # first, so that a client that may not follow begins no turn
    try:
        begun, replayed = await begin_turn(service, caller, row, body.content, request, idempotency_key)
    except BaseException:
        leave()
        raise
    rows = follow(
        service.kernel,
        service.turns.bell,
        id,
        begun.after,
        turn=begun.turn,
        credential=credential_of(service, caller, request),
    )
    return Events(service, rows, replayed, leave=leave)


async def begin_turn(
    service: Service,
    caller: Caller,
    row: SessionRow,
    content: Any,  # any JSON
    request: Request,
    idempotency_key: str | None,
) -> tuple[TurnShape, list[tuple[bytes, bytes]]]:
    """Begin a turn, or find the one that was begun under this key. Return its description, and headers to add."""

    async def find() -> tuple[SessionRow, Any]:
        return row, content

    return await begin_found_turn(service, caller, row.id, find, request, idempotency_key)


async def begin_found_turn(
    service: Service,
    caller: Caller,
    place: str,
    find: FindTurn,
    request: Request,
    idempotency_key: str | None,
) -> tuple[TurnShape, list[tuple[bytes, bytes]]]:
    """Begin a turn like ``begin_turn``, in the session and with the content that ``find`` returns.

    ``find`` is called only for a new turn: after the turn has begun, it could find another session for the same
    request. Keys are unique within ``place``.
    """
    idempotency = (
        Idempotency(service, caller, place, idempotency_key, await request.body())
        if idempotency_key is not None
        else None
    )
    stored_reply = await idempotency.begin() if idempotency is not None else None
    if stored_reply is not None:
        return TurnShape.model_validate(from_json(stored_reply[1])), [_REPLAYED]
    request_info = request_context(request.scope)
    try:
        row, content = await find()
        begun = await service.turns.begin(caller, row, content, request_info.correlation)
    except CapsetError:
        if idempotency is not None:
            await idempotency.release()
        raise
    request_info.notes["turn"] = begun.turn
    after = begun.last - 1
    path = f"{request.scope['root_path']}/v1/sessions/{row.id}/events?after={after}"
    turn = TurnShape(turn=begun.turn, session=row.id, after=after, events=path)
    if idempotency is not None:
        await idempotency.store_reply(202, to_json(turn))
    return turn, []


@router.get(
    "/{id}/events",
    operation_id="list_events",
    response_class=Response,  # without a media type in FastAPI's document
    responses={
        200: {
            "description": "Server-sent events. Each has its number as `id`, its type as `event`, and as `data` "
            "`{seq, turn, type, at, data}`. An event `gap` `{after, last}` says which are no longer stored.",
            "content": EVENTS,
        },
        **problems(400, 404, 422),
    },
)
async def list_events(
    service: Served,
    caller: Calls,
    id: Id,
    query: Annotated[Followed, Query()],
    request: Request,
    last_event_id: LastEventId = None,
) -> Response:
    """Stream the events of a session's turns: past ones first, then new ones until the client disconnects."""
    await service.session_row(caller, id)
    after = query.after
    if query.newest is not None:
        latest = await service.kernel.store.events.latest([id])
        after = max(0, latest.get(id, 0) - query.newest)
    if last_event_id is not None:
        after = event_number(last_event_id)
    leave = service.turns.followers.join(caller.principal) if query.follow else None
    credential = credential_of(service, caller, request)
    rows = follow(service.kernel, service.turns.bell, id, after, waits=query.follow, credential=credential)
    return Events(service, rows, leave=leave)


def event_number(last_event_id: str) -> int:
    """Return the number in a header ``Last-Event-ID``. Raises ``HttpRefusal`` if it is none."""
    if not _NUMBER.fullmatch(last_event_id):
        raise HttpRefusal(400, "invalid_header", "Last-Event-ID must be the id of an event, a number")
    return int(last_event_id)


def credential_of(service: Service, caller: Caller, request: Request) -> FollowerCredential:
    """Return the credential of a request that follows events."""
    return FollowerCredential(service.callers, caller, request_context(request.scope).header(b"authorization"))


class MessagesFilter(Asked):
    """The first message to return, and how many. A page may end earlier, after about a megabyte."""

    after: Annotated[int, Query(ge=0, lt=10**15, description="The number of the last known message")] = 0
    limit: Annotated[int, Query(ge=1, le=200)] = 50


@router.get("/{id}/messages", operation_id="list_messages", responses=problems(404, 422))
async def list_messages(
    service: Served, caller: Calls, id: Id, query: Annotated[MessagesFilter, Query()]
) -> ConversationPageShape:
    """List the messages of the session's conversation, oldest first, as its runner stored them."""
    await service.session_row(caller, id)
    events = service.kernel.store.events
    page = await events.messages(id, after=query.after, limit=query.limit, max_bytes=PAGE_BYTES)
    return conversation_page_shape(page)


@router.post(
    "/{id}/fork", status_code=201, operation_id="fork_session", responses=problems(400, 404, 409, 413, 415, 422)
)
async def fork_session(service: Served, caller: Calls, id: Id, body: ForkInput) -> SessionShape:
    """Start a session like this one, with its conversation up to the end of a turn; files and state are not copied."""
    return session_shape(await service.fork_session(caller, id, body.turn))


@router.post("/{id}/rewind", operation_id="rewind_session", responses=problems(400, 404, 409, 413, 415, 422))
async def rewind_session(service: Served, caller: Calls, id: Id, body: RewindInput) -> RewoundShape:
    """Rewind the conversation to before a turn. The effects of its turns and their events stay."""
    return RewoundShape(removed=await service.rewind_session(caller, id, body.turn))


@router.post(
    "/{id}/turns/{turn}/cancel", status_code=204, operation_id="cancel_turn", responses=problems(404, 409, 422)
)
async def cancel_turn(service: Served, caller: Calls, id: Id, turn: Id) -> None:
    """Cancel the session's current turn, wherever it runs or waits. Its effects stay."""
    row = await service.session_row(caller, id)
    await service.turns.turns.cancel(row, turn, by=caller.principal.qualified_id)


@router.post(
    "/{id}/turns/{turn}/resume", status_code=204, operation_id="resume_turn", responses=problems(404, 409, 422, 501)
)
async def resume_turn(service: Served, caller: Calls, id: Id, turn: Id) -> None:
    """Continue a turn on behalf of this caller: one that waits for its caller, whose process has ended, or that failed.

    Only the newest turn can be continued after a failure, if its error is retryable; no call is made again. A turn that
    waits for approvals continues by itself once they are decided.
    """
    row = await service.session_row(caller, id)
    service.turns.check_runner()
    await service.turns.resume(caller, row, turn)


class Events(Response):
    """The live events of a session, or of one of its turns, for as long as the caller's key is valid."""

    def __init__(
        self,
        service: Service,
        rows: AsyncGenerator[EventRow | Gap],
        more: list[tuple[bytes, bytes]] | None = None,
        *,
        shape: Callable[[EventRow], EventShape] = event_shape,
        leave: Callable[[], None] | None = None,
    ) -> None:
        """``shape`` converts each of the ``rows``. ``leave`` is called when the response ends."""
        super().__init__()
        self._leave = leave
        self._limits: RequestLimits = service.limits
        self._more = more or []
        self._rows = rows
        self._shape = shape

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events at the client's pace. Raises ``ClientLeft`` if it disconnects."""
        try:
            async with aclosing(_parts(self._rows, self._shape)) as parts:
                await EventStream(send, self._limits).send_parts(parts, receive, *self._more)
        finally:
            if self._leave is not None:
                self._leave()


async def _parts(
    rows: AsyncGenerator[EventRow | Gap], shape: Callable[[EventRow], EventShape]
) -> AsyncGenerator[bytes]:
    async with aclosing(rows):
        yield _RETRY
        async for row in rows:
            if isinstance(row, Gap):
                gap = to_json(GapShape(after=row.after, last=row.last))
                yield b"id: %d\nevent: gap\ndata: %b\n\n" % (row.last, gap)
            else:
                yield b"id: %d\nevent: %b\ndata: %b\n\n" % (row.seq, row.type.encode(), to_json(shape(row)))
