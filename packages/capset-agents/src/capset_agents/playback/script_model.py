"""A model that follows a script, for runs without a provider: demonstrations, tests and examples (extra ``agent``)."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import ClassVar, Final

from pydantic_ai.exceptions import ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import (
    AgentInfo,
    DeltaThinkingCalls,
    DeltaThinkingPart,
    DeltaToolCall,
    DeltaToolCalls,
    FunctionModel,
)

from capset.errors import counted
from capset_agents.playback.scripts import Call, Say, Script, ScriptError, ScriptStep, ToolResult, script_from_moves

_PIECES: Final = re.compile(r"\S*\s*")
"""The pieces in which text is streamed: words, each with the whitespace after it."""
_STATUS: Final = {"unavailable": 503, "rate_limited": 429, "rejected": 400}


class ScriptedModel(FunctionModel):
    """A pydantic-ai model that answers from a script, one step for each request.

    In ``ScriptedModel(Call("save_note", text="milk"), "Done.")``, each call is one answer, and a list of calls is one
    answer with all of them. A text ends the turn, and the next turn continues after it. The model works wherever
    pydantic-ai takes one. It finds its position in the script from the messages of the conversation, so any process can
    continue the conversation. A request beyond the end of the script raises ``ScriptError``.
    """

    answers_at_once: ClassVar[bool] = True
    """Its answers are complete at once. If a caller streams them, they come word by word."""

    def __init__(
        self, *moves: Call | Say | str | Sequence[Call] | ScriptStep, script: Script | None = None, agent: str = ""
    ) -> None:
        """Take the answers in order, or a ``script`` and the name of the agent that it answers for."""
        self._steps = (script or script_from_moves(moves)).steps_for(agent)
        self._script_name = "script" if script is None else script.name
        super().__init__(self._answer, stream_function=self._stream, model_name=self._script_name)

    @property
    def system(self) -> str:
        """The name of the provider: ``script``."""
        return "script"

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        number, step = self._next_step(messages)
        _raise_failure(step, self._script_name)
        return ModelResponse(parts=[*_parts(number, step, info)])

    async def _stream(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncGenerator[str | DeltaToolCalls | DeltaThinkingCalls]:
        number, step = self._next_step(messages)
        _raise_failure(step, self._script_name)
        for index, part in enumerate(_parts(number, step, info)):
            if isinstance(part, ThinkingPart):
                for piece in _pieces(part.content):
                    yield {index: DeltaThinkingPart(content=piece)}
            elif isinstance(part, TextPart):
                for piece in _pieces(part.content):
                    yield piece
            elif isinstance(part, ToolCallPart):
                yield {index: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}

    def _next_step(self, messages: list[ModelMessage]) -> tuple[int, ScriptStep]:
        """Return the next step and its index. Each earlier answer used up one step and those that it skipped."""
        results: list[ToolResult] = []
        number = 0
        for message in messages:
            if isinstance(message, ModelResponse):
                if message.model_name is None:  # not from a model: it closes a turn that was ended
                    continue
                number = self._matching_step(number, results)[0] + 1
            else:
                results += [
                    ToolResult(part.tool_name, part.model_response_str(), part.outcome == "success")
                    for part in message.parts
                    if isinstance(part, ToolReturnPart)
                ]
        return self._matching_step(number, results)

    def _matching_step(self, number: int, results: Sequence[ToolResult]) -> tuple[int, ScriptStep]:
        for at in range(number, len(self._steps)):
            step = self._steps[at]
            if step.when is None or step.when.matches(results):
                return at, step
        raise ScriptError(
            f"the script {self._script_name} is over after {number} of {counted(len(self._steps), 'step')}"
        )


def _parts(number: int, step: ScriptStep, info: AgentInfo) -> Iterable[ModelResponsePart]:
    if step.reasoning:
        yield ThinkingPart(step.reasoning)
    if step.text is not None or not (step.calls or step.output is not None):
        yield TextPart(step.text or "")
    for place, call in enumerate(step.calls, 1):
        yield ToolCallPart(call.tool, call.arguments, tool_call_id=f"call-{number + 1}-{place}")
    if step.output is not None:
        if info.output_tools:
            arguments = {"response": step.output} if not isinstance(step.output, dict) else step.output
            yield ToolCallPart(info.output_tools[0].name, arguments, tool_call_id=f"call-{number + 1}-output")
        else:
            yield TextPart(json.dumps(step.output))


def _pieces(text: str) -> list[str]:
    return [piece for piece in _PIECES.findall(text) if piece]


def _raise_failure(step: ScriptStep, name: str) -> None:
    if step.fail is None:
        return
    if step.fail == "broken":
        raise UnexpectedModelBehavior("the answer of the model cannot be read")
    raise ModelHTTPError(_STATUS[step.fail], name, {"error": step.fail})
