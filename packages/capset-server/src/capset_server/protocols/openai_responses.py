"""A turn as a response of OpenAI's Responses API, whole or as a stream of events.

Calls of the agent's tools are ``mcp_call`` items, since the server makes them. A turn that waits for approvals is a
completed response with an ``mcp_approval_request`` item for each, as OpenAI's own servers answer for MCP tools. The
part of the turn after the decision is another response.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pydantic_core import to_json

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

SERVER: Final = "capset"
"""The ``server_label`` of items: this server calls the agent's tools."""
_STATUS: Final = {"completed": "completed", "waiting": "completed", "failed": "failed", "cancelled": "failed"}

Event: TypeAlias = tuple[str, dict[str, Any]]
"""The type of an event, and its JSON data."""


@dataclass(slots=True)
class ResponseBuilder:
    """Builds one response from the items of a turn. ``created`` is in seconds since 1970."""

    id: str
    model: str
    created: int
    previous: str | None = None
    background: bool = False
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    output: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    status: str = "in_progress"
    error: dict[str, str] | None = None
    _used: StepUsage = field(default_factory=StepUsage)
    _open: tuple[str, tuple[int, int]] | None = None
    """The kind and the part of the text that is being streamed."""
    _step: int = 0
    """The number of items before the current step."""

    @property
    def response(self) -> dict[str, Any]:
        """The current state of the response, as JSON data."""
        used = self._used
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": self.status,
            "background": self.background,
            "error": self.error,
            "incomplete_details": None,
            "instructions": None,
            "max_output_tokens": None,
            "metadata": self.metadata,
            "model": self.model,
            "output": self.output,
            "parallel_tool_calls": True,
            "previous_response_id": self.previous,
            "reasoning": {"effort": None, "summary": None},
            "store": True,
            "temperature": None,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "truncation": "disabled",
            "usage": {
                "input_tokens": used.input_tokens,
                "input_tokens_details": {
                    "cached_tokens": used.cache_read_tokens,
                    "cache_write_tokens": used.cache_write_tokens,
                },
                "output_tokens": used.output_tokens,
                "output_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
                "total_tokens": used.input_tokens + used.output_tokens,
            },
            "user": None,
        }

    def begin(self) -> Generator[Event]:
        """Yield the first events of a response."""
        for name in ("response.created", "response.in_progress"):
            yield name, {"response": self.response}

    def add(self, item: Item) -> Generator[Event]:
        """Add an item, and yield its events."""
        if isinstance(item, Text):
            yield from self._text(item)
            return
        if isinstance(item, ToolProgress):
            return  # the API has no event for the progress of a call
        if isinstance(item, TextDiscarded):
            yield from self._discard()
            return
        yield from self._close()
        if isinstance(item, ToolUse):
            if item.success is not None:
                yield from self._call(item)
        elif isinstance(item, ApprovalAsked):
            yield from self._whole(
                {
                    "type": "mcp_approval_request",
                    "id": item.data["id"],
                    "server_label": SERVER,
                    "name": item.data["tool"],
                    "arguments": to_json(item.data["arguments"]).decode(),
                }
            )
        elif isinstance(item, StepUsage):
            self._used += item
            self._step = len(self.output)
        else:
            self._stop(item)
            yield f"response.{self.status}", {"response": self.response}

    def _stop(self, item: Stop) -> None:
        self.status = _STATUS[item.status]
        if self.status == "failed":
            # The API has few error codes, and none for errors of agents.
            self.error = {"code": "server_error", "message": f"{item.message} ({item.code})"}

    def _text(self, item: Text) -> Generator[Event]:
        if self._open != (item.kind, item.part):
            yield from self._close()
            self._open = (item.kind, item.part)
            place, added = len(self.output), self._message() if item.kind == "text" else self._reasoning()
            self.output.append(added)
            yield "response.output_item.added", {"output_index": place, "item": {**added, "content": []}}
            common = {"item_id": added["id"], "output_index": place, "content_index": 0}
            yield "response.content_part.added", {**common, "part": added["content"][0]}
        part = self.output[-1]["content"][0]
        part["text"] += item.text
        yield f"response.{part['type']}.delta", {**self._at(), "delta": item.text, **_probabilities(part)}

    def _message(self) -> dict[str, Any]:
        part: dict[str, Any] = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        message_id = f"msg_{self.id}_{len(self.output)}"
        return {"type": "message", "id": message_id, "role": "assistant", "status": "in_progress", "content": [part]}

    def _reasoning(self) -> dict[str, Any]:
        part = {"type": "reasoning_text", "text": ""}
        reasoning_id = f"rs_{self.id}_{len(self.output)}"
        return {"type": "reasoning", "id": reasoning_id, "summary": [], "status": "in_progress", "content": [part]}

    def _at(self) -> dict[str, Any]:
        place = len(self.output) - 1
        return {"item_id": self.output[place]["id"], "output_index": place, "content_index": 0}

    def _close(self, status: str = "completed") -> Generator[Event]:
        if self._open is None:
            return
        self._open = None
        last, at = self.output[-1], self._at()
        last["status"], part = status, last["content"][0]
        yield f"response.{part['type']}.done", {**at, "text": part["text"], **_probabilities(part)}
        yield "response.content_part.done", {**at, "part": part}
        yield "response.output_item.done", {"output_index": at["output_index"], "item": last}

    def _discard(self) -> Generator[Event]:
        """Discard the texts of the current step: their items become incomplete and empty.

        The items stay, since events refer to items by their index.
        """
        yield from self._close("incomplete")
        for item in self.output[self._step :]:
            if item["type"] in ("message", "reasoning"):
                item["status"], item["content"] = "incomplete", []

    def _call(self, use: ToolUse) -> Generator[Event]:
        """Yield the events of a call that has its result; it may have been requested in an earlier response."""
        output = use.output if isinstance(use.output, str) else to_json(use.output).decode()
        item = {
            "type": "mcp_call",
            "id": use.id,
            "server_label": SERVER,
            "name": use.tool,
            "arguments": use.arguments,
            "approval_request_id": use.approval,
            "status": "completed" if use.success else "failed",
            "output": output if use.success else None,
            "error": None if use.success else {"type": "mcp_tool_execution_error", "content": [_text_content(output)]},
        }
        at = {"item_id": use.id, "output_index": len(self.output)}
        began = {**item, "status": "in_progress", "output": None, "error": None}
        yield "response.output_item.added", {"output_index": at["output_index"], "item": began}
        yield "response.mcp_call.in_progress", at
        yield "response.mcp_call_arguments.done", {**at, "arguments": use.arguments}
        yield f"response.mcp_call.{item['status']}", at
        yield "response.output_item.done", {"output_index": at["output_index"], "item": item}
        self.output.append(item)

    def _whole(self, item: dict[str, Any]) -> Generator[Event]:
        place = len(self.output)
        self.output.append(item)
        yield "response.output_item.added", {"output_index": place, "item": item}
        yield "response.output_item.done", {"output_index": place, "item": item}


def _text_content(text: str) -> dict[str, str]:
    """Return a text as an MCP content block."""
    return {"type": "text", "text": text}


def _probabilities(part: dict[str, Any]) -> dict[str, Any]:
    """Return the ``logprobs`` member, which events of an answer's text have, and those of reasoning lack."""
    return {"logprobs": []} if part["type"] == "output_text" else {}
