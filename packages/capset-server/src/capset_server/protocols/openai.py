"""OpenAI's APIs for agents: ``/v1/models``, ``/v1/responses`` and ``/v1/chat/completions`` (spec 6, R18).

``model`` is the id of an agent. The paths are not in the OpenAPI document: they use OpenAI's shapes, also for errors
(``openai_errors``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import count
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Request, Response
from fastapi.responses import JSONResponse
from pydantic_core import to_json

from capset.errors import InvalidArguments, NotFound
from capset.stores.base import AgentQuery, SessionRow
from capset.wire.pages import PAGE_BYTES
from capset.wire.turns import ENDINGS
from capset_server.approvals.decisions import connection_page_of
from capset_server.auth.callers import Caller
from capset_server.http.request_context import caller_of, request_context
from capset_server.http.request_rules import HttpRefusal
from capset_server.protocols.exchange import (
    STOPS,
    AgentExchange,
    ExchangeResponse,
    begin_exchange,
    begin_found_exchange,
    decide,
)
from capset_server.protocols.openai_chat import CompletionBuilder
from capset_server.protocols.openai_histories import find_conversation, newest_context
from capset_server.protocols.openai_requests import ChatInput, ResponsesInput, asked_of, content_of, read_input
from capset_server.protocols.openai_responses import ResponseBuilder
from capset_server.protocols.turn_items import Item, TurnItems
from capset_server.rest.routing import Calls, Id, Served, StrictRoute
from capset_server.service import Service

_PAGE: Final = 200
_RESPONSE: Final = re.compile(r"resp_(?P<session>[^_]{1,60})_(?P<first>[0-9]{1,15})_(?P<after>[0-9]{1,15})")
_COMPLETION: Final = re.compile(r"chatcmpl-(?P<session>[^_]{1,60})_(?P<first>[0-9]{1,15})")
_JSON: Final = "application/json"
_PARAMETER: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""A parameter name that is safe in a header."""
_MOST_NAMED: Final = 50
"""The maximum number of ignored parameters that the header names."""

router = APIRouter(tags=["openai"], route_class=StrictRoute, include_in_schema=False)
Given = Annotated[dict[str, Any], Body()]


@router.get("/models")
async def list_models(service: Served, caller: Calls) -> JSONResponse:
    """List the agents that accept sessions, as models."""
    models = [_model(agent.name, 0) for agent in service.agents.defined]
    query = AgentQuery(caller.principal.org, "active", limit=_PAGE, max_bytes=PAGE_BYTES)
    while True:
        page = await service.kernel.store.agents.list(query)
        models += [_model(row.id, _seconds(row.created_at)) for row in page.items]
        if page.next is None:
            return JSONResponse({"object": "list", "data": models})
        query = replace(query, before=page.next)


@router.get("/models/{id}")
async def get_model(service: Served, caller: Calls, id: Id) -> JSONResponse:
    """Return one agent as a model."""
    loaded = await service.agents.active(caller.principal.org, id)
    return JSONResponse(_model(loaded.id, _seconds(loaded.row.created_at) if loaded.row else 0))


@router.post("/responses")
async def create_response(service: Served, caller: Calls, body: Given, request: Request) -> ExchangeResponse:
    """Send a message to an agent, or decide what its turn waits for, and return the response."""
    response_input, ignored = read_input(ResponsesInput, body, takes_system_texts=service.takes_system_texts)
    agent_request = asked_of(response_input)
    if agent_request.message is None and agent_request.context is not None:
        ignored = [*ignored, "instructions"]  # they only apply to a message
    previous = None
    if response_input.previous_response_id is not None:
        previous = await _place(service, caller, _RESPONSE, response_input.previous_response_id)
        _check_agent(previous.row, response_input.model)
    leave = service.turns.followers.join(caller.principal)
    try:
        if agent_request.message is not None:
            if previous is None:
                row = await _new_session(service, caller, response_input.model, request)
                content = content_of(agent_request.message, agent_request.context)
                exchange = await begin_exchange(service, caller, row, request, content)
            else:
                find = partial(_going_on, service, caller, previous, agent_request.message, agent_request.context)
                exchange = await begin_found_exchange(service, caller, previous.row.id, find, request)
            place = _Place(exchange.row, exchange.turn, exchange.after + 1, exchange.after, service.kernel.now())
        elif previous is not None:
            exchange = await decide(service, caller, previous.row, request, agent_request.answers, turn=previous.turn)
            place = replace(previous, after=exchange.after)
        else:
            raise InvalidArguments("input has no message: send one, or set previous_response_id to continue a response")
        answer = _Answer(exchange, place)
        builder = answer.response_builder(response_input.previous_response_id, background=response_input.background)
        headers = _naming(ignored)
        if response_input.stream:
            return ExchangeResponse(exchange, leave, parts=answer.response_events(builder), headers=headers)
        complete_answer = partial(answer.whole_response, builder, waits=not response_input.background)
        return ExchangeResponse(exchange, leave, whole=complete_answer, headers=headers)
    except BaseException:
        leave()
        raise


