"""The events of a running call, followed by its result."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final, Self

import httpx2

from capset.errors import Unreachable
from capset.wire.calls import CallShape, MessageShape
from capset_server.client.answers import Answers

LARGEST: Final = 64 * 1024 * 1024
"""The maximum size of one event, in bytes."""


class CallEvents:
    """The events of a running tool: ``async for event in events``; then ``events.result``."""

    def __init__(self, answers: Answers, response: httpx2.Response, *, safe: bool) -> None:
        self._answers = answers
        self._safe = safe
        self._result: CallShape | None = None
        self._events = self._read(httpx2.EventSource(response, LARGEST))

    @property
    def result(self) -> CallShape:
        """The result of the call, refusals and failures included, once its events have been read."""
        if self._result is None:
            raise RuntimeError("the call has not ended yet: read its events first")
        return self._result

    def __aiter__(self) -> Self:
        """Iterate over the events, once."""
        return self

    async def __anext__(self) -> MessageShape:
        """Return the next event. Raises ``Unreachable`` if the stream ends before the call's result."""
        return await anext(self._events)

    async def aclose(self) -> None:
        """Stop reading."""
        await self._events.aclose()

    async def _read(self, source: httpx2.EventSource) -> AsyncGenerator[MessageShape]:
        try:
            with self._answers.named(safe=self._safe):
                async for event in source:
                    if event.event == "result":
                        # Keep reading: the end follows at once, and then the connection can be reused.
                        self._result = self._answers.parsed(CallShape, event.data)
                    elif event.event == "message" and event.data:
                        yield self._answers.parsed(MessageShape, event.data)
        except Unreachable:
            if self._result is None:  # otherwise the call is complete
                raise
        if self._result is None:
            raise self._answers.broken("the stream ended before the call's result", safe=self._safe)
