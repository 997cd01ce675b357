"""Providers' endpoints that follow a script, and loops on the SDKs that ask them, with the tools of a session."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import anthropic
import httpx2
import openai

from capset_connect.interop.exports import ToolFormat
from capset_frameworks.tool_json import ToolJson
from tests.helpers.frameworks.driver import Call, Shown

MadeCall = tuple[str, str, str | dict[str, Any]]
"""A call with its id."""


class Loop(ABC):
    """A loop as people write it, on one API of an SDK. Its model makes these calls, one list a step, then says "done".

    ``asked`` are the requests that arrived, and ``history`` is what the next one sends.
    """

    format: ClassVar[ToolFormat]
    client: ClassVar[Any] = openai.AsyncOpenAI
    """The SDK's class."""

    def __init__(self, *steps: Sequence[Call], words: str = "done") -> None:
        self._steps = steps
        self._words = words
        self.asked: list[dict[str, Any]] = []
        self.history: list[Any] = [{"role": "user", "content": "go"}]
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self.reply))
        self._client = self.client(api_key="k", base_url="http://127.0.0.1", http_client=http)

    def reply(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request as the endpoint does."""
        self.asked.append(json.loads(request.content))
        step = len(self.asked)
        if step > len(self._steps):
            return httpx2.Response(200, json=self.body([], self._words))
        calls = [(f"call-{step}-{at}", *call) for at, call in enumerate(self._steps[step - 1], 1)]
        return httpx2.Response(200, json=self.body(calls, None))

    @abstractmethod
    def body(self, calls: Sequence[MadeCall], words: str | None) -> dict[str, Any]:
        """Return a response of the endpoint."""

    @abstractmethod
    async def ask(self, tools: ToolJson) -> Any:
        """Ask the model for its next step, by the SDK, and return the response."""

    @abstractmethod
    def keep(self, response: Any) -> str | None:
        """Add a response to the history, and return its words."""

    @abstractmethod
    def shown(self) -> list[Shown]:
        """Return what each request showed the model."""

    @abstractmethod
    def results(self) -> list[tuple[str, bool | None]]:
        """Return the texts of the results in the history, and whether they are marked as failed, if they can be."""


class ResponsesLoop(Loop):
    format = "openai"

    def body(self, calls: Sequence[MadeCall], words: str | None) -> dict[str, Any]:
        output: list[dict[str, Any]] = [
            {"type": "function_call", "id": f"fc-{call}", "call_id": call, "name": name, "arguments": _text(arguments)}
            for call, name, arguments in calls
        ]
        if words is not None:
            content = [{"type": "output_text", "text": words, "annotations": []}]
            output = [{"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}]
        fields = {"id": "r", "object": "response", "created_at": 0, "model": "m", "status": "completed"}
        return {**fields, "output": output, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}

    async def ask(self, tools: ToolJson) -> Any:
        return await self._client.responses.create(
            model="m",
            instructions=await tools.system_text(),
            input=self.history,
            tools=await tools.definitions(),
        )

    def keep(self, response: Any) -> str | None:
        self.history += response.output
        return response.output_text or None

    def shown(self) -> list[Shown]:
        return [
            Shown(request["instructions"], {tool["name"]: tool["parameters"] for tool in request["tools"]})
            for request in self.asked
        ]

    def results(self) -> list[tuple[str, bool | None]]:
        dicts = (entry for entry in self.history if isinstance(entry, dict))
        return [(entry["output"], None) for entry in dicts if entry.get("type") == "function_call_output"]


class ChatLoop(Loop):
    format = "openai-chat"

    def body(self, calls: Sequence[MadeCall], words: str | None) -> dict[str, Any]:
        tool_calls = [
            {"id": call, "type": "function", "function": {"name": name, "arguments": _text(arguments)}}
            for call, name, arguments in calls
        ]
        message = {"role": "assistant", "content": words, **({"tool_calls": tool_calls} if tool_calls else {})}
        choice = {"index": 0, "finish_reason": "tool_calls" if tool_calls else "stop", "message": message}
        return {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}

    async def ask(self, tools: ToolJson) -> Any:
        system = {"role": "system", "content": await tools.system_text()}
        return await self._client.chat.completions.create(
            model="m", messages=[system, *self.history], tools=await tools.definitions()
        )

    def keep(self, response: Any) -> str | None:
        message = response.choices[0].message
        self.history.append(message)
        return message.content

    def shown(self) -> list[Shown]:
        return [
            Shown(
                request["messages"][0]["content"],
                {tool["function"]["name"]: tool["function"]["parameters"] for tool in request["tools"]},
            )
            for request in self.asked
        ]

    def results(self) -> list[tuple[str, bool | None]]:
        dicts = (entry for entry in self.history if isinstance(entry, dict))
        return [(entry["content"], None) for entry in dicts if entry["role"] == "tool"]


class MessagesLoop(Loop):
    format = "anthropic"
    client = anthropic.AsyncAnthropic

    def body(self, calls: Sequence[MadeCall], words: str | None) -> dict[str, Any]:
        content: list[dict[str, Any]] = [
            {"type": "tool_use", "id": call, "name": name, "input": arguments} for call, name, arguments in calls
        ]
        if words is not None:
            content = [{"type": "text", "text": words}]
        fields = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
        usage = {"input_tokens": 1, "output_tokens": 1}
        return {**fields, "content": content, "stop_reason": "tool_use" if calls else "end_turn", "usage": usage}

    async def ask(self, tools: ToolJson) -> Any:
        return await self._client.messages.create(
            model="m",
            max_tokens=100,
            system=await tools.system_text(),
            messages=self.history,
            tools=await tools.definitions(),
        )

    def keep(self, response: Any) -> str | None:
        self.history.append({"role": "assistant", "content": response.content})
        return "".join(part.text for part in response.content if part.type == "text") or None

    def shown(self) -> list[Shown]:
        return [
            Shown(request["system"], {tool["name"]: tool["input_schema"] for tool in request["tools"]})
            for request in self.asked
        ]

    def results(self) -> list[tuple[str, bool | None]]:
        parts = (
            entry["content"] for entry in self.history if entry["role"] == "user" and isinstance(entry["content"], list)
        )
        return [(block["content"], block.get("is_error", False)) for part in parts for block in part]


def _text(arguments: str | dict[str, Any]) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
