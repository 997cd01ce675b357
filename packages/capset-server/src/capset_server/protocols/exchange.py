"""One exchange with an agent, in any protocol: a client's message begins a turn, or its answers let a turn continue.

The server keeps the conversation. Of all that a client sends, only its newest message and its answers to approval
requests are used. The usual rules apply to these: the caller needs the scope, and cannot approve its own request.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request
from pydantic_core import from_json
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from capset.definitions.governance.approvals import Answer
from capset.errors import Conflict, NotFound, TurnSuspended
from capset.kernel.governance.approval_needs import needed_connection
from capset.stores.base import SUSPENDED, EventRow, SessionRow
from capset.wire.turns import ENDINGS
from capset_server.approvals.decisions import check_chat_answer, checked_note
from capset_server.auth.callers import Caller
from capset_server.followers import FollowerCredential, Gap, follow
from capset_server.http.bodies import DisconnectWatch
from capset_server.http.request_context import RequestContext, request_context
from capset_server.http.responses import answer
from capset_server.rest.calls import EventStream
from capset_server.rest.turns import FindTurn, begin_found_turn, begin_turn
from capset_server.service import Service

SESSION_HEADER: Final = b"x-capset-session"
"""The response header with the id of the session."""
STOPS: Final = (*ENDINGS, "turn.suspended")
"""The types of the events that end an exchange."""
BEGINNINGS: Final = ("turn.started", "turn.retried")
"""The types of the events that begin a turn."""
_WINDOW: Final = 200
"""How many events are read at a time to find the newest of a type."""


@dataclass(frozen=True, slots=True)
class AgentExchange:
    """A turn, or its part after a decision: the events whose numbers are greater than ``after``."""

    service: Service
    caller: Caller
    row: SessionRow
    turn: str
    after: int
    request_info: RequestContext
    past: int = 0
    """Events of ``stops`` up to this number do not end the exchange: the turn has continued since."""

    async def rows(self, *, waits: bool = True, stops: Sequence[str] = STOPS) -> AsyncGenerator[EventRow]:
        """Yield the events up to the first of ``stops``. Without ``waits``, yield only those that are stored already.

        Raises ``NotFound`` if some of them are no longer stored.
        """
        kernel, bell = self.service.kernel, self.service.turns.bell
        credential = FollowerCredential(self.service.callers, self.caller, self.request_info.header(b"authorization"))
        events = follow(kernel, bell, self.row.id, self.after, turn=self.turn, waits=waits, credential=credential)
        async with aclosing(events) as rows:
            async for row in rows:
                if isinstance(row, Gap):
                    raise NotFound(f"the events {row.after + 1} to {row.last} of this session are no longer stored")
                yield row
                if row.type in stops and row.seq > self.past:
                    return


async def begin_exchange(
    service: Service, caller: Caller, row: SessionRow, request: Request, content: Any
) -> AgentExchange:  # content is any JSON
    """Begin a turn with a message, once per ``Idempotency-Key``. Raises as ``TurnService.begin`` does."""
    service.turns.check_runner()
    key = request.headers.get("idempotency-key")
    begun, _ = await begin_turn(service, caller, row, content, request, key)
    return AgentExchange(service, caller, row, begun.turn, begun.after, request_context(request.scope))


async def begin_found_exchange(
    service: Service,
    caller: Caller,
    place: str,
    find: FindTurn,
    request: Request,
) -> AgentExchange:
    """Begin a turn like ``begin_exchange``, in the session and with the content that ``find`` returns."""
    service.turns.check_runner()
    key = request.headers.get("idempotency-key")
    begun, _ = await begin_found_turn(service, caller, place, find, request, key)
    row = await service.session_row(caller, begun.session)
    return AgentExchange(service, caller, row, begun.turn, begun.after, request_context(request.scope))


async def decide(
    service: Service,
    caller: Caller,
    row: SessionRow,
    request: Request,
    answers: Mapping[str, Answer],
    *,
    turn: str | None = None,
) -> AgentExchange:
    """Decide the approval requests that the session's turn waits for, and return the part of the turn that follows.

    ``answers`` must have an answer for each pending request, by its id or by the model's id of the waiting call.
    Decided requests stay as they are. Raises ``PermissionDenied`` if the caller may not decide, ``NotFound`` for a
    request that the turn does not wait for, ``TurnSuspended`` if other requests are pending or more approvals are
    needed, and ``Conflict`` if no turn waits, or a turn other than ``turn``.
    """
    service.turns.check_runner()
    for decision in answers.values():
        checked_note(decision.note)
    event = await newest_event(service, row, "turn.suspended")
    if event is None:
        raise Conflict("no turn of this session waits for an approval: send a message instead")
    if turn not in (None, event.turn):  # before anything is decided
        raise Conflict("the turn of that response is over: send a message instead")
    data: dict[str, Any] = from_json(event.data)
    answers = {data["calls"].get(approval_id, approval_id): answer for approval_id, answer in answers.items()}
    if unknown := [approval_id for approval_id in answers if approval_id not in data["approvals"]]:
        raise NotFound(f"this session does not wait for the approval {unknown[0]!r}")
    waiting = await service.turns.turns.suspended_turn(row)
    requests = () if waiting is None else waiting[1]
    undecided = [request for request in requests if needed_connection(request) is None]
    pending = [approval.id for approval in undecided]
    if remaining := [approval_id for approval_id in pending if approval_id not in answers]:
        raise TurnSuspended(
            f"the turn {event.turn!r} waits for an approval: {', '.join(remaining)}; have it decided, then ask again",
            approvals=remaining,
        )
    if pending:
        caller.check("capset:approve")
    for approval in undecided:
        check_chat_answer(approval, answers[approval.id])
    decided = [
        await service.kernel.approvals.decide(approval_id, answers[approval_id], by=caller.principal)
        for approval_id in pending
    ]
    service.turns.turns.wake()
    if remaining := [outcome.id for outcome in decided if outcome.status == "pending"]:
        raise TurnSuspended(
            f"the turn {event.turn!r} waits for further approvals: {', '.join(remaining)}; your approval counts, "
            "ask again once "
            "the other approvers have decided",
            approvals=remaining,
        )
    return AgentExchange(service, caller, row, event.turn, event.seq, request_context(request.scope))


async def follow_turn(service: Service, caller: Caller, row: SessionRow, request: Request) -> AgentExchange | None:
    """Return the session's running turn, from its beginning, or ``None`` if there is none or it waits."""
    page = await service.kernel.store.events.read(row.id, after=0, limit=1)
    if page.running is None or page.running.holder == SUSPENDED:
        return None
    turn, after = page.running.turn, page.last
    beginning = await newest_event(service, row, *BEGINNINGS)
    if beginning is not None and beginning.turn == turn:  # otherwise its beginning is no longer stored
        after = beginning.seq - 1
    return AgentExchange(service, caller, row, turn, after, request_context(request.scope), page.last)


