"""Calls of tools for the MCP requests ``tools/call``, ``prompts/get`` and ``resources/read``."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from anyio import CancelScope
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY, InputRequiredResult

from capset.definitions.calls.clients import CallClient
from capset.definitions.calls.messages import Json, Message
from capset.errors import CapsetError, ClientCapabilityMissing, ClientInputRequired, StoreError
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.kernel.call.session import Session
from capset.kernel.results import Result
from capset.kernel.streams.messages import Messages
from capset.wire.calls import progress_of
from capset.wire.errors import error_shape
from capset_server.mcp.exchanges import Exchange
from capset_server.mcp.questions import McpClient

PREFIX: Final = "dev.capset/"
"""The prefix of capset's ``_meta`` keys."""
_log = logging.getLogger("capset.mcp")
Report = Callable[[float, float | None, str | None], Awaitable[None]]
"""A function that sends one progress notification: progress, total, message."""


class Ended(NamedTuple):
    """A call that has ended: its session, its messages, and its reply, if any."""

    session: Session
    messages: Messages
    reply: Message | None

    @property
    def error(self) -> CapsetError | None:
        """The error with which the call ended, if any."""
        return self.messages.result.error


async def run(
    exchange: Exchange,
    tool: str,
    arguments: Mapping[str, Any],  # JSON data, not validated yet
    report: Report,
    client: CallClient | None,
    *,
    approval: str | None = None,
) -> Ended:
    """Call a tool, report its progress, and return the call once it has ended.

    A call that needs an approval is refused; it can be repeated later.
    """
    session = exchange.session.options(approvals="defer", approval=approval, client=client)
    reply: Message | None = None
    reported = -1.0
    call_message = session.message(tool, _json(arguments), correlation=exchange.correlation)
    async with _to_its_end(session.invoke(call_message)) as messages:
        exchange.notes.update(tool=messages.tool, record=messages.record)
        async for message in messages:
            # Progress is the only event that MCP knows, and it must increase with each notification.
            if (progress := progress_of(message)) is not None and progress.fraction > reported:
                reported = progress.fraction
                await report(reported, 1.0, progress.message)
            elif message.kind == "reply":
                reply = message
        return Ended(session, messages, reply)


def hashes(origin: Snapshot | Result[Any]) -> dict[str, Any]:  # the values of a _meta object may be any JSON
    """Return the runtime and prompt hashes of a snapshot or result, for ``_meta``."""
    return {f"{PREFIX}runtime_hash": origin.runtime_hash, f"{PREFIX}prompt_hash": origin.prompt_hash}


def meta_of(ended: Ended) -> dict[str, Any]:  # as above
    """Return the ``_meta`` for the result of a call."""
    messages = ended.messages
    return {
        f"{PREFIX}record": messages.record,
        f"{PREFIX}correlation": messages.correlation,
        f"{PREFIX}untrusted": True,
        **hashes(messages.result),
    }


def question_in(ended: Ended, client: McpClient | None) -> InputRequiredResult | None:
    """Return the result of a call that asks its client something, or ``None``.

    Raises ``MCPError`` if the call needs a capability that the client has not declared, and the revision has an error
    for that; in older revisions it is an ordinary result of the call.
    """
    error = ended.error
    if client is None:
        return None
    if isinstance(error, ClientInputRequired) and client.pending is not None:
        return client.required(meta_of(ended))
    if isinstance(error, ClientCapabilityMissing) and client.is_modern:
        data = {"requiredCapabilities": error.required}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, error.message, data)
    return None


def data_of(ended: Ended) -> Any:  # JSON data
    """Return the data of a call's reply. Raises ``MCPError`` if the call was refused or has failed."""
    if (error := ended.error) is not None:
        code = INVALID_PARAMS if error.status < 500 else INTERNAL_ERROR
        raise MCPError(code, error_text(error), {f"{PREFIX}error": error_shape(error).plain()})
    return None if ended.reply is None else ended.reply.data


def error_text(error: CapsetError) -> str:
    """Return the text of an error for a model: the message, the fields, and suggestions."""
    # The kernel's own messages already name the fields.
    return "\n".join([error.message, *(f"- {field}" for field in error.fields if str(field) not in error.message)])


def public_text(error: CapsetError, method: str) -> str:
    """Return the message of an error outside of any call; details of the store are only logged."""
    if not isinstance(error, StoreError):
        return error.message
    _log.error("the store failed for %r: %s", method, error.message)
    return error.public


@asynccontextmanager
async def _to_its_end(messages: Messages) -> AsyncGenerator[Messages]:
    """Run a call, and wait for its cleanup and its record even if the request is cancelled.

    The SDK cancels through anyio's scopes, which also cancel every later wait that is not shielded.
    """
    await messages.__aenter__()
    try:
        yield messages
    finally:
        with CancelScope(shield=True):
            await messages.__aexit__(None, None, None)


def _json(arguments: Mapping[str, Any]) -> Json:  # JSON data
    """Return the arguments as JSON text, close to what arrived; the session validates it.

    Python's encoder writes NaN and lone surrogates in a form that the session refuses and records.
    """
    try:
        return Json(_utf8(arguments))
    except RecursionError:
        return Json(b"[" * 1000)


def _utf8(arguments: Mapping[str, Any]) -> bytes:  # JSON data
    try:
        return json.dumps(arguments, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(arguments).encode()
