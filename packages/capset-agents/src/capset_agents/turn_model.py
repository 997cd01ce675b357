"""The model of one turn: it adds the steps' context to requests, counts their usage, retries them, and streams texts.

It estimates the maximum usage of a step before it begins, and the usage of a step that broke off.
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
from capset.kernel.telemetry.tracing import Tracing
from capset_agents.meter import TurnMeter
from capset_agents.model_calls import replace_surrogates
from capset_agents.spans import model_span

BACKOFF_SECONDS: Final = 0.5
"""The delay before the first retry. The delay before the second is twice as long."""
IMAGE_TOKENS: Final = 20_000
"""The assumed maximum tokens of an image, or of a file that the provider fetches itself."""
BYTES_PER_TOKEN: Final = 4
"""Bytes per token, a rule of thumb for English."""
_OVERHEAD_TOKENS: Final = 16
"""The maximum tokens that a provider adds to a part of a message, or to a tool."""
_REJECTED_STATUSES: Final = frozenset({400, 404, 413, 415, 422})
"""The HTTP statuses with which a provider rejects the content of a request."""

Prepare = Callable[[list[ModelMessage], ModelSettings | None], tuple[list[ModelMessage], ModelSettings | None]]
"""Returns the messages and settings of a request with the step's additions."""
AddMedia = Callable[[list[ModelMessage]], Awaitable[list[ModelMessage]]]
"""Returns the messages of a request with the images and recordings in them, or the same list if there are none."""
Emit = Callable[[ModelResponseStreamEvent], None]
"""Receives the events of an answer as they arrive."""
Discard = Callable[[], None]
"""Called if the answer so far is discarded because the request is retried."""


