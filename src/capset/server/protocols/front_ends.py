"""Front ends at an agent: ``/v1/agents/{id}/ag-ui`` speaks AG-UI, ``…/ai-sdk`` the AI SDK's UI messages (spec 6, R19).

A thread of the client is one session of the caller with the agent. Clients send all that they show; only the newest
message, and answers to requests for approvals, are used. The encoders are pydantic-ai's (extra ``agent``).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from fastapi import APIRouter, Body, Request
from pydantic import ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from capset.definitions.approvals import Answer
from capset.errors import InvalidArguments
from capset.schemas.validation_errors import validation_fields
from capset.server.auth.callers import Caller
from capset.server.http.request_context import HttpRefusal
from capset.server.http.responses import misfit
from capset.server.protocols.exchange import AgentExchange, ExchangeResponse, begin_exchange, decide
from capset.server.protocols.turn_items import Item, TurnItems
from capset.server.rest.routing import Calls, Id, Served, StrictRoute
from capset.server.service import Service
from capset.wire.shapes import Shape

if TYPE_CHECKING:
    from pydantic_ai.ui import UIEventStream

router = APIRouter(prefix="/agents", tags=["front ends"], route_class=StrictRoute)
Given = Annotated[dict[str, Any], Body()]
_S = TypeVar("_S", bound=Shape)
_VERSION: Final = 6
"""The version of the AI SDK whose messages are sent; 7 has the same."""


class _Sent(Shape):
    """Something that a client sends: what is not used of it is ignored."""

    model_config = ConfigDict(extra="ignore", alias_generator=to_camel)


class SentPart(_Sent):
    """A part of a message; ``approval`` is that of a call."""

    type: str = ""
    text: str = ""
    state: str = ""
    approval: ApprovalReply | None = None


class ApprovalReply(_Sent):
    """An answer to a request for an approval, as the AI SDK notes it at a call; ``approved`` is absent before."""

    id: str
    approved: bool | None = None
    reason: str | None = None


class SentMessage(_Sent):
    """A message, of either protocol."""

    role: str
    parts: list[SentPart] = Field(default_factory=list[SentPart])
    content: str | list[SentPart] = ""


class Payload(_Sent):
    """An answer to an interrupt of AG-UI."""

    approved: bool
    edited_args: dict[str, Any] | None = None
    reason: str | None = None


class Resumed(_Sent):
    """An interrupt of AG-UI that a client has dealt with."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Payload | None = None

    @property
    def answer(self) -> Answer:
        """The answer; what was cancelled is rejected."""
        given = self.payload
        if self.status == "cancelled" or given is None:
            return Answer(approved=False, note="cancelled")
        return Answer(
            approved=given.approved, arguments=given.edited_args if given.approved else None, note=given.reason
        )


class AguiInput(_Sent):
    """The part of AG-UI's ``RunAgentInput`` that is used."""

    thread_id: Annotated[str, Field(min_length=1, max_length=200)]
    messages: list[SentMessage] = Field(default_factory=list[SentMessage])
    resume: list[Resumed] | None = None


class AiSdkInput(_Sent):
    """The part of the AI SDK's request that is used."""

    id: Annotated[str, Field(min_length=1, max_length=200)]
    trigger: Literal["submit-message"] = "submit-message"
    messages: Annotated[list[SentMessage], Field(min_length=1)]


@router.post("/{id}/ag-ui")
async def run_agui(service: Served, caller: Calls, id: Id, body: Given, request: Request) -> ExchangeResponse:
    """Run an agent for a client of AG-UI."""
    _check_encoders(service)
    from ag_ui.core import RunAgentInput

    from capset.server.protocols.native_events import AguiEventStream

    given = _read(AguiInput, body)
    try:
        run = RunAgentInput.model_validate(body)
    except ValidationError as error:
        raise misfit("request", validation_fields(error, list(RunAgentInput.model_fields), body)) from None
    answers = {one.interrupt_id.removeprefix("int-"): one.answer for one in given.resume or ()}
    newest = given.messages[-1] if given.messages else None
    stream = AguiEventStream(run)
    return await _exchange(service, caller, id, given.thread_id, newest, answers, request, stream)


@router.post("/{id}/ai-sdk")
async def run_ai_sdk(service: Served, caller: Calls, id: Id, body: Given, request: Request) -> ExchangeResponse:
    """Run an agent for a client of the AI SDK."""
    _check_encoders(service)
    from capset.server.protocols.native_events import AiSdkEventStream

    given = _read(AiSdkInput, body)
    newest = given.messages[-1]
    replies = [one.approval for one in newest.parts if one.state == "approval-responded" and one.approval is not None]
    answers = {one.id: Answer(approved=one.approved, note=one.reason) for one in replies if one.approved is not None}
    stream = AiSdkEventStream(sdk_version=_VERSION)
    return await _exchange(service, caller, id, given.id, newest, answers, request, stream)


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
        if answers:
            exchange = await decide(service, caller, row, request, answers)
        elif newest is not None and newest.role == "user":
            exchange = await begin_exchange(service, caller, row, request, _text(newest))
        else:  # what a decision of somebody else has led to
            exchange = await decide(service, caller, row, request, {})
    except BaseException:
        leave()
        raise
    return ExchangeResponse(exchange, leave, parts=_encoded(exchange, stream), headers=stream.response_headers)


async def _encoded(exchange: AgentExchange, stream: UIEventStream[Any, Any, Any, Any]) -> AsyncGenerator[bytes]:
    from capset.server.protocols.native_events import native_events

    async with aclosing(native_events(_items(exchange))) as events:
        encoded: AsyncIterator[str] = stream.encode_stream(stream.transform_stream(events))
        async for part in encoded:
            yield part.encode()


async def _items(exchange: AgentExchange) -> AsyncGenerator[Item]:
    read = TurnItems()
    async with aclosing(exchange.rows()) as rows:
        async for row in rows:
            for item in read.read(row):
                yield item


def _check_encoders(service: Service) -> None:
    """Raise ``HttpRefusal`` (501) where no agent can be run, or the encoders are not installed."""
    service.turns.check_runner()
    if find_spec("pydantic_ai") is None or find_spec("ag_ui") is None:
        raise HttpRefusal(
            501,
            "no_runner",
            "This server has no encoders of front ends' protocols: the extra 'agent' brings them",
        )


def _read(shape: type[_S], body: Mapping[str, Any]) -> _S:
    try:
        return shape.model_validate(body)
    except ValidationError as error:
        raise misfit("request", validation_fields(error, list(shape.model_fields), body)) from None


def _text(message: SentMessage) -> str:
    """Return the text of a message. Raises ``InvalidArguments`` for parts of other kinds."""
    parts = message.parts or (message.content if isinstance(message.content, list) else [])
    if others := sorted({part.type for part in parts} - {"text"}):
        raise InvalidArguments(
            f"messages have text here; {', '.join(others)} is not taken: upload files to the session, and name them"
        )
    text = message.content if isinstance(message.content, str) and message.content else ""
    return text or "\n".join(part.text for part in parts)
