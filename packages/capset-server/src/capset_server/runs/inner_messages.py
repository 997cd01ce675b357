"""The messages of agents that run within a call, in the format of the runner of agents (pydantic-ai), as steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic_core import from_json

from capset.stores.base import EventStore
from capset.wire.pages import PAGE_BYTES
from capset.wire.traces import ModelCallShape


@dataclass(slots=True)
class StepCall:
    """A call that a model asked for, and its result, once there is one. Arguments and result are masked."""

    id: str
    tool: str
    arguments: Any  # any JSON
    result: Any = None  # any JSON
    ended_at: str | None = None
    code: str | None = None


@dataclass(slots=True)
class InnerStep:
    """A step of an agent within a call. Its texts are masked."""

    started_at: str
    ended_at: str
    model: ModelCallShape
    text: str | None
    reasoning: str | None
    calls: list[StepCall]


async def inner_steps(
    events: EventStore, session: str, turn: str, mask: Callable[[Any], Any]
) -> Mapping[str, Sequence[InnerStep]]:
    """Return the steps of the agents that ran within the calls of a turn, by the names of the call and the agent.

    ``mask`` masks and cuts texts, arguments and results as they are read.
    """
    span = await events.span(session, turn)
    if span is None:
        return {}
    after, last = span[0] - 1, span[1]
    agents: dict[str, _InnerAgent] = {}
    while after < last:
        page = await events.messages(session, after=after, limit=last - after, max_bytes=PAGE_BYTES)
        if not page.items:
            break
        for row in page.items:
            if row.kind == "inner" and row.turn == turn:
                data: dict[str, Any] = from_json(row.data)
                message: object = data["message"]
                if isinstance(message, dict):
                    agent = agents.setdefault(data["within"], _InnerAgent(mask))
                    agent.add(row.created_at, cast("dict[str, Any]", message))
        after = page.items[-1].seq
    return {place: agent.steps for place, agent in agents.items()}


class _InnerAgent:
    """The steps of one agent, while its messages are read in order."""

    def __init__(self, mask: Callable[[Any], Any]) -> None:
        self.steps: list[InnerStep] = []
        self._mask = mask
        self._calls: dict[str, StepCall] = {}
        self._idle: str | None = None
        """When its last message was stored."""

    def add(self, at: str, message: Mapping[str, Any]) -> None:
        """Add a message, and when it was stored."""
        parts = _members(message.get("parts"))
        if message.get("kind") == "response":
            self._add_response(at, message, parts)
        else:
            for part in parts:
                match part:
                    case {"part_kind": "tool-return" | "retry-prompt", "tool_call_id": str(id)} if id in self._calls:
                        self._calls[id].result = self._mask(part.get("content"))
                    case _:
                        pass
        self._idle = at

    def _add_response(self, at: str, message: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> None:
        texts: dict[str, str] = {"text": "", "thinking": ""}
        calls: list[StepCall] = []
        for part in parts:
            match part:
                case {"part_kind": "text" | "thinking" as kind, "content": str(text)}:
                    texts[kind] += text
                case {"part_kind": "tool-call", "tool_call_id": str(id), "tool_name": str(tool)}:
                    calls.append(StepCall(id, tool, self._mask(part.get("args"))))
                case _:
                    pass
        self._calls |= {call.id: call for call in calls}
        text, reasoning = self._mask(texts["text"]) or None, self._mask(texts["thinking"]) or None
        self.steps.append(InnerStep(self._idle or at, at, _model_call(message), text, reasoning, calls))


def _model_call(message: Mapping[str, Any]) -> ModelCallShape:
    usage: object = message.get("usage")
    counts: dict[str, Any] = cast("dict[str, Any]", usage) if isinstance(usage, dict) else {}
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    return ModelCallShape(
        model=message.get("model_name"),
        **{name: count for name in names if isinstance(count := counts.get(name), int)},
    )


def _members(parts: object) -> list[dict[str, Any]]:
    listed = cast("list[object]", parts) if isinstance(parts, list) else []
    return [cast("dict[str, Any]", part) for part in listed if isinstance(part, dict)]
