"""Requests to OpenAI's two APIs, as far as they mean something here: the rest is refused, never ignored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeVar, cast

from pydantic import Field as At
from pydantic import ValidationError

from capset.definitions.approvals import Answer
from capset.errors import InvalidArguments
from capset.schemas.validation_errors import validation_fields
from capset.server.http.responses import misfit
from capset.wire.shapes import Shape

_S = TypeVar("_S", bound=Shape)
_NEUTRAL: Final[Mapping[str, tuple[Any, ...]]] = {
    "n": (1,),
    "parallel_tool_calls": (True,),
    "response_format": ({"type": "text"},),
    "service_tier": ("auto", "default"),
    "store": (True,),
    "text": ({"format": {"type": "text"}},),
    "tool_choice": ("auto",),
    "truncation": ("disabled",),
}
"""Values that ask for nothing but what is done anyway; of every parameter, so do null and what is empty."""
_AGENTS: Final = (
    "is not taken here: the agent has its own instructions, tools and settings, and its conversation is kept on the "
    "server"
)


class TextContent(Shape):
    """A part of a message that is text."""

    type: Literal["text", "input_text"]
    text: str


class UserMessage(Shape):
    """A message of the user; ``name`` is not used by any agent."""

    type: Literal["message"] = "message"
    role: Literal["user"]
    content: str | Annotated[list[TextContent], At(min_length=1)]

    @property
    def text(self) -> str:
        """The whole text."""
        return self.content if isinstance(self.content, str) else "\n".join(part.text for part in self.content)


class AssistantMessage(Shape):
    """An answer in a history."""

    role: Literal["assistant"]
    content: str | Annotated[list[TextContent], At(min_length=1)]

    @property
    def text(self) -> str:
        """The whole text."""
        return self.content if isinstance(self.content, str) else "\n".join(part.text for part in self.content)


class ApprovalResponse(Shape):
    """An answer to a request for an approval."""

    type: Literal["mcp_approval_response"]
    approval_request_id: str
    approve: bool
    reason: str | None = None


class ResponsesInput(Shape):
    """The body of ``POST /v1/responses``. Without ``input``, what became of a turn that waited is asked for."""

    model: str
    input: str | list[UserMessage | ApprovalResponse] = At(default_factory=list[UserMessage | ApprovalResponse])
    previous_response_id: str | None = None
    stream: bool = False
    background: bool = False


class StreamOptions(Shape):
    """Options of a streamed completion."""

    include_usage: bool = False


class ChatMetadata(Shape):
    """``session`` is the session that a completion goes on with; its answer has named it."""

    session: str | None = None


class ChatInput(Shape):
    """The body of ``POST /v1/chat/completions``. All messages but the last are a history."""

    model: str
    messages: Annotated[list[UserMessage | AssistantMessage], At(min_length=1)]
    metadata: ChatMetadata = ChatMetadata()
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """Something new for an agent, or that a turn goes on, with answers."""

    message: str | None
    answers: Mapping[str, Answer]


def read_input(shape: type[_S], body: Mapping[str, Any]) -> _S:  # members of any JSON
    """Return a body in its shape. Raises ``InvalidArguments`` for a parameter that would have no effect."""
    given = {
        name: value
        for name, value in body.items()
        if name in shape.model_fields or not _is_neutral(value, _NEUTRAL.get(name, ()))
    }
    for name in given:
        if name not in shape.model_fields:
            raise InvalidArguments(f"{name} {_AGENTS}: leave it out")
    if shape is ChatInput and isinstance(messages := given.get("messages"), list):
        given["messages"] = _spoken(cast("list[Any]", messages))
    present = {name: value for name, value in given.items() if value is not None}
    try:
        return shape.model_validate(present, strict=True)
    except ValidationError as error:
        raise misfit("request", validation_fields(error, list(shape.model_fields), present)) from None


def asked_of(given: ResponsesInput) -> AgentRequest:
    """Return what a body asks for. Raises ``InvalidArguments`` for a message beside answers to approvals."""
    if isinstance(given.input, str):
        return AgentRequest(given.input, {})
    texts = [one.text for one in given.input if isinstance(one, UserMessage)]
    answers = {
        one.approval_request_id: Answer(approved=one.approve, note=one.reason)
        for one in given.input
        if isinstance(one, ApprovalResponse)
    }
    if texts and answers:
        raise InvalidArguments(
            "input has a message and answers to approvals: answer first, and send the message when the turn has ended"
        )
    return AgentRequest("\n".join(texts) if texts else None, answers)


def _is_neutral(value: object, known: tuple[Any, ...]) -> bool:
    return value is None or value in ([], {}) or value in known


def _spoken(messages: list[Any]) -> list[Any]:  # any JSON
    """Return messages without the members that say nothing.

    Raises ``InvalidArguments`` unless the user and answers follow each other, the user last.
    """
    for number, message in enumerate(messages):
        role: object = cast("dict[str, object]", message).get("role") if isinstance(message, dict) else None
        expected = "user" if number % 2 == 0 else "assistant"
        if isinstance(role, str) and role != expected:
            raise InvalidArguments(
                f"messages[{number}] has the role {role!r:.40}, and {expected!r} was expected: messages of the user "
                "and the answers to them follow each other; system texts and tools are the agent's own"
            )
    if len(messages) % 2 == 0 and messages:
        raise InvalidArguments("messages ends with an answer: send a message of the user last")
    return [
        {name: value for name, value in cast("dict[str, Any]", one).items() if value not in (None, [], {})}
        if isinstance(one, dict)
        else one
        for one in messages
    ]