class TurnModel(WrapperModel):
    """A model as one turn uses it. Each request is a step, which reserves its maximum usage before it begins.

    It streams within ``request``, since pydantic-ai's streamed runs cost twice as much as plain ones. A model with
    ``answers_at_once`` is not streamed: its texts are emitted whole.
    """

    def __init__(
        self,
        model: Model,
        meter: TurnMeter,
        prepare: Prepare | None = None,
        emit: Emit | None = None,
        discard: Discard | None = None,
        add_media: AddMedia | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        """Without ``emit``, answers are not streamed, and there is nothing to ``discard``.

        Once the provider rejects a request with the media that ``add_media`` adds, they are left out.
        """
        super().__init__(model)
        self._meter = meter
        self._stream: StreamedResponse | None = None
        """The answer that is being streamed."""
        self._prepare = prepare
        self._emit = emit
        self._discard = discard
        self._add_media = add_media
        self._tracing = tracing

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Call the model. Raises ``BudgetExceeded`` beforehand if nothing is left for another step."""
        if self._prepare is not None:
            messages, model_settings = self._prepare(messages, model_settings)
        rendered = messages if self._add_media is None else await self._add_media(messages)
        meter, maximum = self._meter, AgentUsage(steps=1)
        if meter.limits_usage:
            needs_price = meter.limits_cost
            maximum = max_usage(self, rendered, model_settings, model_request_parameters, needs_price=needs_price)
        step = await meter.reserve(maximum)
        try:
            response = await self._request_with_media(rendered, messages, model_settings, model_request_parameters)
        except asyncio.CancelledError:
            answer = None if self._stream is None else self._stream.get()
            await meter.settle(step, estimate_usage(self, rendered, model_request_parameters, answer))
            raise
        except Exception:
            await meter.settle(step, AgentUsage())  # providers do not charge for failed requests
            raise
        price = price_of(response)
        unpriced = response.model_name or "" if price is None else None
        await meter.settle(step, step_usage(response, price), unpriced=unpriced)
        return response

    async def _request_with_media(
        self,
        rendered: list[ModelMessage],
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Call the model with images and recordings. Once the provider rejects them, call it without them."""
        try:
            return await self._request_with_retries(rendered, settings, parameters)
        except (ModelHTTPError, NotImplementedError, UserError) as error:
            is_other_error = isinstance(error, ModelHTTPError) and error.status_code not in _REJECTED_STATUSES
            if rendered is messages or is_other_error:
                raise
        self._add_media = None
        if self._discard is not None:
            self._discard()
        return await self._request_with_retries(messages, settings, parameters)

    async def _request_with_retries(
        self, messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> ModelResponse:
        """Call the model. Retry twice if its provider fails temporarily, even in the middle of an answer."""
        for delay in (BACKOFF_SECONDS, 2 * BACKOFF_SECONDS):
            try:
                return await self._request_once(messages, settings, parameters)
            except ModelAPIError as error:
                if not _is_transient(error):
                    raise
            if self._discard is not None:
                self._discard()
            await asyncio.sleep(delay)
        return await self._request_once(messages, settings, parameters)

    async def _request_once(
        self, messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> ModelResponse:
        with model_span(self._tracing, self.wrapped) as span:
            response = await self._request_untraced(messages, settings, parameters)
            span.answered(response)
            return response

    async def _request_untraced(
        self, messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> ModelResponse:
        self._stream = None
        if self._emit is not None and not getattr(self.wrapped, "answers_at_once", False):
            async with self.wrapped.request_stream(messages, settings, parameters) as stream:
                self._stream = stream
                async for event in stream:
                    self._emit(event)
                return _storable(stream.get(), messages, self.model_id)
        response = _storable(await self.wrapped.request(messages, settings, parameters), messages, self.model_id)
        if self._emit is not None:
            for index, part in enumerate(response.parts):
                self._emit(PartStartEvent(index=index, part=part))
        return response


def _storable(response: ModelResponse, messages: Sequence[ModelMessage], model_id: str) -> ModelResponse:
    """Return an answer in a form that can be stored and sent to a provider again.

    It names the requested model, which determines the price. Its texts have no lone surrogates. Its call ids are unique
    in the conversation, since the outcome of a call is found by its id.
    """
    used = {
        call.tool_call_id for message in messages if isinstance(message, ModelResponse) for call in message.tool_calls
    }
    parts: list[ModelResponsePart] = []
    for part in map(_without_surrogates, response.parts):
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


def _without_surrogates(part: ModelResponsePart) -> ModelResponsePart:
    if isinstance(part, TextPart | ThinkingPart):
        return replace(part, content=replace_surrogates(part.content))
    if isinstance(part, ToolCallPart):
        return replace(part, tool_name=replace_surrogates(part.tool_name), args=replace_surrogates(part.args))
    return part


def _is_transient(error: ModelAPIError) -> bool:
    status = getattr(error, "status_code", None)
    return status is None or status in {408, 429} or status >= 500


def max_usage(
    model: Model,
    messages: Sequence[ModelMessage],
    settings: ModelSettings | None,
    parameters: ModelRequestParameters,
    *,
    needs_price: bool,
) -> AgentUsage:
    """Return the maximum usage of a request. A byte of text is at most one token; ``max_tokens`` bounds the answer.

    If the price is not known, the cost is 0, or with ``needs_price`` so high that it leaves no room for other steps.
    """
    request_tokens, answer_tokens = _request_bytes(messages, parameters), _max_tokens(settings, model.settings)
    price = _price(model, request_tokens, answer_tokens)
    unpriced = 1e9 if needs_price else 0.0  # in US dollars
    return AgentUsage(steps=1, tokens=request_tokens + answer_tokens, cost=unpriced if price is None else price)


def estimate_usage(
    model: Model, messages: Sequence[ModelMessage], parameters: ModelRequestParameters, answer: ModelResponse | None
) -> AgentUsage:
    """Estimate the usage of a request that was cancelled after part of its answer. Providers do not report it."""
    request_tokens = _request_bytes(messages, parameters) // BYTES_PER_TOKEN
    answer_tokens = 0 if answer is None else _message_bytes(answer) // BYTES_PER_TOKEN
    return AgentUsage(
        steps=1, tokens=request_tokens + answer_tokens, cost=_price(model, request_tokens, answer_tokens) or 0.0
    )


def step_usage(answer: ModelResponse, price: float | None) -> AgentUsage:
    """Return the usage of an answer. ``price`` is in US dollars, or ``None`` if it is not known."""
    used = answer.usage
    tokens = used.input_tokens + used.output_tokens
    return AgentUsage(steps=1, calls=len(answer.tool_calls), tokens=tokens, cost=price or 0.0)


def price_of(message: ModelResponse) -> float | None:
    """Return the price of an answer in US dollars, by genai-prices, or ``None`` if it is not known."""
    if (message.model_id or "").startswith("script:"):
        return 0.0
    try:
        return float(message.cost().total_price)
    except (LookupError, ValueError, AssertionError):  # the model's price is not known
        return None


def _max_tokens(*layers: ModelSettings | None) -> int:
    for layer in layers:
        if layer and "max_tokens" in layer:
            return layer["max_tokens"]
    return 16_384  # the assumed maximum


def _price(model: Model, request_tokens: int, answer_tokens: int) -> float | None:
    """Return the price of a model's tokens, by the model's name at its provider, or else at any provider."""
    usage = RequestUsage(input_tokens=request_tokens, output_tokens=answer_tokens)
    for provider in (model.system, None):
        answer = ModelResponse(parts=[], usage=usage, model_id=model.model_id, model_name=model.model_name)
        if (price := price_of(replace(answer, provider_name=provider))) is not None:
            return price
    return None


def _request_bytes(messages: Sequence[ModelMessage], parameters: ModelRequestParameters) -> int:
    tools = [*parameters.function_tools, *parameters.output_tools]
    described = [[tool.name, tool.description, tool.parameters_json_schema] for tool in tools]
    return sum(map(_message_bytes, messages)) + sum(_OVERHEAD_TOKENS + _bytes(description) for description in described)


def _message_bytes(message: ModelMessage) -> int:
    size = _bytes(message.instructions) if isinstance(message, ModelRequest) else 0
    for part in message.parts:
        texts = [getattr(part, name, None) for name in ("tool_name", "content", "args")]
        size += _OVERHEAD_TOKENS + sum(map(_bytes, texts))
    return size


def _bytes(content: object) -> int:
    """Return the bytes of text in the content of a part, or the maximum tokens of media."""
    if content is None:
        return 0
    if isinstance(content, str):
        return len(content.encode(errors="replace"))
    if isinstance(content, FileUrl):
        return IMAGE_TOKENS
    if isinstance(content, BinaryContent) and content.is_audio:
        return len(content.data) // 64 + 1  # providers count at most 32 tokens per second
    if isinstance(content, BinaryContent):
        return min(len(content.data), IMAGE_TOKENS) if content.is_image else len(content.data)
    if isinstance(content, list | tuple):
        return sum(map(_bytes, cast("Sequence[object]", content)))
    return len(json.dumps(content, default=str, ensure_ascii=False).encode(errors="replace"))