@router.get("/responses/{id}")
async def get_response(service: Served, caller: Calls, id: Id, request: Request) -> Response:
    """Return a response in its current state."""
    place = await _place(service, caller, _RESPONSE, id)
    answer = _Answer(_exchange(service, place, request), place)
    status, body = await answer.whole_response(answer.response_builder(None), waits=False)
    return Response(body, status, media_type=_JSON)


@router.post("/responses/{id}/cancel")
async def cancel_response(service: Served, caller: Calls, id: Id, request: Request) -> Response:
    """Cancel the turn of a response, and return the response."""
    place = await _place(service, caller, _RESPONSE, id)
    await service.turns.turns.cancel(place.row, place.turn, by=caller.principal.qualified_id)
    return await get_response(service, caller, id, request)


@router.post("/chat/completions")
async def create_completion(service: Served, caller: Calls, body: Given, request: Request) -> ExchangeResponse:
    """Send a message to an agent, and return the text of its answer."""
    chat_input, ignored = read_input(ChatInput, body, takes_system_texts=service.takes_system_texts)
    session_id, headers = chat_input.metadata.session, _naming(ignored)
    leave = service.turns.followers.join(caller.principal)
    try:
        if len(chat_input.spoken) > 1:
            find = partial(_conversation, service, caller, chat_input)
            keys = hashlib.sha256(f"completions\0{caller.identity}".encode(errors="replace")).hexdigest()
            exchange = await begin_found_exchange(service, caller, keys, find, request)
        else:
            if session_id is None:
                row = await _new_session(service, caller, chat_input.model, request)
            else:
                row = await service.session_row(caller, session_id)
                _check_agent(row, chat_input.model)
            content = await _content(service, row, chat_input.spoken[-1], chat_input.context)
            exchange = await begin_exchange(service, caller, row, request, content)
        place = _Place(exchange.row, exchange.turn, exchange.after + 1, exchange.after, service.kernel.now())
        answer = _Answer(exchange, place)
        if chat_input.stream:
            parts = answer.chunks(with_usage=chat_input.stream_options.include_usage)
            return ExchangeResponse(exchange, leave, parts=parts, headers=headers)
        return ExchangeResponse(exchange, leave, whole=answer.whole_completion, headers=headers)
    except BaseException:
        leave()
        raise


@router.get("/chat/completions/{id}")
async def get_completion(service: Served, caller: Calls, id: Id, request: Request) -> Response:
    """Return a completion in its current state, including what followed approvals."""
    place = await _place(service, caller, _COMPLETION, id)
    status, body = await _Answer(_exchange(service, place, request), place).whole_completion(waits=False)
    return Response(body, status, media_type=_JSON)


@dataclass(frozen=True, slots=True)
class _Place:
    """The location of an answer: its session and turn, the turn's first event, and the event after which it begins."""

    row: SessionRow
    turn: str
    first: int
    after: int
    began_at: str


class _Answer:
    """The answer of an exchange, in OpenAI's shapes."""

    def __init__(self, exchange: AgentExchange, place: _Place) -> None:
        self._exchange = exchange
        self._place = place
        self._agent = place.row.agent_id or place.row.agent
        self._items = TurnItems(connect_url=connection_page_of(exchange.service))
        self._metadata = {"session": place.row.id, "turn": place.turn}

    def response_builder(self, previous: str | None, *, background: bool = False) -> ResponseBuilder:
        """Return the builder of a response."""
        at = self._place
        response_id = f"resp_{at.row.id}_{at.first}_{at.after}"
        return ResponseBuilder(response_id, self._agent, _seconds(at.began_at), previous, background, self._metadata)

    def _completion_builder(self) -> CompletionBuilder:
        completion_id = f"chatcmpl-{self._place.row.id}_{self._place.first}"
        return CompletionBuilder(completion_id, self._agent, _seconds(self._place.began_at), self._metadata)

    async def response_events(self, builder: ResponseBuilder) -> AsyncGenerator[bytes]:
        """Yield the events of a response."""
        numbers = count()
        for name, data in builder.begin():
            yield _sse({"type": name, "sequence_number": next(numbers), **data}, name)
        async for item in self._told():
            for name, data in builder.add(item):
                yield _sse({"type": name, "sequence_number": next(numbers), **data}, name)

    async def whole_response(self, builder: ResponseBuilder, *, waits: bool) -> tuple[int, bytes]:
        """Return the status and the JSON of a response; with ``waits``, once it has ended."""
        async for item in self._told(waits=waits):
            for _ in builder.add(item):
                pass
        return 200, to_json(builder.response)

    async def chunks(self, *, with_usage: bool) -> AsyncGenerator[bytes]:
        """Yield the chunks of a completion, and an error if its turn fails."""
        builder = self._completion_builder()
        yield _sse(builder.begin())
        async for item in self._told():
            for chunk in builder.add(item):
                yield _sse(chunk)
            if builder.is_broken:
                message = f"The model's answer broke off and is requested again: get the completion {builder.id} later"
                yield _sse(_chunk_error(message, "text_discarded"))
                return
        if (failed := builder.failed) is not None:
            yield _sse(_chunk_error(failed.message, failed.code))
        if with_usage:
            yield _sse(builder.usage())
        yield b"data: [DONE]\n\n"

    async def whole_completion(self, *, waits: bool = True) -> tuple[int, bytes]:
        """Return the status and the JSON of a completion. Raises the error of a turn that has failed."""
        builder = self._completion_builder()
        async for item in self._told(waits=waits, stops=STOPS if waits else ENDINGS):
            for _ in builder.add(item):
                pass
        if (failed := builder.failed) is not None:
            raise HttpRefusal(failed.http_status, failed.code, failed.message)
        if waits and builder.stop is None:
            ended = f"The answer was cut off, but its turn continues: GET /v1/chat/completions/{builder.id} later"
            raise HttpRefusal(503, "cut_off", ended)
        return 200, to_json(builder.completion)

    async def _told(self, *, waits: bool = True, stops: Sequence[str] = STOPS) -> AsyncGenerator[Item]:
        """Yield the items of the exchange, after reading the earlier events of its turn."""
        at, events = self._place.first - 1, self._exchange.service.kernel.store.events
        while at < self._place.after:
            page = await events.read(self._place.row.id, after=at, limit=min(_PAGE, self._place.after - at))
            for row in page.items:
                for _ in self._items.read(row):
                    pass
            at = page.items[-1].seq if page.items else self._place.after
        self._items.texts = 0
        async with aclosing(self._exchange.rows(waits=waits, stops=stops)) as rows:
            async for row in rows:
                for item in self._items.read(row):
                    yield item


