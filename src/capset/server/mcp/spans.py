"""The span of one MCP message, by OpenTelemetry's conventions for MCP servers (spec 5, P13).

The SDK's own span, which it adds to every server, is removed: it is named after any tool that a client asks for, it
says ``execute_tool`` as the call's own span does, and it goes to the process's provider instead of the kernel's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult
from opentelemetry.trace import Span, SpanKind, StatusCode, use_span
from pydantic import ValidationError

from capset.kernel.call.session import Session
from capset.kernel.telemetry import conventions as names
from capset.kernel.telemetry.tracing import parent_of, tracing_of

Asked = ServerRequestContext[dict[str, Any], Any]  # its transport's own request can be anything

_KNOWN: Final = frozenset(
    {
        *("initialize", "server/discover", "ping", "tools/list", "tools/call"),
        *("notifications/initialized", "notifications/cancelled", "notifications/progress"),
    }
)
_OTHER: Final = "_OTHER"
_SDKS_OWN: Final = "OpenTelemetryMiddleware"
_MAX_ID: Final = 100
"""The maximum length of a request's id, which the client chooses."""


def trace_messages(server: Server[dict[str, Any]], session: Callable[[], Session]) -> None:
    """Give every message a span in place of the SDK's, if the calls of ``session()`` are traced."""
    server.middleware[:] = [one for one in server.middleware if type(one).__name__ != _SDKS_OWN]
    server.middleware.append(_Traced(session))


class _Traced:
    def __init__(self, session: Callable[[], Session]) -> None:
        self._session = session

    async def __call__(self, ctx: Asked, call_next: CallNext) -> HandlerResult:
        session = self._session()
        tracing = tracing_of(session.observers)
        if tracing is None:
            return await call_next(ctx)
        method = ctx.method if ctx.method in _KNOWN else _OTHER
        tool = _tool_of(ctx, session)
        given = (ctx.meta or {}).get("traceparent")
        around, links = parent_of(given if isinstance(given, str) else None)
        span = tracing.tracer.start_span(
            f"{method} {tool}" if tool else method, around, SpanKind.SERVER, _attributes(ctx, method, tool), links
        )
        with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                result = await call_next(ctx)
            except BaseException as error:
                _failed(span, error)
                raise
            match result:
                case CallToolResult(is_error=True) | {"isError": True}:
                    span.set_attribute(names.ERROR_TYPE, "tool_error")
                    span.set_status(StatusCode.ERROR)
                case _:
                    pass
            return result


def _tool_of(ctx: Asked, session: Session) -> str | None:
    """Return the name of the tool that a message calls, if that tool is known here."""
    asked = (ctx.params or {}).get("name") if ctx.method == "tools/call" else None
    return asked if isinstance(asked, str) and asked in session.snapshot.tools else None


def _attributes(ctx: Asked, method: str, tool: str | None) -> dict[str, str]:
    found = {names.MCP_METHOD: method, names.MCP_VERSION: ctx.protocol_version}
    if ctx.request_id is not None:
        found[names.JSONRPC_ID] = str(ctx.request_id)[:_MAX_ID].encode(errors="replace").decode()
    if tool is not None:
        found[names.TOOL_NAME] = tool
    return found


def _failed(span: Span, error: BaseException) -> None:
    """Mark a message as failed, with its code only; the error's text may contain the caller's data."""
    if isinstance(error, MCPError | ValidationError):
        code = str(error.error.code if isinstance(error, MCPError) else INVALID_PARAMS)
        span.set_attributes({names.ERROR_TYPE: code, names.RPC_STATUS: code})
    else:
        span.set_attribute(names.ERROR_TYPE, type(error).__name__)
    span.set_status(StatusCode.ERROR)
