"""A model whose first answer breaks off after a part of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaThinkingCalls, DeltaThinkingPart, FunctionModel


def breaking_model() -> FunctionModel:
    """Return a model that thinks, says ``Bob is `` and fails, and then says ``Bob is paid.``; in each turn."""
    calls = 0

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaThinkingCalls]:
        nonlocal calls
        calls += 1
        if calls % 2:
            yield {0: DeltaThinkingPart(content="hm")}
            yield "Bob is "
            raise ModelHTTPError(503, "moody")
        yield "Bob is "
        yield "paid."

    return FunctionModel(stream_function=stream, model_name="moody")
