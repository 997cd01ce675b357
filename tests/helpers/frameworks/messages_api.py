"""A stand-in for Anthropic's Messages API on this machine: a model that follows a script, and what it was sent."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.helpers.frameworks.driver import Call

Step = str | Sequence[Call]
"""The model's words, or its calls."""


@dataclass
class MessagesApi:
    """The API: a request's script is that of its prompt, and its step the number of the model's messages in it."""

    scripts: Mapping[str, Sequence[Step]]
    """The steps by the prompt; the last one is repeated."""
    prefix: str = ""
    """What stands before the names of tools."""
    requests: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    async def answer(self, request: Request) -> Response:
        """Answer one request by a stream of events."""
        payload = await request.json()
        self.requests.append(payload)
        at = sum(message["role"] == "assistant" for message in payload["messages"])
        prompt = json.dumps(payload["messages"][0])
        steps = next(steps for phrase, steps in self.scripts.items() if phrase in prompt)
        step = steps[min(at, len(steps) - 1)]
        events = [_begin(payload["model"], at)]
        for place, block in enumerate(self._blocks(step, at + 1)):
            events += _block_events(place, *block)
        events += _end("end_turn" if isinstance(step, str) else "tool_use")
        lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        return Response("".join(lines), media_type="text/event-stream")

    def _blocks(self, step: Step, number: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        if isinstance(step, str):
            return [({"type": "text", "text": ""}, {"type": "text_delta", "text": step})]
        blocks: list[tuple[dict[str, Any], dict[str, Any]]] = []
        for place, (name, arguments) in enumerate(step, 1):
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            block = {"type": "tool_use", "name": f"{self.prefix}{name}", "input": {}}
            blocks.append(
                ({**block, "id": f"call-{number}-{place}"}, {"type": "input_json_delta", "partial_json": text})
            )
        return blocks

    def environ(self, folder: Path) -> dict[str, str]:
        """Return the environment in which Claude Code asks this API, and nothing else outside of its process."""
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CONFIG_DIR": str(folder / "claude"),
            "HOME": str(folder),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            # Port 9 is that of the protocol "discard", on which nothing listens.
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1",
        }


@asynccontextmanager
async def messages_api(scripts: Mapping[str, Sequence[Step]], prefix: str = "") -> AsyncGenerator[MessagesApi]:
    """Serve the API while this is entered."""
    api = MessagesApi(scripts, prefix)
    routes = [
        Route("/v1/messages", api.answer, methods=["POST"]),
        Route("/{path:path}", _not_found, methods=["GET", "HEAD", "POST"]),
    ]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        api.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        config = uvicorn.Config(Starlette(routes=routes), log_level="warning", lifespan="off")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield api
        finally:
            server.should_exit = True
            server.force_exit = True
            await serving


async def _not_found(request: Request) -> Response:
    return JSONResponse({"type": "error", "error": {"type": "not_found_error", "message": "not here"}}, status_code=404)


def _begin(model: str, at: int) -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": f"msg_{at}", "type": "message", "role": "assistant", "model": model, "content": []}
    return {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}}


def _block_events(place: int, block: dict[str, Any], delta: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": place, "content_block": block},
        {"type": "content_block_delta", "index": place, "delta": delta},
        {"type": "content_block_stop", "index": place},
    ]


def _end(reason: str) -> list[dict[str, Any]]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}}, {"type": "message_stop"}]
