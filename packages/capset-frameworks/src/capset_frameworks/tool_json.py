"""A session for custom agent loops, with the tool-call JSON of OpenAI's and Anthropic's SDKs. It needs neither SDK."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final, cast
from uuid import uuid4

from capset.definitions.calls.messages import Message
from capset.errors import InvalidArguments
from capset.kernel.blocks.runs import run_concurrently
from capset.kernel.call.media import Medium
from capset.kernel.call.session import Session
from capset_connect.interop.exports import ToolFormat, checked_format, tool_json
from capset_frameworks.session_tools import CallAnswer, SessionTools

JsonObject = dict[str, Any]
"""A JSON object, which the SDKs accept in place of their own types."""


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A call that a model requests: its id, the tool's name, and the arguments as the model wrote them."""

    id: str
    name: str
    arguments: str | Mapping[str, Any]  # JSON


OnCallEvent = Callable[[RequestedCall, Message], None]
"""Receives the events of a call while it runs, such as its progress."""


@dataclass(frozen=True, slots=True)
class ToolAnswers:
    """The answers to the calls of one response.

    ``results`` is for the history, after the response itself: JSON that can be stored. While calls wait, it has only
    the results of the others, and providers refuse it: pass it as ``previous_results`` once the requests are decided.
    """

    results: list[JsonObject]
    waiting: Mapping[str, str]
    """The ids of the approval requests that calls wait for, by the model's call id."""
    answers: Mapping[str, CallAnswer]
    """The answers to the calls that were made now, by the model's call id: data, records and errors."""


class ToolJson:
    """The tools of a session as tool definitions, and answers to the calls in a model's responses.

    Calls go through the session: the kernel alone validates, decides and records them. The correlation of their records
    is ``run``, and their causation the model's call id. A tool that is not in play is refused, on record, as are
    arguments that are not a JSON object. A refused or failed call is a result that the model reads; for
    Anthropic it has ``is_error``.

    A call that needs an approval fails, and its text has the request's id. With ``defers`` it waits instead: see
    ``answer``.
    """

    def __init__(self, session: Session, format: ToolFormat, *, defers: bool = False, run: str | None = None) -> None:
        """Answer in ``format``: ``openai`` (Responses), ``openai-chat`` (Chat Completions) or ``anthropic`` (Messages).

        ``run`` is the id of one run of the loop, under which its budget is counted; by default, a new id.
        """
        self._format_name: Final[ToolFormat] = checked_format(format)
        self._tools = SessionTools(session)
        self._format = _FORMATS[format]
        self._defers = defers
        self.run: Final = run if run is not None else str(uuid4())
        """The id of the run: the correlation of its records."""

    async def definitions(self) -> list[JsonObject]:
        """Return the tools in play now, for the ``tools`` of the next request."""
        tools = await self._tools.list_tools()
        return [tool_json(self._format_name, tool.name, tool.description, tool.parameters) for tool in tools]

    async def system_text(self, input: object = None) -> str:
        """Return the system text of the next request, with its context.

        ``input`` is passed to context functions. Raises ``ContextError``, naming the context that failed.
        """
        return await self._tools.system_text(input)

    def calls(self, response: object) -> list[RequestedCall]:
        """Return the function calls in a response, in order. Other items are left to the loop.

        ``response`` is an object of the SDK, its JSON, or a list of calls. Raises ``InvalidArguments`` otherwise.
        """
        is_list = isinstance(response, list | tuple)
        items = cast("object", response) if is_list else self._format.items(response)
        if not isinstance(items, list | tuple):
            raise InvalidArguments(
                f"{self._format.expected} was expected; got {response!r:.80}",
                hint="give the response as the SDK returns it, its JSON, or a list of its calls",
            )
        candidates = (_requested_call(self._format, entry) for entry in cast("Sequence[object]", items))
        return [call for call in candidates if call is not None]

    async def answer(
        self,
        response: object,
        *,
        previous_results: Iterable[JsonObject] = (),
        trace: str | None = None,
        deadline: float | None = None,
        on_event: OnCallEvent | None = None,
    ) -> ToolAnswers:
        """Make the calls of a response concurrently, and return their results in the same order.

        ``response`` is as for ``calls``. ``trace`` is a W3C ``traceparent``, ``deadline`` Unix time in
        seconds. Cancelling this cancels the calls, on record.

        With ``defers``, the calls that need an approval are ``waiting``, and the others are made. Once the requests are
        decided, answer the same response again, in this process or another, with the ``results`` so far as
        ``previous_results``: calls that have a result are not made again, and those whose request is undecided wait
        again.
        """
        calls = self.calls(response)
        if self._defers and len({call.id for call in calls}) < len(calls):
            raise InvalidArguments(
                "two calls of this response have the same id, but waiting calls are identified by their ids",
                hint="leave defers out for this provider",
            )
        results_by_id = dict(pair for part in previous_results for pair in self._format.results_in(part))

        async def make(call: RequestedCall) -> CallAnswer:
            on = None if on_event is None else partial(on_event, call)
            return await self._tools.call(
                call.name, call.arguments, id=call.id, run=self.run, trace=trace, deadline=deadline, on_event=on
            )

        pending = {str(at): partial(make, call) for at, call in enumerate(calls) if call.id not in results_by_id}
        done: Mapping[str, CallAnswer] = await run_concurrently(pending) if pending else {}
        results: list[JsonObject] = []
        waiting: dict[str, str] = {}
        for at, call in enumerate(calls):
            answer = done.get(str(at))
            if answer is None:
                results.append(results_by_id[call.id])
            elif self._defers and answer.approval is not None:
                waiting[call.id] = answer.approval
            else:
                results.append(self._format.result(call.id, answer))
        answers = {call.id: done[str(at)] for at, call in enumerate(calls) if str(at) in done}
        return ToolAnswers(self._format.as_history(results), MappingProxyType(waiting), MappingProxyType(answers))


