"""An agent of the Claude Agent SDK with governed tools, and a script in the place of Claude: no key, no network."""

import asyncio
import json
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, ToolResultBlock, UserMessage
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from capset import Agent, Decision, Kernel, Principal, allow, ask, policy, tool
from capset import Request as CallRequest
from capset.definitions.governance.approvals import Answer
from capset_frameworks.claude_agent import CapsetClient


@policy
async def large_sums(request: CallRequest) -> Decision:
    """Ask for an approval of every sum above 100."""
    return ask("more than 100") if request.arguments and request.arguments["sum"] > 100 else allow()


@tool(effect="external", policies=[large_sums])
async def pay(sum: int) -> str:
    """Pay a sum."""
    return f"paid {sum}"


async def answer(request: Request) -> Response:
    """Answer as Claude would: with two calls, and a word once the results are there."""
    body = await request.json()
    blocks: Sequence[tuple[dict[str, Any], dict[str, Any]]]
    if any(turn["role"] == "assistant" for turn in body["messages"]):
        blocks, reason = [({"type": "text", "text": ""}, {"type": "text_delta", "text": "Both are paid."})], "end_turn"
    else:
        blocks, reason = [call(7, "a"), call(500, "b")], "tool_use"
    message: dict[str, Any] = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [],
    }
    usage = {"input_tokens": 1, "output_tokens": 1}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {**message, "usage": usage}}]
    for index, (block, delta) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage})
    events.append({"type": "message_stop"})
    lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return Response("".join(lines), media_type="text/event-stream")


def call(sum: int, id: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Have the script call ``pay``."""
    block: dict[str, Any] = {"type": "tool_use", "id": id, "name": "mcp__capset__pay", "input": {}}
    return block, {"type": "input_json_delta", "partial_json": json.dumps({"sum": sum})}


async def follow(client: CapsetClient) -> ResultMessage:
    """Print the results that the model reads, and return how the run ended."""
    async for message in client.receive_response():
        if isinstance(message, UserMessage) and isinstance(message.content, list):
            for block in message.content:
                if isinstance(block, ToolResultBlock):
                    print("the model read:", block.content)
        if isinstance(message, ResultMessage):
            return message
    raise RuntimeError("Claude Code ended without a result")


async def main() -> None:
    api = Starlette(routes=[Route("/v1/messages", answer, methods=["POST"])])
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(api, log_level="error", lifespan="off"))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    # With a real key, none of these stand in the environment.
    offline = {
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{listening.getsockname()[1]}",
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CONFIG_DIR": str(Path.cwd() / "claude"),
    }
    options = ClaudeAgentOptions(model="claude-sonnet-5", tools=[], setting_sources=[], env=offline)
    clerk = Agent("clerk", system_prompt="Pay only what was ordered.", tools=[pay])
    async with Kernel(store="sqlite:///capset.db") as kernel, kernel.open(clerk, principal=Principal("ada")) as session:
        async with CapsetClient(session, options, defers=True) as client:
            await client.query("Pay 7 for the paper and 500 for the desk.")
            deferred = await follow(client)
            assert deferred.deferred_tool_use is not None
            print("somebody has to approve", deferred.deferred_tool_use.name, deferred.deferred_tool_use.input)
            request = client.approval_of(deferred.deferred_tool_use.id)
            assert request is not None
            await kernel.approvals.decide(request, Answer(approved=True), by=Principal("boss"))
            options = replace(options, resume=deferred.session_id)
        async with CapsetClient(session, options, defers=True) as client:
            print((await follow(client)).result)
        print("chain holds:", (await kernel.audit.verify()).ok)
    server.should_exit = True
    await serving


asyncio.run(main())
