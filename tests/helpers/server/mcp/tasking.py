"""A client that knows the extension for tasks, in raw messages, as no SDK has it yet."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import httpx2

TASKS = "io.modelcontextprotocol/tasks"
VERSION = "2026-07-28"
_NAMED = {"tools/call": "name", "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId"}


@dataclass
class Tasker:
    """One caller at one endpoint, with what it declares."""

    url: str
    key: str
    capabilities: dict[str, Any] = field(default_factory=lambda: {"extensions": {TASKS: {}}})

    async def post(self, method: str, params: dict[str, Any], **headers: str) -> httpx2.Response:
        """Send a request."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        sent = {
            "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {self.key}",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": VERSION,
            "Mcp-Method": method,
            **({"Mcp-Name": str(params[_NAMED[method]])} if method in _NAMED else {}),
            **headers,
        }
        async with httpx2.AsyncClient(timeout=60, trust_env=False) as http:
            return await http.post(self.url, content=json.dumps(body), headers=sent)

    async def ask(self, method: str, params: dict[str, Any], **headers: str) -> dict[str, Any]:
        """Send a request, and return its result."""
        answer = data_of(await self.post(method, params, **headers))
        assert "result" in answer, answer
        return answer["result"]

    async def refused(self, method: str, params: dict[str, Any], **headers: str) -> int:
        """Send a request that is an error of the protocol, and return its code."""
        answer = data_of(await self.post(method, params, **headers))
        assert "error" in answer, answer
        return answer["error"]["code"]

    async def call(self, name: str, /, *, more: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
        """Call a tool; ``more`` are further parameters."""
        return await self.ask("tools/call", {"name": name, "arguments": arguments, **(more or {})})

    async def task(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool, and return the task that it becomes."""
        created = await self.call(name, **arguments)
        assert created["resultType"] == "task", created
        return created

    async def get(self, task: str) -> dict[str, Any]:
        """Return how a task stands."""
        return await self.ask("tasks/get", {"taskId": task})

    async def cancel(self, task: str) -> dict[str, Any]:
        """Cancel a task."""
        return await self.ask("tasks/cancel", {"taskId": task})


def data_of(response: httpx2.Response) -> dict[str, Any]:
    """Return the one message of an answer."""
    if response.headers["content-type"].startswith("text/event-stream"):
        (line,) = [text_line for text_line in response.text.splitlines() if text_line.startswith("data: ")]
        return json.loads(line.removeprefix("data: "))
    return response.json()


def text_in(task: dict[str, Any]) -> str:
    """Return the text of the result of a completed task."""
    assert task["status"] == "completed", task
    (block,) = task["result"]["content"]
    return block["text"]