def _exchange(service: Service, place: _Place, request: Request) -> AgentExchange:
    return AgentExchange(
        service, caller_of(request.scope), place.row, place.turn, place.after, request_context(request.scope)
    )


async def _going_on(
    service: Service, caller: Caller, previous: _Place, message: str, context: str | None
) -> tuple[SessionRow, Any]:  # and any JSON
    """Return the session and the content of a turn that follows a response.

    The session is that of the response. If it has later turns, it is forked after the turn of the response.
    """
    row, events = previous.row, service.kernel.store.events
    last = (await events.read(row.id, after=0, limit=1)).last
    newest = (await events.read(row.id, after=last - 1, limit=1)).items
    if newest and newest[-1].turn != previous.turn:
        row = await service.fork_session(caller, row.id, previous.turn)
    return row, await _content(service, row, message, context)


async def _conversation(
    service: Service, caller: Caller, chat_input: ChatInput
) -> tuple[SessionRow, Any]:  # and any JSON
    """Return the session that has a completion's history as its conversation, and the content of the newest message."""
    *history, newest = chat_input.spoken
    row = await find_conversation(service, caller, chat_input.model, history, chat_input.metadata.session)
    _check_agent(row, chat_input.model)
    return row, await _content(service, row, newest, chat_input.context)


async def _content(service: Service, row: SessionRow, message: str, context: str | None) -> Any:  # any JSON
    """Return the content of a turn. The client's context is omitted if it is already in the conversation."""
    is_known = context is not None and await newest_context(service, row) == context
    return content_of(message, None if is_known else context)


def _naming(ignored: Sequence[str]) -> Mapping[str, str]:
    """Return the header that names the ignored parameters of a request; ``...`` replaces unsafe names."""
    names = dict.fromkeys(name if _PARAMETER.fullmatch(name) else "..." for name in ignored[:_MOST_NAMED])
    return {"x-capset-ignored": ", ".join(names)} if names else {}


async def _new_session(service: Service, caller: Caller, model: str, request: Request) -> SessionRow:
    """Return a new session, or the same one again if the request's ``Idempotency-Key`` is repeated."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return await service.new_session(caller, model)
    return await service.thread_session(caller, model, f"key {key}")


async def _place(service: Service, caller: Caller, pattern: re.Pattern[str], id: str) -> _Place:
    """Return the location of an answer of this caller. Raises ``NotFound``, also for another caller's."""
    if (match := pattern.fullmatch(id)) is None:
        raise NotFound(f"there is no answer {id!r}")
    row, first = await service.session_row(caller, match["session"]), int(match["first"])
    page = await service.kernel.store.events.read(row.id, after=first - 1, limit=1)
    started = page.items[0] if page.items else None
    if started is None or started.seq != first or started.type != "turn.started":
        raise NotFound(f"there is no answer {id!r}, or its events are no longer stored")
    after = int(match.groupdict().get("after") or first - 1)
    return _Place(row, started.turn, first, after, started.created_at)


def _check_agent(row: SessionRow, model: str) -> None:
    if model not in (row.agent_id, row.agent):
        raise InvalidArguments(f"model is {model!r}, but this conversation is with {row.agent_id or row.agent!r}")


def _model(id: str, created: int) -> dict[str, Any]:
    return {"id": id, "object": "model", "created": created, "owned_by": "capset"}


def _seconds(at: str) -> int:
    return int(datetime.fromisoformat(at).timestamp())


def _chunk_error(message: str, code: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "error", "param": None, "code": code}}


def _sse(data: dict[str, Any], name: str | None = None) -> bytes:
    event = b"" if name is None else b"event: %b\n" % name.encode()
    return event + b"data: %b\n\n" % to_json(data)
