"""The items of a turn as the events of a pydantic-ai run, for its encoders of front-end protocols."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Generator
from dataclasses import dataclass
from typing import Any, Final

from ag_ui.core import BaseEvent, Message, MessagesSnapshotEvent, ReasoningMessageStartEvent, TextMessageStartEvent
from pydantic import TypeAdapter
from pydantic_ai import AgentRunResult, AgentRunResultEvent, CustomEvent, DeferredToolRequests
from pydantic_ai.exceptions import RunCancelled
from pydantic_ai.messages import (
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    ModelResponse,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.ui import NativeEvent
from pydantic_ai.ui.ag_ui import AGUIEventStream
from pydantic_ai.ui.vercel_ai import VercelAIEventStream
from pydantic_ai.ui.vercel_ai.response_types import BaseChunk, DataChunk

from capset.errors import CapsetError
from capset_server.protocols.turn_items import (
    ApprovalAsked,
    Item,
    StepUsage,
    Stop,
    Text,
    TextDiscarded,
    ToolProgress,
    ToolUse,
)

_RESULT: Final = TypeAdapter[AgentRunResult[Any]](AgentRunResult[Any])


@dataclass(kw_only=True)
class ProgressEvent(CustomEvent, name="tool.progress"):
    """The progress of a call, with the data of the turn's event."""

    report: dict[str, Any]  # JSON data

    def to_payload(self) -> dict[str, Any]:
        """Return the data for clients."""
        return self.report


@dataclass(kw_only=True)
class DiscardedEvent(CustomEvent, name="text.discarded"):
    """The texts of the current step are discarded."""

    step: int
    messages: tuple[str, ...] = ()
    """The ids of the AG-UI messages with these texts."""


class AiSdkEventStream(VercelAIEventStream[Any, Any]):
    """Encodes events for the AI SDK."""

    async def handle_custom_event(self, event: CustomEvent) -> AsyncGenerator[BaseChunk]:
        """Yield the event as data: transient for progress, permanent for discarded texts."""
        if isinstance(event, DiscardedEvent):
            yield DataChunk(type="data-text-discarded", data={"step": event.step})
        else:
            yield DataChunk(type=f"data-{event.name.replace('.', '-')}", data=event.to_payload(), transient=True)


class AguiEventStream(AGUIEventStream[Any, Any]):
    """Encodes events for AG-UI, and tracks the messages of the current step."""

    snapshot: list[Message] | None
    """The messages to begin with, for a client that has none yet."""
    _told: list[str]

    def __post_init__(self) -> None:
        """Begin without messages."""
        super().__post_init__()
        self.snapshot, self._told = None, []

    async def before_stream(self) -> AsyncGenerator[BaseEvent]:
        """Begin the run, with the snapshot if there is one."""
        async for event in super().before_stream():
            yield event
        if self.snapshot is not None:
            yield MessagesSnapshotEvent(messages=self.snapshot)

    async def handle_event(self, event: NativeEvent) -> AsyncGenerator[BaseEvent]:
        """Yield the AG-UI events for an event."""
        async for ag_event in super().handle_event(event):
            if isinstance(ag_event, TextMessageStartEvent | ReasoningMessageStartEvent):
                self._told.append(ag_event.message_id)
            yield ag_event

    async def before_response(self) -> AsyncGenerator[BaseEvent]:
        """Begin a step."""
        self._told.clear()
        async for event in super().before_response():
            yield event

    async def handle_custom_event(self, event: CustomEvent) -> AsyncGenerator[BaseEvent]:
        """Yield the event. For discarded texts, add the ids of their messages."""
        if isinstance(event, DiscardedEvent):
            event.messages = tuple(self._told)
            self._told.clear()
        async for ag_event in super().handle_custom_event(event):
            yield ag_event


class RunFailed(CapsetError):
    """A failed turn. The message is that of its last event, with its code."""

    code = "turn_failed"


async def native_events(items: AsyncIterable[Item]) -> AsyncGenerator[NativeEvent]:
    """Yield the events of a run. Raises ``RunFailed`` or ``RunCancelled`` if the turn ended that way."""
    run = _Run()
    async for item in items:
        for event in run.add(item):
            yield event


class _Run:
    """The state between two items."""

    def __init__(self) -> None:
        self._index = -1
        self._part: TextPart | ThinkingPart | None = None
        self._of: tuple[str, tuple[int, int]] | None = None
        self._called: list[ToolCallPart] = []
        """Calls of the current step that are not announced yet: announcing the first ends the step in the protocols."""
        self._asked: list[ApprovalAsked] = []
        self._said = ""

    def add(self, item: Item) -> Generator[NativeEvent]:
        if isinstance(item, Text):
            yield from self._text(item)
            return
        if isinstance(item, ToolProgress):
            yield ProgressEvent(report=item.data)
            return
        yield from self._close()
        if isinstance(item, TextDiscarded):
            self._said = ""
            yield DiscardedEvent(step=item.step)
        elif isinstance(item, ToolUse):
            if item.success is None:
                yield from self._call(_part(item))
            else:
                yield from self._announce()
                outcome = "success" if item.success else "failed"
                yield FunctionToolResultEvent(ToolReturnPart(item.tool, item.output, item.id, outcome=outcome))
        elif isinstance(item, StepUsage):
            yield from self._announce()
        elif isinstance(item, ApprovalAsked):
            self._asked.append(item)
        else:
            yield self._result(item)

    def _text(self, item: Text) -> Generator[NativeEvent]:
        is_text = item.kind == "text"
        if self._of != (item.kind, item.part):
            yield from self._close()
            self._of = (item.kind, item.part)
            self._index += 1
            self._part = TextPart("") if is_text else ThinkingPart("")
            yield PartStartEvent(index=self._index, part=self._part)
        delta = TextPartDelta(item.text) if is_text else ThinkingPartDelta(content_delta=item.text)
        if self._part is not None:
            self._part.content += item.text
        yield PartDeltaEvent(index=self._index, delta=delta)

    def _close(self) -> Generator[NativeEvent]:
        if self._part is not None:
            yield PartEndEvent(index=self._index, part=self._part)
            self._said = self._part.content
        self._part = self._of = None

    def _call(self, part: ToolCallPart) -> Generator[NativeEvent]:
        self._index += 1
        yield PartStartEvent(index=self._index, part=part)
        yield PartEndEvent(index=self._index, part=part)
        self._called.append(part)

    def _announce(self) -> Generator[NativeEvent]:
        called, self._called = self._called, []
        for part in called:
            yield FunctionToolCallEvent(part, args_valid=True)

    def _result(self, stop: Stop) -> NativeEvent:
        if stop.status == "failed":
            raise RunFailed(f"{stop.message} ({stop.code})")
        if stop.status == "cancelled":
            raise RunCancelled(stop.message)
        output: Any = self._said
        if stop.status == "waiting":
            calls = [(request, use) for request in self._asked for use in request.uses]
            output = DeferredToolRequests(
                approvals=[_part(use) for _, use in calls],
                metadata={use.id: {"approval": request.data["id"], **request.data} for request, use in calls},
            )
        answer = ModelResponse(parts=[TextPart(self._said)], finish_reason="stop")
        return AgentRunResultEvent(_RESULT.validate_python({"output": output, "messages": [answer]}))


def _part(use: ToolUse) -> ToolCallPart:
    return ToolCallPart(use.tool, use.arguments, use.id)
