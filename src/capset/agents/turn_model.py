"""The model of one turn: additions of its steps to requests, retries, and texts as they come (extra ``agent``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartStartEvent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from capset.agents.model_calls import readable

RETRIES: Final = 3
"""How often a request to a model is made in all, if its provider fails for a moment."""
BACKOFF_SECONDS: Final = 0.5
"""The delay before the first repetition; it doubles with each further one, up to ``_LONGEST_SECONDS``."""
_LONGEST_SECONDS: Final = 20.0

Prepare = Callable[[list[ModelMessage], ModelSettings | None], tuple[list[ModelMessage], ModelSettings | None]]
"""Returns the messages and the settings of a request with what the step adds."""
Emit = Callable[[ModelResponseStreamEvent], None]
"""Is told of an answer as it comes."""
Discard = Callable[[], None]
"""Is told that the answer so far is void, since the model is asked again."""


class TurnModel(WrapperModel):
    """A model as one turn asks it.

    It streams within ``request``, since the streams of pydantic-ai's runs cost as much again as the run. A model that
    says that it ``answers_at_once`` has nothing to stream: its texts are told whole.
    """

    def __init__(
        self,
        model: Model,
        retries: int,
        prepare: Prepare | None = None,
        emit: Emit | None = None,
        discard: Discard | None = None,
    ) -> None:
        """Without ``emit`` answers come whole, and there is nothing to ``discard``."""
        super().__init__(model)
        self._retries = retries
        self._prepare = prepare
        self._emit = emit
        self._discard = discard

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Ask the model; again after a delay if its provider fails for a moment, also in the middle of an answer."""
        if self._prepare is not None:
            messages, model_settings = self._prepare(messages, model_settings)
        for attempt in range(1, self._retries):
            try:
                return await self._ask(messages, model_settings, model_request_parameters)
            except ModelAPIError as error:
                if not _is_momentary(error):
                    raise
            if self._discard is not None:
                self._discard()
            await asyncio.sleep(min(BACKOFF_SECONDS * 2 ** (attempt - 1), _LONGEST_SECONDS))
        return await self._ask(messages, model_settings, model_request_parameters)

    async def _ask(
        self, messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> ModelResponse:
        if self._emit is None:
            return _kept(await self.wrapped.request(messages, settings, parameters), messages)
        if getattr(self.wrapped, "answers_at_once", False):
            response = _kept(await self.wrapped.request(messages, settings, parameters), messages)
            for index, part in enumerate(response.parts):
                self._emit(PartStartEvent(index=index, part=part))
            return response
        async with self.wrapped.request_stream(messages, settings, parameters) as stream:
            async for event in stream:
                self._emit(event)
            return _kept(stream.get(), messages)


def _kept(response: ModelResponse, messages: Sequence[ModelMessage]) -> ModelResponse:
    """Return an answer in a form that can be stored, and sent to a provider again.

    Its texts are readable, and its calls have ids that none before them has: what became of a call is found by its id.
    """
    used = {call.tool_call_id for one in messages if isinstance(one, ModelResponse) for call in one.tool_calls}
    parts: list[ModelResponsePart] = []
    for part in map(_readable_part, response.parts):
        if isinstance(part, ToolCallPart):
            own, number = part.tool_call_id, 1
            while own in used:
                number += 1
                own = f"{part.tool_call_id}_{number}"
            used.add(own)
            parts.append(replace(part, tool_call_id=own))
        else:
            parts.append(part)
    return replace(response, parts=parts)


def _readable_part(part: ModelResponsePart) -> ModelResponsePart:
    if isinstance(part, TextPart | ThinkingPart):
        return replace(part, content=readable(part.content))
    if isinstance(part, ToolCallPart):
        return replace(part, tool_name=readable(part.tool_name), args=readable(part.args))
    return part


def _is_momentary(error: ModelAPIError) -> bool:
    status = getattr(error, "status_code", None)
    return status is None or status in {408, 429} or status >= 500