async def newest_event(service: Service, row: SessionRow, *types: str) -> EventRow | None:
    """Return the newest event of these types in a session."""
    events = service.kernel.store.events
    last = (await events.read(row.id, after=0, limit=1)).last
    while last > 0:
        page = await events.read(row.id, after=max(last - _WINDOW, 0), limit=_WINDOW)
        for event in reversed(page.items):
            if event.type in types:
                return event
        last -= _WINDOW
    return None


Answering = Callable[[], Awaitable[tuple[int, bytes]]]
"""Returns the status and the JSON of a response once an exchange has ended."""


class ExchangeResponse(Response):
    """A response that is produced while it is sent: a stream of ``parts``, or one JSON document, ``whole``.

    It counts towards the caller's limit of open streams. If the client disconnects, the response ends, not the turn.
    """

    def __init__(
        self,
        exchange: AgentExchange,
        leave: Callable[[], None],
        *,
        parts: AsyncGenerator[bytes] | None = None,
        whole: Answering | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """``leave`` is called when the response ends."""
        super().__init__()
        self._exchange = exchange
        self._leave = leave
        self._parts = parts
        self._whole = whole
        session = (SESSION_HEADER, exchange.row.id.encode())
        self._more = [session, *((name.encode(), value.encode()) for name, value in (headers or {}).items())]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response. Raises ``ClientLeft`` if the client disconnects."""
        try:
            if self._parts is not None:
                async with aclosing(self._parts) as parts:
                    await EventStream(send, self._exchange.service.limits).send_parts(parts, receive, *self._more)
            elif self._whole is not None:
                with DisconnectWatch(receive):
                    status, body = await self._whole()
                await answer(send, status, b"application/json", body, *self._more)
        finally:
            self._leave()
