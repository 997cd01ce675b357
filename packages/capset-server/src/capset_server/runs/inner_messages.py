"""The messages of agents that run within a call, in the format of the runner of agents (pydantic-ai), as steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from pydantic_core import from_json

from capset.stores.base import EventStore
from capset.wire.pages import PAGE_BYTES
from capset.wire.traces import ModelCallShape


class InnerMessage(NamedTuple):
    """A message of an agent within a call: the call and the agent, when it was stored, and the message."""

    within: str
    at: str
    message: Mapping[str, Any]


@dataclass(slots=True)
class InnerCall:
    """A call that an agent within a call asked for, and its result, once there is one."""

    id: str
    tool: str
    arguments: Any
    result: Any = None


@dataclass(slots=True)
class InnerStep:
    """A step of an agent within a call."""

    started_at: str
    ended_at: str
    model: ModelCallShape
    text: str = ""
    reasoning: str = ""
    calls: list[InnerCall] = field(default_factory=list[InnerCall])


async def inner_messages(events: EventStore, session: str, turn: str) -> list[InnerMessage]:
    """Return the messages of the agents that ran within the calls of a turn, in order."""
    span = await events.span(session, turn)
    if span is None:
        return []
    after, last = span[0] - 1, span[1]
    messages: list[InnerMessage] = []
    while after < last:
        page = await events.messages(session, after=after, limit=last - after, max_bytes=PAGE_BYTES)
        if not page.items:
            break
        for row in page.items:
            if row.kind == "inner" and row.turn == turn:
                data: dict[str, Any] = from_json(row.data)
                message: object = data["message"]
                if isinstance(message, dict):
                    messages.append(InnerMessage(data["within"], row.created_at, cast("dict[str, Any]", message)))
        after = page.items[-1].seq
    return messages


def inner_steps(messages: Iterable[InnerMessage]) -> Sequence[InnerStep]:
    """Return the steps of one agent, from its messages."""
    steps: list[InnerStep] = []
    calls: dict[str, InnerCall] = {}
    idle: str | None = None
    for _, at, message in messages:
        idle = idle or at
        parts = _members(message.get("parts"))
        if message.get("kind") == "response":
            step = InnerStep(idle, at, _model_call(message))
            for part in parts:
                match part:
                    case {"part_kind": "text", "content": str(text)}:
                        step.text += text
                    case {"part_kind": "thinking", "content": str(text)}:
                        step.reasoning += text
                    case {"part_kind": "tool-call", "tool_call_id": str(id), "tool_name": str(tool)}:
                        calls[id] = InnerCall(id, tool, part.get("args"))
                        step.calls.append(calls[id])
                    case _:
                        pass
            steps.append(step)
        else:
            for part in parts:
                match part:
                    case {"part_kind": "tool-return" | "retry-prompt", "tool_call_id": str(id)} if id in calls:
                        calls[id].result = part.get("content")
                    case _:
                        pass
        idle = at
    return steps


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
