"""``tools/call``: into the session by its door, and out again with what came of it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from anyio import CancelScope
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams, CallToolResult

from capset.definitions.messages import Json, Message
from capset.kernel.streams.messages import Messages
from capset.server.mcp.answers import APPROVAL, answer
from capset.server.mcp.exchanges import Exchange
from capset.wire.messages import progress_of

Report = Callable[[float, float | None, str | None], Awaitable[None]]
"""Sends one progress notification: progress, total, message."""


async def call_tool(exchange: Exchange, params: CallToolRequestParams, report: Report) -> CallToolResult:
    """Call a tool, and report its progress on the way. One that has to be approved is refused, to be made again."""
    session = exchange.session.options(approvals="defer", approval=_approval(params))
    reply: Message | None = None
    told = -1.0
    asked = session.message(params.name, _arguments(params), correlation=exchange.correlation)
    async with _to_its_end(session.invoke(asked)) as messages:
        exchange.notes.update(tool=messages.tool, record=messages.record)
        async for message in messages:
            # MCP has no word for other events than progress, which must increase with each notification.
            if (said := progress_of(message)) is not None and said.fraction > told:
                told = said.fraction
                await report(told, 1.0, said.message)
            elif message.kind == "reply":
                reply = message
        return await answer(session, messages, reply)


@asynccontextmanager
async def _to_its_end(messages: Messages) -> AsyncGenerator[Messages]:
    """Start a call, and wait for its cleanup and its record even where the request was cancelled.

    The SDK cancels by anyio's scopes, which cancel every further wait too, unless it is shielded.
    """
    await messages.__aenter__()
    try:
        yield messages
    finally:
        with CancelScope(shield=True):
            await messages.__aexit__(None, None, None)


def _approval(params: CallToolRequestParams) -> str | None:
    """Return the id of the request that the client says was approved; whether it was, only the desk knows (G17)."""
    given = (params.meta or {}).get(APPROVAL)
    if given is not None and not isinstance(given, str):
        raise MCPError(INVALID_PARAMS, f"_meta: {APPROVAL} is the id of a request for an approval, a text")
    return given


def _arguments(params: CallToolRequestParams) -> Json:
    """Return the arguments as the JSON text that they arrived as, near enough: the session's door validates it.

    Python's writer spells NaN and lone surrogates so that they are refused there, and put on record.
    """
    try:
        return Json(json.dumps(params.arguments or {}).encode())
    except RecursionError:
        return Json(b"[" * 1000)
