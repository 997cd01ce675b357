"""Front ends for agents: ``/v1/agents/{id}/ag-ui`` speaks AG-UI, ``…/ai-sdk`` the AI SDK's UI messages (spec 6, R19).

A client's thread is one session of the caller with the agent. Clients send everything that they show; only the newest
message and answers to approval requests are used. The encoders are pydantic-ai's (extra ``agent``).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from fastapi import APIRouter, Body, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from capset.definitions.governance.approvals import Answer
from capset.errors import InvalidArguments
from capset.schemas.validation_errors import validation_fields
from capset.stores.base import SessionRow
from capset.wire.shapes import Shape
from capset_server.approvals.decisions import connection_page_of
from capset_server.auth.callers import Caller
from capset_server.http.request_context import request_context
from capset_server.http.request_rules import HttpRefusal
from capset_server.http.responses import misfit
from capset_server.protocols.attachments import Attachment, decode_base64, store_attachments
from capset_server.protocols.exchange import (
    STOPS,
    AgentExchange,
    ExchangeResponse,
    begin_found_exchange,
    decide,
    follow_turn,
)
from capset_server.protocols.turn_items import Item, TurnItems
from capset_server.rest.routing import Calls, Id, Served, StrictRoute
from capset_server.service import Service

if TYPE_CHECKING:
    from pydantic_ai.ui import UIEventStream

    from capset_server.protocols.native_events import AguiEventStream

router = APIRouter(prefix="/agents", tags=["front ends"], route_class=StrictRoute)
Given = Annotated[dict[str, Any], Body()]
_S = TypeVar("_S", bound=Shape)
_VERSION: Final = 6
"""The AI SDK version whose message format is sent; version 7 has the same."""
_MEDIA: Final = ("image", "audio", "video", "document")


class _Sent(Shape):
    """Input from a client. Unknown members are ignored."""

    model_config = ConfigDict(extra="ignore", alias_generator=to_camel)


class SentSource(_Sent):
    """The content of a part in AG-UI: base64, or a URL."""

    type: str
    value: str
    mime_type: str | None = None


class SentPart(_Sent):
    """A part of a message. ``approval`` belongs to a tool call.

    A file has a ``url`` in the AI SDK, and a ``source`` in AG-UI (``data`` before version 1).
    """

    type: str = ""
    text: str = ""
    state: str = ""
    approval: ApprovalReply | None = None
    url: str | None = None
    media_type: str | None = None
    filename: str | None = None
    source: SentSource | None = None
    mime_type: str | None = None
    data: Any = None


class ApprovalReply(_Sent):
    """The answer to an approval request, as the AI SDK adds it to a call. ``approved`` is absent until it is given."""

    id: str
    approved: bool | None = None
    reason: str | None = None


class SentMessage(_Sent):
    """A message in either protocol."""

    role: str
    parts: list[SentPart] = Field(default_factory=list[SentPart])
    content: str | list[SentPart] | None = None


class Payload(_Sent):
    """The answer to an AG-UI interrupt."""

    approved: bool
    edited_args: dict[str, Any] | None = None
    reason: str | None = None


class Resumed(_Sent):
    """An AG-UI interrupt that the client has resolved or cancelled."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Payload | None = None

    @property
    def answer(self) -> Answer:
        """The answer. A cancelled interrupt is a rejection."""
        payload = self.payload
        if self.status == "cancelled" or payload is None:
            return Answer(approved=False, note="cancelled")
        return Answer(
            approved=payload.approved, arguments=payload.edited_args if payload.approved else None, note=payload.reason
        )


class AguiInput(_Sent):
    """The part of AG-UI's ``RunAgentInput`` that is used. Only the newest message is read."""

    thread_id: Annotated[str, Field(min_length=1, max_length=200)]
    run_id: str
    protocol_version: str | None = None
    messages: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    resume: list[Resumed] | None = None


class AiSdkInput(_Sent):
    """The part of the AI SDK's request that is used. Only the newest message is read."""

    id: Annotated[str, Field(min_length=1, max_length=200)]
    trigger: Literal["submit-message"] = "submit-message"
    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]


