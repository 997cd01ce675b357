"""Errors of connections to MCP servers, as callers see them."""

from __future__ import annotations

import asyncio
import sys
from typing import Final, cast

import httpx2
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED

from capset.errors import CapsetError, ToolError, TransientError
from capset_connect.mcp.server import McpServer
from capset_connect.pins.offers import shown

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0


class NotListed(Exception):
    """Raised for a request on a connection that has not listed its tools, or whose session is over.

    The server has not started the request.
    """


def pause_after(failures: int) -> float:
    """Return the seconds to wait after a number of consecutive failures. The wait doubles with each failure."""
    return 0.0 if failures < 1 else min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(failures - 1, 10))


def late(server: McpServer) -> TransientError:
    """Return the error for a response that timed out."""
    seconds = f"{server.longest:g} s"
    if server.max_timeout is not None:
        seconds += f", or reported no progress for {server.timeout:g} s"
    error = TransientError(f"The MCP server {server.name!r} did not answer within {seconds}.", code="timeout")
    error.answer_lost = True
    return error


def was_closed(error: BaseException) -> bool:
    """Return whether an error of the SDK means that the server closed the connection before it responded."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(was_closed, cast("BaseExceptionGroup[BaseException]", error).exceptions))
    return isinstance(error, MCPError) and error.error.code == CONNECTION_CLOSED


def unreachable(server: McpServer, why: str) -> TransientError:
    """Return the error for a connection that cannot be opened, or broke."""
    why = why.removesuffix(".")
    return TransientError(f"The MCP server {server.name!r} cannot be reached: {why}.", code="unreachable")


def unknown_outcome(server: McpServer, why: str) -> TransientError:
    """Return the error for a call that was interrupted; ``why`` may be empty."""
    why = why.removesuffix(".") or "the connection broke off"
    error = unreachable(server, f"{why}; the outcome of the call is unknown")
    error.answer_lost = True
    return error


def unreadable(server: McpServer) -> ToolError:
    """Return the error for an unreadable response. It is not retryable, because the call may have had its effect."""
    error = ToolError(
        f"The MCP server {server.name!r} sent an unreadable response; the outcome of the call is unknown.",
        code="bad_answer",
        status=502,
    )
    error.answer_lost = True
    return error


def cause_of(server: McpServer, error: BaseException, why: str) -> CapsetError:
    """Convert an error for callers, preferring capset's errors in a group. ``why`` a connection broke may be empty."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        causes = [cause_of(server, inner, why) for inner in group.exceptions]
        return next((cause for cause in causes if not isinstance(cause, TransientError)), causes[0])
    if isinstance(error, CapsetError):
        return error
    if isinstance(error, asyncio.CancelledError):
        return CapsetError(f"the connection to the MCP server {server.name!r} is closed")
    if isinstance(error, TimeoutError):
        return unreachable(server, f"it did not answer within {server.start_timeout:g} s")
    if isinstance(error, MCPError):
        return unreachable(server, why or error.error.message)
    if isinstance(error, httpx2.HTTPError):
        return unreachable(server, str(error) or type(error).__name__)
    if _is_of_oauth(error):
        return unreachable(server, f"its authorization failed: {shown(str(error))}")
    return unreachable(server, type(error).__name__)


def _is_of_oauth(error: BaseException) -> bool:
    """Return whether an error comes from the SDK's OAuth module, without importing it, because that takes long."""
    module = sys.modules.get("mcp.client.auth")
    return module is not None and isinstance(error, module.OAuthFlowError)