class _ResponsesFormat:
    """The format of one API: the calls in its responses, and the results that it accepts."""

    expected = "a response of OpenAI's Responses API, with its output,"

    def items(self, response: object) -> object:
        """Return the items of a response, including its calls; not a list if it is not a response."""
        return _member(response, "output")

    def call_in(self, item: object) -> tuple[object, object, object] | None:
        """Return the id, the name and the arguments of a call, or ``None`` for another item."""
        if _member(item, "type") != "function_call":
            return None
        return _member(item, "call_id"), _member(item, "name"), _member(item, "arguments")

    def result(self, id: str, answer: CallAnswer) -> JsonObject:
        return {"type": "function_call_output", "call_id": id, "output": self.content(answer)}

    def content(self, answer: CallAnswer) -> str | list[JsonObject]:
        """Return an answer for the model: text, or a list with images if it has any."""
        if not any(isinstance(part, Medium) and part.is_image for part in answer.parts):
            return answer.text
        return [
            self.image(part) if isinstance(part, Medium) and part.is_image else self.text(str(part))
            for part in answer.parts
        ]

    def text(self, text: str) -> JsonObject:
        """Return a text element of such a list."""
        return {"type": "input_text", "text": text}

    def image(self, image: Medium) -> JsonObject:
        """Return an image element of such a list."""
        return {"type": "input_image", "image_url": f"data:{image.media_type};base64,{image.base64}"}

    def as_history(self, results: list[JsonObject]) -> list[JsonObject]:
        """Return results in the form of a history."""
        return results

    def results_in(self, part: JsonObject) -> Iterator[tuple[str, JsonObject]]:
        """Yield the results in a part of a history, with the ids of their calls."""
        yield _id_of(part, "call_id"), part


class _ChatFormat(_ResponsesFormat):
    expected = "a response of OpenAI's Chat Completions API, with one choice, or its message"

    def items(self, response: object) -> object:
        choices = _member(response, "choices")
        if choices is not None:
            several = cast("Sequence[object]", choices) if isinstance(choices, list | tuple) else ()
            response = _member(several[0], "message") if len(several) == 1 else None
        is_message = _member(response, "role") == "assistant"
        return (_member(response, "tool_calls") or []) if is_message else None

    def call_in(self, item: object) -> tuple[object, object, object] | None:
        if _member(item, "type") != "function":
            return None
        function = _member(item, "function")
        return _member(item, "id"), _member(function, "name"), _member(function, "arguments")

    def result(self, id: str, answer: CallAnswer) -> JsonObject:
        return {"role": "tool", "tool_call_id": id, "content": answer.text}

    def results_in(self, part: JsonObject) -> Iterator[tuple[str, JsonObject]]:
        yield _id_of(part, "tool_call_id"), part


class _MessagesFormat(_ResponsesFormat):
    expected = "a message of Anthropic's Messages API, with its content,"

    def items(self, response: object) -> object:
        return _member(response, "content")

    def call_in(self, item: object) -> tuple[object, object, object] | None:
        if _member(item, "type") != "tool_use":
            return None
        return _member(item, "id"), _member(item, "name"), _member(item, "input")

    def result(self, id: str, answer: CallAnswer) -> JsonObject:
        failed = {"is_error": True} if answer.error is not None else {}
        return {"type": "tool_result", "tool_use_id": id, "content": self.content(answer), **failed}

    def text(self, text: str) -> JsonObject:
        return {"type": "text", "text": text}

    def image(self, image: Medium) -> JsonObject:
        return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.base64}}

    def as_history(self, results: list[JsonObject]) -> list[JsonObject]:
        return [{"role": "user", "content": results}] if results else []

    def results_in(self, part: JsonObject) -> Iterator[tuple[str, JsonObject]]:
        content = part.get("content") if part.get("type") != "tool_result" else None  # its content may be a list, too
        for block in cast("list[JsonObject]", content) if isinstance(content, list) else [part]:
            if block.get("type") != "text":  # text may accompany results
                yield _id_of(block, "tool_use_id"), block


_FORMATS: Final[Mapping[ToolFormat, _ResponsesFormat]] = MappingProxyType(
    {"openai": _ResponsesFormat(), "openai-chat": _ChatFormat(), "anthropic": _MessagesFormat()}
)


def _requested_call(format: _ResponsesFormat, item: object) -> RequestedCall | None:
    """Return an item as a call, or ``None``. Raises ``InvalidArguments`` for a call without an id or a name."""
    if isinstance(item, RequestedCall):
        return item
    if _member(item, "type") is None:
        raise InvalidArguments(f"an item of a response was expected, with its type; got {item!r:.80}")
    parts = format.call_in(item)
    if parts is None:
        return None
    call, name, arguments = parts
    if not isinstance(call, str) or not isinstance(name, str):
        raise InvalidArguments(f"a call with an id and a name was expected; got {item!r:.80}")
    if isinstance(arguments, str | Mapping):
        return RequestedCall(call, name, cast("str | Mapping[str, Any]", arguments))
    return RequestedCall(call, name, json.dumps(arguments, default=str))  # the kernel refuses it


def _member(of: object, name: str) -> object:
    """Return a member of JSON data, or an attribute of an SDK's object, or ``None`` if it is missing."""
    return cast("Mapping[str, object]", of).get(name) if isinstance(of, Mapping) else getattr(of, name, None)


def _id_of(part: JsonObject, key: str) -> str:
    if not isinstance(call_id := part.get(key), str):
        raise InvalidArguments(f"previous_results: a result with its {key} was expected; got {part!r:.80}")
    return call_id