@router.post("/{id}/ag-ui")
async def run_agui(service: Served, caller: Calls, id: Id, body: Given, request: Request) -> ExchangeResponse:
    """Run an agent for an AG-UI client. Without a message, send the thread so far, and follow its turn."""
    _check_encoders(service)
    from ag_ui.core import RunAgentInput

    from capset_server.protocols.native_events import AguiEventStream

    agui_input = _read(AguiInput, body)
    run = RunAgentInput(
        thread_id=agui_input.thread_id,
        run_id=agui_input.run_id,
        protocol_version=agui_input.protocol_version,
        messages=[],
    )
    stream = AguiEventStream(run)
    answers = {entry.interrupt_id.removeprefix("int-"): entry.answer for entry in agui_input.resume or ()}
    # Activity messages only report progress, and are not part of the conversation.
    newest = next((message for message in reversed(agui_input.messages) if message.get("role") != "activity"), None)
    if newest is None and not answers:
        return await _tell_thread(service, caller, id, agui_input.thread_id, request, stream)
    message = None if newest is None else _read(SentMessage, newest)
    return await _exchange(service, caller, id, agui_input.thread_id, message, answers, request, stream)


@router.post("/{id}/ai-sdk")
async def run_ai_sdk(service: Served, caller: Calls, id: Id, body: Given, request: Request) -> ExchangeResponse:
    """Run an agent for an AI SDK client."""
    _check_encoders(service)
    from capset_server.protocols.native_events import AiSdkEventStream

    sdk_input = _read(AiSdkInput, body)
    newest = _read(SentMessage, sdk_input.messages[-1])
    replies = [
        part.approval for part in newest.parts if part.state == "approval-responded" and part.approval is not None
    ]
    answers = {
        reply.id: Answer(approved=reply.approved, note=reply.reason) for reply in replies if reply.approved is not None
    }
    stream = AiSdkEventStream(sdk_version=_VERSION)
    return await _exchange(service, caller, id, sdk_input.id, newest, answers, request, stream)


@router.get("/{id}/ai-sdk/{thread}")
async def get_ai_sdk_thread(service: Served, caller: Calls, id: Id, thread: Id, request: Request) -> JSONResponse:
    """Return the messages of a chat, for an AI SDK page that opens it."""
    _check_encoders(service)
    from capset_server.protocols.threads import ai_sdk_messages, read_thread

    row = await service.find_thread(caller, id, thread)
    messages: list[dict[str, Any]] = []
    if row is not None:
        state = await read_thread(service, caller, row, request)
        messages = await asyncio.to_thread(ai_sdk_messages, state.messages)
    return JSONResponse({"id": thread, "messages": messages})


@router.get("/{id}/ai-sdk/{thread}/stream")
async def follow_ai_sdk_thread(service: Served, caller: Calls, id: Id, thread: Id, request: Request) -> Response:
    """Stream the running answer of a chat, from its beginning; 204 if there is none."""
    _check_encoders(service)
    from capset_server.protocols.native_events import AiSdkEventStream

    row = await service.find_thread(caller, id, thread)
    running = None if row is None else await follow_turn(service, caller, row, request)
    if running is None:
        return Response(status_code=204)
    leave = service.turns.followers.join(caller.principal)
    stream = AiSdkEventStream(sdk_version=_VERSION)
    return ExchangeResponse(running, leave, parts=_encoded(_items(running), stream), headers=stream.response_headers)


async def _exchange(
    service: Service,
    caller: Caller,
    agent: str,
    thread: str,
    newest: SentMessage | None,
    answers: Mapping[str, Answer],
    request: Request,
    stream: UIEventStream[Any, Any, Any, Any],
) -> ExchangeResponse:
    leave = service.turns.followers.join(caller.principal)
    try:
        row = await service.thread_session(caller, agent, thread)
        if newest is None or newest.role != "user" or answers:  # without answers: what followed another's decision
            exchange = await decide(service, caller, row, request, answers)
        else:
            find = partial(_turn_of, service, caller, row, _pieces(newest))
            exchange = await begin_found_exchange(service, caller, row.id, find, request)
    except BaseException:
        leave()
        raise
    return ExchangeResponse(exchange, leave, parts=_encoded(_items(exchange), stream), headers=stream.response_headers)


