"""The protocol side of MCP: the SDK's server, with capset's handlers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any, TypeAlias, cast

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import REQUEST_CANCELLED
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
)
from pydantic import ValidationError

from capset.errors import CapsetError
from capset.server.mcp.calls import call_tool
from capset.server.mcp.exchanges import Exchange
from capset.server.mcp.spans import trace_messages
from capset.server.mcp.tools import list_tools

McpServer: TypeAlias = Server[dict[str, Any]]
"""The SDK's server; the value of its lifespan is not used."""
Asked: TypeAlias = ServerRequestContext[dict[str, Any], Any]
"""One request to it; its transport's own request can be anything, and is not used either."""

_WELCOMES = ("initialize", "server/discover")
_log = logging.getLogger("capset.mcp")


def make_server(exchange: Callable[[], Exchange]) -> McpServer:
    """Return a server that answers from the session of ``exchange()``, over any transport."""

    async def on_list(asked: Asked, params: PaginatedRequestParams | None) -> ListToolsResult:
        if params is not None and params.cursor is not None:
            raise MCPError(INVALID_PARAMS, "There is one page of tools: leave the cursor out")
        return list_tools(await exchange().session.current())

    async def on_call(asked: Asked, params: CallToolRequestParams) -> CallToolResult:
        if params.input_responses is None and "input_responses" in params.model_fields_set:
            # The SDK treats null as absent here.
            raise MCPError(INVALID_PARAMS, "inputResponses must be an object: leave it out where there are none")
        here = exchange()
        with here.calling(asked.request_id):
            return await call_tool(here, params, asked.session.report_progress)
        raise MCPError(REQUEST_CANCELLED, "Request cancelled")

    def input_schema(name: str) -> Mapping[str, Any] | None:
        found = exchange().session.snapshot.tools.get(name)
        return found.tool.arguments.json_schema if found else None

    async def welcome(ctx: Asked, call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method not in _WELCOMES:
            return result
        text = await exchange().session.system_text()
        return cast("dict[str, Any]", result) | ({"instructions": text} if text else {})

    server: McpServer = Server(
        "capset",
        version=version("capset"),
        on_list_tools=on_list,
        on_call_tool=on_call,
        # Without it, the SDK would list every tool before each call.
        get_tool_input_schema=input_schema,
    )
    trace_messages(server, lambda: exchange().session)
    server.middleware.append(_contain)
    server.middleware.append(welcome)
    return server


async def _contain(ctx: Asked, call_next: CallNext) -> HandlerResult:
    """Let protocol errors through and hide unexpected ones: the SDK's older transport would send their text."""
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except CapsetError as error:  # its message is meant for clients
        raise MCPError(INTERNAL_ERROR, error.message) from None
    except Exception:
        _log.exception("the request %r failed", ctx.method)
        raise MCPError(INTERNAL_ERROR, "Internal error; the log has the details") from None
