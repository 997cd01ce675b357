"""Models that record their answers in a cassette, or replay those of one (extra ``agent``)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic_ai import RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponseStreamEvent, PartDeltaEvent, PartStartEvent
from pydantic_ai.models import CompletedStreamedResponse, Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from capset_agents.playback.cassettes import Cassette, CassetteFile, RecordedExchange, StreamEvent
from capset_agents.playback.request_hashes import HashedRequest, hash_request


class CassetteRecorder(WrapperModel):
    """A model that records its answers: ``CassetteRecorder("openai:gpt-5", "talk.jsonl")``.

    Each answer is written as soon as it is complete, with hashes of the request. Requests at this level contain no
    headers or keys, so these are never in the file. Answers are stored verbatim.
    """

    def __init__(self, wrapped: str | Model, cassette: str | Path | CassetteFile) -> None:
        """Record ``wrapped`` in a file, replacing an older recording. Raises like ``CassetteFile``."""
        super().__init__(wrapped)
        self._file = cassette if isinstance(cassette, CassetteFile) else CassetteFile(cassette)

    @property
    def settings(self) -> None:
        """Always ``None``: the wrapped model applies its own settings, which are not part of the request."""
        return

    def prepare_messages(
        self, messages: list[ModelMessage], model_request_parameters: ModelRequestParameters | None = None
    ) -> list[ModelMessage]:
        """Return messages unchanged: ``CassetteModel`` cannot prepare them for each provider before it hashes them."""
        return messages

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Call the model and record its answer."""
        hashed_request = hash_request(messages, model_settings, model_request_parameters)
        prepared = self.wrapped.prepare_messages(messages, model_request_parameters)
        answer = await self.wrapped.request(prepared, model_settings, model_request_parameters)
        self._record(hashed_request, answer, None)
        return answer

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Stream the model's answer, and record it with its events if the stream is read to the end."""
        hashed_request = hash_request(messages, model_settings, model_request_parameters)
        prepared = self.wrapped.prepare_messages(messages, model_request_parameters)
        events, is_complete = list[StreamEvent](), False

        async def recorded(live: AsyncIterator[ModelResponseStreamEvent]) -> AsyncIterator[ModelResponseStreamEvent]:
            nonlocal is_complete
            async for event in live:
                if isinstance(event, PartStartEvent | PartDeltaEvent):
                    events.append(deepcopy(event))
                yield event
            is_complete = True

        async with self.wrapped.request_stream(
            prepared, model_settings, model_request_parameters, run_context
        ) as stream:
            # pydantic-ai peeks at the first events in the same way. Otherwise it remains the provider's stream.
            stream._event_iterator = recorded(aiter(stream))  # pyright: ignore[reportPrivateUsage]
            yield stream
        if is_complete:
            self._record(hashed_request, stream.get(), events)

    def _record(self, hashed_request: HashedRequest, answer: ModelResponse, events: list[StreamEvent] | None) -> None:
        model = self.wrapped.model_id
        answer = replace(answer, model_id=answer.model_id or model, provider_url=_without_keys(answer.provider_url))
        self._file.add(RecordedExchange(asked=hashed_request.hashes, model=model, answer=answer, events=events))


def _without_keys(url: str | None) -> str | None:
    """Return a provider's URL without credentials, query and fragment."""
    if url is None:
        return None
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


class CassetteModel(Model):
    """A model that replays the answers of a cassette, without a provider: ``CassetteModel("talk.jsonl")``.

    Each answer is given once, if the request is the recorded one: the same instructions, tools, settings and
    conversation. Otherwise the run ends with ``CassetteMismatch``, which names the changes.
    """

    def __init__(self, cassette: str | Path) -> None:
        """Read the file. Raises ``DefinitionError`` if it is not a cassette or is damaged."""
        super().__init__()
        self._cassette = Cassette(cassette)

    @property
    def model_name(self) -> str:
        """The name of the file; each answer names the model that gave it."""
        return self._cassette.name

    @property
    def system(self) -> str:
        """The name of the provider: ``cassette``."""
        return "cassette"

    def prepare_messages(
        self, messages: list[ModelMessage], model_request_parameters: ModelRequestParameters | None = None
    ) -> list[ModelMessage]:
        """Return messages unchanged, as they were recorded."""
        return messages

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the recorded answer. Raises ``CassetteMismatch``."""
        return self._cassette.take(hash_request(messages, model_settings, model_request_parameters)).answer

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Stream the recorded answer in its original pieces. Raises ``CassetteMismatch``."""
        exchange = self._cassette.take(hash_request(messages, model_settings, model_request_parameters))
        if exchange.events is None:
            yield CompletedStreamedResponse(
                exchange.answer, model_request_parameters=model_request_parameters, replay_events=True
            )
        else:
            yield _RecordedStream(exchange.answer, exchange.events, model_request_parameters)


class _RecordedStream(CompletedStreamedResponse):
    def __init__(
        self, answer: ModelResponse, events: Sequence[StreamEvent], model_request_parameters: ModelRequestParameters
    ) -> None:
        super().__init__(answer, model_request_parameters=model_request_parameters, replay_events=True)
        self._events = events

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        for event in self._events:
            self._parts_manager.apply_event(event)
            yield event