async def _turn_of(
    service: Service, caller: Caller, row: SessionRow, pieces: Sequence[str | Attachment]
) -> tuple[SessionRow, Any]:  # and any JSON
    return row, await store_attachments(service, caller, row, pieces)


async def _tell_thread(
    service: Service, caller: Caller, agent: str, thread: str, request: Request, stream: AguiEventStream
) -> ExchangeResponse:
    """Send an AG-UI client the thread's messages, then the running turn's events, or what the newest turn waits for."""
    from capset_server.protocols.threads import agui_messages, read_thread

    leave = service.turns.followers.join(caller.principal)
    try:
        row = await service.thread_session(caller, agent, thread)
        state = await read_thread(service, caller, row, request)
        stream.snapshot = await asyncio.to_thread(agui_messages, state.messages, row.id)
    except BaseException:
        leave()
        raise
    exchange = state.running or AgentExchange(service, caller, row, "", 0, request_context(request.scope))
    items = _each(state.ending) if state.running is None else _items(state.running)
    return ExchangeResponse(exchange, leave, parts=_encoded(items, stream), headers=stream.response_headers)


async def _encoded(items: AsyncGenerator[Item], stream: UIEventStream[Any, Any, Any, Any]) -> AsyncGenerator[bytes]:
    from capset_server.protocols.native_events import native_events

    async with aclosing(native_events(items)) as events:
        encoded: AsyncIterator[str] = stream.encode_stream(stream.transform_stream(events))
        async for part in encoded:
            yield part.encode()


async def _items(exchange: AgentExchange) -> AsyncGenerator[Item]:
    read = TurnItems(connect_url=connection_page_of(exchange.service))
    async with aclosing(exchange.rows()) as rows:
        async for row in rows:
            items = list(read.read(row))
            if row.type in STOPS and row.seq <= exchange.past:
                continue  # the turn has continued since
            for item in items:
                yield item


async def _each(items: Sequence[Item]) -> AsyncGenerator[Item]:
    for item in items:
        yield item


def _check_encoders(service: Service) -> None:
    """Raise ``HttpRefusal`` (501) if the server runs no agents, or the encoders are not installed."""
    service.turns.check_runner()
    if find_spec("pydantic_ai") is None or find_spec("ag_ui") is None:
        raise HttpRefusal(
            501,
            "no_runner",
            "This server has no encoders for the protocols of front ends: install the extra 'agent'",
        )


def _read(shape: type[_S], body: Mapping[str, Any]) -> _S:
    try:
        return shape.model_validate(body)
    except ValidationError as error:
        raise misfit("request", validation_fields(error, list(shape.model_fields), body)) from None


def _pieces(message: SentMessage) -> Sequence[str | Attachment]:
    """Return the texts and files of a message. ``data-`` parts, which are only for the page, are skipped.

    Raises ``InvalidArguments`` for any other part.
    """
    content = message.content or []
    parts = [*message.parts, *([] if isinstance(content, str) else content)]
    pieces: list[str | Attachment] = [content] if isinstance(content, str) else []
    for part in parts:
        if part.type in ("file", "binary", *_MEDIA):
            pieces.append(_attachment(part))
        elif part.type == "text":
            if not isinstance(content, str):  # otherwise it is the whole text
                pieces.append(part.text)
        elif not part.type.startswith("data-"):
            raise InvalidArguments(
                f"a message may only have texts and files; {part.type or 'a part without a type'} is neither"
            )
    return pieces


def _attachment(part: SentPart) -> Attachment:
    """Return the file of a part. Raises ``InvalidArguments`` if the part does not contain it."""
    name, source = part.filename or "", part.source
    if source is None and isinstance(part.data, str):
        return Attachment.of(name, part.mime_type or "", decode_base64(part.data))
    if source is None:
        return Attachment.of_url(part.url or "", name, part.media_type or part.mime_type or "")
    if source.type == "data":
        return Attachment.of(name, source.mime_type or "", decode_base64(source.value))
    return Attachment.of_url(source.value, name, source.mime_type or "")
