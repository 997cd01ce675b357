"""The model of one turn: additions of its steps to requests, their usage, retries, and texts as they come.

It estimates what a step may use before it begins, and what a step has used that broke off.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, cast

from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UserError
from pydantic_ai.messages import (
    BinaryContent,
    FileUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartStartEvent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from capset.definitions.governance.usage import AgentUsage
from capset_agents.meter import TurnMeter
from capset_agents.model_calls import readable

RETRIES: Final = 3
"""How often a request to a model is made in all, if its provider fails for a moment."""
BACKOFF_SECONDS: Final = 0.5
"""The delay before the first repetition; it doubles with each further one, up to ``_LONGEST_SECONDS``."""
_LONGEST_SECONDS: Final = 20.0
OUTPUT_TOKENS: Final = 16_384
"""The tokens that an answer is assumed to have at most where neither the agent nor its model sets ``max_tokens``."""
IMAGE_TOKENS: Final = 20_000
"""The tokens that an image, or a file that a provider fetches by itself, counts at most."""
UNPRICED: Final = 1e9
"""The cost in US dollars of a step whose price is not known before: no other step has room beside it."""
_AUDIO_BYTES: Final = 64
"""The least bytes of a recording for one token: providers count seconds, of which each has at most 32."""
BYTES_A_TOKEN: Final = 4
"""Bytes per token, a rule of thumb for English."""
_OVERHEAD: Final = 16
"""The most tokens that a provider adds to a part of a message, or to a tool."""
_NOT_TAKEN: Final = frozenset({400, 404, 413, 415, 422})
"""The statuses of a provider that does not take what is in a request."""

Prepare = Callable[[list[ModelMessage], ModelSettings | None], tuple[list[ModelMessage], ModelSettings | None]]
"""Returns the messages and the settings of a request with what the step adds."""
Show = Callable[[list[ModelMessage]], Awaitable[list[ModelMessage]]]
"""Returns the messages of a request with the images and recordings in them, or the same list if there are none."""
Emit = Callable[[ModelResponseStreamEvent], None]
"""Is told of an answer as it comes."""
Discard = Callable[[], None]
"""Is told that the answer so far is void, since the model is asked again."""


class TurnModel(WrapperModel):
    """A model as one turn asks it. Each request is a step, which reserves what it may use before it begins.

    It streams within ``request``, since the streams of pydantic-ai's runs cost as much again as the run. A model that
    says that it ``answers_at_once`` has nothing to stream: its texts are told whole.
    """

    def __init__(
        self,
        model: Model,
        retries: int,
        meter: TurnMeter,
        prepare: Prepare | None = None,
        emit: Emit | None = None,
        discard: Discard | None = None,
        show: Show | None = None,
    ) -> None:
        """Without ``emit`` answers come whole, and there is nothing to ``discard``.

        What ``show`` adds is left out from the first request on that its provider does not take with it.
        """
        super().__init__(model)
        self._retries = retries
        self._meter = meter
        self._stream: StreamedResponse | None = None
        """The answer that is coming."""
        self._prepare = prepare
        self._emit = emit
        self._discard = discard
        self._show = show

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Ask the model. Raises ``BudgetExceeded`` before it if nothing is left for another step."""
        if self._prepare is not None:
            messages, model_settings = self._prepare(messages, model_settings)
        rendered = messages if self._show is None else await self._show(messages)
        meter, maximum = self._meter, AgentUsage(steps=1)
        if meter.bounds_use:
            needs_price = meter.bounds_cost
            maximum = most_of_step(self, rendered, model_settings, model_request_parameters, needs_price=needs_price)
        step = await meter.reserve(maximum)
        try:
            response = await self._ask_showing(rendered, messages, model_settings, model_request_parameters)
        except asyncio.CancelledError:
            answer = None if self._stream is None else self._stream.get()
            await meter.settle(step, use_of_broken_step(self, rendered, model_request_parameters, answer))
            raise
        except Exception:
            await meter.settle(step, AgentUsage())  # providers take nothing for a request that fails
            raise
        price = price_of(response)
        unpriced = response.model_name or "" if price is None else None
        await meter.settle(step, use_of_step(response, price), unpriced=unpriced)
        return response

    async def _ask_showing(
        self,
        rendered: list[ModelMessage],
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Ask the model with images and recordings; without them, from then on, if its provider does not take them."""
        try:
            return await self._ask_again(rendered, settings, parameters)
        except (ModelHTTPError, NotImplementedError, UserError) as error:
            is_taken = isinstance(error, ModelHTTPError) and error.status_code not in _NOT_TAKEN
            if rendered is messages or is_taken:
                raise
        self._show = None
        if self._discard is not None:
            self._discard()
        return await self._ask_again(messages, settings, parameters)

    async def _ask_again(
        self, messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> ModelResponse:
        """Ask the model; again after a delay if its provider fails for a moment, also in the middle of an answer."""
        for attempt in range(1, self._retries):
            try:
                return await self._ask(messages, settings, parameters)
            except ModelAPIError as error:
                if not _is_momentary(error):
                    raise
            if self._discard is not None:
                self._discard()
            await asyncio.sleep(min(BACKOFF_SECONDS * 2 ** (attempt - 1), _LONGEST_SECONDS))
        return await self._ask(messages, settings, parameters)

    async def _ask(
        self, messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> ModelResponse:
        self._stream = None
        if self._emit is None:
            return _kept(await self.wrapped.request(messages, settings, parameters), messages, self.model_id)
        if getattr(self.wrapped, "answers_at_once", False):
            response = _kept(await self.wrapped.request(messages, settings, parameters), messages, self.model_id)
            for index, part in enumerate(response.parts):
                self._emit(PartStartEvent(index=index, part=part))
            return response
        async with self.wrapped.request_stream(messages, settings, parameters) as stream:
            self._stream = stream
            async for event in stream:
                self._emit(event)
            return _kept(stream.get(), messages, self.model_id)


def _kept(response: ModelResponse, messages: Sequence[ModelMessage], model_id: str) -> ModelResponse:
    """Return an answer in a form that can be stored, and sent to a provider again.

    It names the model that was asked, which decides its price. Its texts are readable, and its calls have ids that none
    before them has: what became of a call is found by its id.
    """
    used = {
        call.tool_call_id for message in messages if isinstance(message, ModelResponse) for call in message.tool_calls
    }
    parts: list[ModelResponsePart] = []
    for part in map(_readable_part, response.parts):
        if isinstance(part, ToolCallPart):
            call_id, number = part.tool_call_id, 1
            while call_id in used:
                number += 1
                call_id = f"{part.tool_call_id}_{number}"
            used.add(call_id)
            parts.append(replace(part, tool_call_id=call_id))
        else:
            parts.append(part)
    return replace(response, parts=parts, model_id=response.model_id or model_id)


def _readable_part(part: ModelResponsePart) -> ModelResponsePart:
    if isinstance(part, TextPart | ThinkingPart):
        return replace(part, content=readable(part.content))
    if isinstance(part, ToolCallPart):
        return replace(part, tool_name=readable(part.tool_name), args=readable(part.args))
    return part


def _is_momentary(error: ModelAPIError) -> bool:
    status = getattr(error, "status_code", None)
    return status is None or status in {408, 429} or status >= 500


def most_of_step(
    model: Model,
    messages: Sequence[ModelMessage],
    settings: ModelSettings | None,
    parameters: ModelRequestParameters,
    *,
    needs_price: bool,
) -> AgentUsage:
    """Return the most that a request may use. A byte of text is at most one token; ``max_tokens`` bounds the answer.

    A request whose price is not known costs ``UNPRICED`` with ``needs_price``, and nothing without it.
    """
    request_tokens, answer_tokens = _request_bytes(messages, parameters), _max_tokens(settings, model.settings)
    price = _price(model, request_tokens, answer_tokens)
    unpriced = UNPRICED if needs_price else 0.0
    return AgentUsage(steps=1, tokens=request_tokens + answer_tokens, cost=unpriced if price is None else price)


def use_of_broken_step(
    model: Model,
    messages: Sequence[ModelMessage],
    parameters: ModelRequestParameters,
    answer: ModelResponse | None,
) -> AgentUsage:
    """Estimate what a request has used that was cancelled after this part of its answer: providers do not say."""
    request_tokens = _request_bytes(messages, parameters) // BYTES_A_TOKEN
    answer_tokens = 0 if answer is None else _message_bytes(answer) // BYTES_A_TOKEN
    return AgentUsage(
        steps=1, tokens=request_tokens + answer_tokens, cost=_price(model, request_tokens, answer_tokens) or 0.0
    )


def use_of_step(answer: ModelResponse, price: float | None) -> AgentUsage:
    """Return what an answer has used, at its price in US dollars; ``None`` if that is not known."""
    used = answer.usage
    tokens = used.input_tokens + used.output_tokens
    return AgentUsage(steps=1, calls=len(answer.tool_calls), tokens=tokens, cost=price or 0.0)


def price_of(message: ModelResponse) -> float | None:
    """Return what an answer costs in US dollars, by genai-prices; ``None`` if its model's price is not known."""
    if (message.model_id or "").startswith("script:"):
        return 0.0
    try:
        return float(message.cost().total_price)
    except (LookupError, ValueError, AssertionError):  # of a model whose price is not known
        return None


def _max_tokens(*layers: ModelSettings | None) -> int:
    for layer in layers:
        if layer and "max_tokens" in layer:
            return layer["max_tokens"]
    return OUTPUT_TOKENS


def _price(model: Model, request_tokens: int, answer_tokens: int) -> float | None:
    """Return the cost of so many tokens of a model, by the name under which it is asked, at any provider if need be."""
    usage = RequestUsage(input_tokens=request_tokens, output_tokens=answer_tokens)
    for provider in (model.system, None):
        answer = ModelResponse(parts=[], usage=usage, model_id=model.model_id, model_name=model.model_name)
        if (price := price_of(replace(answer, provider_name=provider))) is not None:
            return price
    return None


def _request_bytes(messages: Sequence[ModelMessage], parameters: ModelRequestParameters) -> int:
    tools = [*parameters.function_tools, *parameters.output_tools]
    described = [[tool.name, tool.description, tool.parameters_json_schema] for tool in tools]
    return sum(map(_message_bytes, messages)) + sum(_OVERHEAD + _bytes(description) for description in described)


def _message_bytes(message: ModelMessage) -> int:
    size = _bytes(message.instructions) if isinstance(message, ModelRequest) else 0
    for part in message.parts:
        texts = [getattr(part, name, None) for name in ("tool_name", "content", "args")]
        size += _OVERHEAD + sum(map(_bytes, texts))
    return size


def _bytes(content: object) -> int:
    """Return the bytes of text in the content of a part; for an image, the most tokens that it can have."""
    if content is None:
        return 0
    if isinstance(content, str):
        return len(content.encode(errors="replace"))
    if isinstance(content, FileUrl):
        return IMAGE_TOKENS
    if isinstance(content, BinaryContent) and content.is_audio:
        return len(content.data) // _AUDIO_BYTES + 1
    if isinstance(content, BinaryContent):
        return min(len(content.data), IMAGE_TOKENS) if content.is_image else len(content.data)
    if isinstance(content, list | tuple):
        return sum(map(_bytes, cast("Sequence[object]", content)))
    return len(json.dumps(content, default=str, ensure_ascii=False).encode(errors="replace"))
