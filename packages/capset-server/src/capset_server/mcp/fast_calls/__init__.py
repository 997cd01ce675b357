"""Ordinary calls and lists of tools in revision 2026-07-28, answered without the SDK's overhead (spec 7, M16).

A request that is unusual in any way is left to the SDK, which implements every rule and error of the protocol. So this
module accepts few forms of requests, strictly; its responses are those of the SDK, byte for byte.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, cast
from weakref import WeakKeyDictionary

from mcp.server.context import HandlerResult, ServerMiddleware
from mcp.server.runner import modern_error_data
from mcp.server.streamable_http import REQUEST_CANCELLED
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    INTERNAL_ERROR,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    ClientCapabilities,
    Implementation,
    InputResponseRequestParams,
)
from mcp_types.methods import serialize_server_result
from pydantic import ValidationError
from pydantic_core import from_json, to_json
from starlette.types import Receive, Send

from capset.definitions.calls.messages import Json, Message
from capset.definitions.tools.definition import AnyTool
from capset.errors import CapsetError
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.kernel.call.invocation import MISSING
from capset.kernel.call.session import Session
from capset.kernel.results import Result
from capset.kernel.telemetry.tracing import tracing_of
from capset_server.http.bodies import PATIENCE_SECONDS, ClientLeft, DisconnectWatch
from capset_server.mcp.approvals import until_approved
from capset_server.mcp.calls import PREFIX, Ended, public_text, question_in
from capset_server.mcp.contents import gives_content
from capset_server.mcp.exchanges import CallCancelled, Exchange
from capset_server.mcp.questions import McpClient
from capset_server.mcp.results import WRAPPED, answer, is_wrapped
from capset_server.mcp.tasks import Tasks
from capset_server.mcp.tools import APPROVAL, list_tools

VERSION: Final = "2026-07-28"
METHOD: Final = "tools/call"
_LIST: Final = "tools/list"
MAX_BODY: Final = 64 * 1024
"""Longer bodies, in bytes, are left to the SDK."""
PING_SECONDS: Final = 15.0
"""A response that takes longer becomes a stream of events, with a comment at this interval, as in the SDK."""
_METHOD: Final = b"mcp-method"
_NAME: Final = b"mcp-name"
_NEWEST: Final = (b"mcp-protocol-version", VERSION.encode())
_CALLS: Final = (_METHOD, METHOD.encode())
_LISTS: Final = (_METHOD, _LIST.encode())
_INFO: Final = frozenset({"name", "version"})
_NO_ANSWERS: Final = InputResponseRequestParams()
_RECORD, _CORRELATION, _UNTRUSTED = f"{PREFIX}record", f"{PREFIX}correlation", f"{PREFIX}untrusted"
_RUNTIME, _PROMPT, _FILE = f"{PREFIX}runtime_hash", f"{PREFIX}prompt_hash", f"{PREFIX}file"
_encoder: Final = json.JSONEncoder(separators=(",", ":"))
_MEMBERS: Final = frozenset({"jsonrpc", "id", "method", "params"})
_PARAMS: Final = {METHOD: frozenset({"name", "arguments", "_meta"}), _LIST: frozenset({"_meta"})}
_META: Final = frozenset({PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, APPROVAL})
_STREAM: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
]
_log = logging.getLogger("capset.mcp")


def _encode(data: Any) -> str:  # JSON
    """Return data as JSON, as the SDK encodes it."""
    return str(data) if type(data) is int else _encoder.encode(data)


class OrdinaryCall(NamedTuple):
    """A request that calls a tool: its id, its parameters, and the tool."""

    id: int | str
    params: dict[str, Any]  # JSON
    tool: AnyTool


class OrdinaryList(NamedTuple):
    """A request that lists the tools, by its id."""

    id: int | str


def may_be_ordinary(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Return whether the headers are those of a call or list of tools in this revision."""
    return _NEWEST in headers and (_CALLS in headers or _LISTS in headers)


def read_request(
    headers: Sequence[tuple[bytes, bytes]], body: bytes, exchange: Exchange
) -> OrdinaryCall | OrdinaryList | None:
    """Parse a request that calls a tool or lists the tools; return ``None`` if it is one for the SDK."""
    if len(body) > MAX_BODY or exchange.tools is not None or tracing_of(exchange.session.observers) is not None:
        return None
    header_fields = dict(headers)
    accept = header_fields.get(b"accept", b"")
    if (
        len(header_fields) != len(headers)  # a repeated header is unusual
        or header_fields.get(b"content-type", b"").partition(b";")[0] != b"application/json"
        or b"application/json" not in accept
        or b"text/event-stream" not in accept
        or b"q=" in accept
        or b"\nmcp-param-" in b"\n".join((b"", *header_fields))
    ):
        return None
    try:
        parsed = _members(from_json(body, allow_inf_nan=False), header_fields.get(_METHOD, b"").decode())
    except ValueError:
        return None
    if parsed is None:
        return None
    number, params = parsed
    snapshot, name = exchange.session.snapshot, params.get("name")
    if name is None:
        return None if _NAME in header_fields or snapshot.composition.dynamic else OrdinaryList(number)
    installed = snapshot.tools.get(name)
    if installed is None or header_fields.get(_NAME) != name.encode() or not _is_plain(installed.tool):
        return None
    return OrdinaryCall(number, params, installed.tool)


def _members(data: Any, method: str) -> tuple[int | str, dict[str, Any]] | None:  # any JSON
    """Return the id and the parameters of a request if its form is ordinary, else ``None``."""
    if not isinstance(data, dict):
        return None
    members = cast("dict[str, Any]", data)
    if members.keys() != _MEMBERS or members["jsonrpc"] != "2.0" or members["method"] != method:
        return None
    number, params = members["id"], members["params"]
    if type(number) not in (int, str) or not isinstance(params, dict):
        return None
    parameters = cast("dict[str, Any]", params)
    meta = parameters.get("_meta")
    if not parameters.keys() <= _PARAMS[method] or not isinstance(meta, dict):
        return None
    meta_members = cast("dict[str, Any]", meta)
    is_ordinary = (
        meta_members.keys() <= _META
        and meta_members.get(PROTOCOL_VERSION_META_KEY) == VERSION
        and isinstance(meta_members.get(APPROVAL, ""), str)
        and (method == _LIST or _names_a_tool(parameters))
        and _is_client(meta_members)
    )
    return (number, parameters) if is_ordinary else None


def _names_a_tool(params: Mapping[str, Any]) -> bool:  # JSON
    name = params.get("name")
    return isinstance(name, str) and name.isascii() and isinstance(params.get("arguments", {}), dict)


def _is_client(meta: Mapping[str, Any]) -> bool:  # JSON
    """Return whether the client's capabilities and information conform to the protocol."""
    capabilities, info = meta.get(CLIENT_CAPABILITIES_META_KEY), meta.get(CLIENT_INFO_META_KEY)
    try:
        if capabilities != {}:  # most clients declare none
            ClientCapabilities.model_validate(capabilities, by_name=False)
        if CLIENT_INFO_META_KEY in meta and not _is_short(info):
            Implementation.model_validate(info, by_name=False)
    except ValidationError:
        return False
    return True


def _is_short(info: Any) -> bool:  # any JSON
    if not isinstance(info, dict):
        return False
    members = cast("dict[str, Any]", info)
    return members.keys() == _INFO and all(isinstance(text, str) for text in members.values())


_PLAIN: Final[WeakKeyDictionary[AnyTool, bool]] = WeakKeyDictionary()


def _is_plain(tool: AnyTool) -> bool:
    """Return whether a tool's results are data, and none of its arguments must be repeated in a header."""
    is_plain = _PLAIN.get(tool)
    if is_plain is None:
        _PLAIN[tool] = is_plain = not gives_content(tool) and "x-mcp-header" not in json.dumps(
            tool.arguments.json_schema
        )
    return is_plain


_WRITTEN: Final[WeakKeyDictionary[Snapshot, str]] = WeakKeyDictionary()


class FastCalls:
    """Answers ordinary calls. ``server_info`` describes the server in results; ``seal`` seals the state in them.

    ``tasks`` creates the tasks for calls that wait for an approval.
    """

    def __init__(
        self,
        server_info: Any,  # the SDK's own stamp, JSON
        seal: ServerMiddleware[dict[str, Any]],
        tasks: Tasks,
    ) -> None:
        self._server_info = server_info
        self._stamp = f'"{SERVER_INFO_META_KEY}":{_encode(server_info)}'
        self._seal = seal
        self._tasks = tasks

    async def list(self, request: OrdinaryList, exchange: Exchange, send: Send) -> None:
        """Send the tools in play, which are encoded once for each snapshot."""
        snapshot = exchange.session.snapshot
        encoded = _WRITTEN.get(snapshot)
        if encoded is None:
            listing = list_tools(snapshot, exchange).model_dump(by_alias=True, mode="json", exclude_none=True)
            result = self._stamped(serialize_server_result(_LIST, VERSION, listing))
            _WRITTEN[snapshot] = encoded = _encode(result)
        await _send_json(send, 200, _reply(request.id, "result", encoded))

    def _stamped(self, result: dict[str, Any]) -> dict[str, Any]:  # JSON
        return {**result, "_meta": {**result.get("_meta", {}), SERVER_INFO_META_KEY: self._server_info}}

    async def answer(self, call: OrdinaryCall, exchange: Exchange, receive: Receive, send: Send) -> None:
        """Make a call, and send its result; the call is cancelled if the client disconnects."""
        watch = _CallWatch(receive, send)
        try:
            with watch:
                status, body = await self._outcome(call, exchange)
        except ClientLeft:
            return
        finally:
            await watch.stop()
        await watch.end(status, body)

    async def _outcome(self, call: OrdinaryCall, exchange: Exchange) -> tuple[int, bytes]:
        try:
            result = await self._result(call, exchange)
        except Exception as error:
            error_data = modern_error_data(_contained(error))
            shape = error_data.model_dump(mode="json", by_alias=True, exclude_none=True)
            return ERROR_CODE_HTTP_STATUS.get(error_data.code, 200), _reply(call.id, "error", _encode(shape))
        return 200, _reply(call.id, "result", result)

    async def _result(self, call: OrdinaryCall, exchange: Exchange) -> str:
        """Make a call, and return its result as JSON."""
        params, meta = call.params, call.params["_meta"]
        client = McpClient(cast("Any", _CallRequest(meta, params)), _NO_ANSWERS)
        session = exchange.session.options(approvals="defer", approval=meta.get(APPROVAL), client=client)
        arguments = Json(to_json(params.get("arguments", {})))
        message = session.message(params["name"], arguments, correlation=exchange.correlation)
        exchange.notes["tool"] = params["name"]
        with exchange.running(call.id):
            result = await session.try_message(message, absent=MISSING)
        exchange.notes["record"] = result.record
        correlation = exchange.correlation or result.record
        has_data = result.error is None and result.data is not MISSING
        if has_data and result.foreign is None:
            return await self._shown(session, call.tool, result, correlation)
        reply = Message("reply", params["name"], result.data) if has_data else None
        ended = Ended(session, cast("Any", _Messages(result.record, correlation, result, call.tool)), reply)

        async def retry() -> Ended:
            return ended  # never called: an ordinary request contains no answer to a question

        waiting = await until_approved(ended, exchange, client, self._tasks, retry)
        if isinstance(waiting, dict):
            return _encode(self._stamped(waiting))
        question = question_in(ended, client) if isinstance(waiting, Ended) else waiting
        rendered = await answer(ended, exchange.approvals.page) if question is None else question
        dumped = rendered.model_dump(by_alias=True, mode="json", exclude_none=True)
        dumped = serialize_server_result(METHOD, VERSION, dumped)
        if question is not None:

            async def handler(_: object) -> HandlerResult:
                return dumped

            dumped = cast("dict[str, Any]", await self._seal(cast("Any", client.asked), handler))
        return _encode(self._stamped(dumped))

    async def _shown(self, session: Session, tool: AnyTool, result: Result[Any], correlation: str) -> str:
        """Return the result of a call that returned data, as JSON like that of ``answer`` and the SDK.

        It is assembled by hand, since the encoder takes longer than the call.
        """
        model_text, data = await session.for_model(result.record, result.data), _encode(result.data)
        file = f'"{_FILE}":{_encode(model_text.file)},' if model_text.is_cut else ""
        structure = f'{{"{WRAPPED}":{data}}}' if is_wrapped(tool) else data
        return (
            f'{{"_meta":{{"{_RECORD}":"{result.record}","{_CORRELATION}":{_encode(correlation)},"{_UNTRUSTED}":true,'
            f'"{_RUNTIME}":"{result.runtime_hash}","{_PROMPT}":"{result.prompt_hash}",{file}{self._stamp}}},'
            f'"content":[{{"text":{_encode(model_text.text)},"type":"text"}}],'
            f'"isError":false,"resultType":"complete","structuredContent":{structure}}}'
        )


def _reply(id: int | str, member: str, text: str) -> bytes:
    """Return a JSON-RPC response whose result or error is already encoded."""
    return f'{{"jsonrpc":"2.0","id":{_encode(id)},"{member}":{text}}}'.encode()


class _CallRequest(NamedTuple):
    """The parts of a request that ``McpClient`` and the seal of its questions read."""

    meta: Mapping[str, Any]
    params: Mapping[str, Any]
    protocol_version: str = VERSION
    method: str = METHOD
    session: None = None


class _Messages(NamedTuple):
    """The parts of a call that has ended that ``answer`` reads."""

    record: str
    correlation: str
    result: Result[Any]
    called: AnyTool


def _contained(error: Exception) -> Exception:
    """Return an error whose text a client may see."""
    if isinstance(error, CallCancelled):
        return MCPError(REQUEST_CANCELLED, "Request cancelled")
    if isinstance(error, MCPError | ValidationError):
        return error
    if isinstance(error, CapsetError):
        return MCPError(INTERNAL_ERROR, public_text(error, METHOD))
    _log.error("the request %r failed", METHOD, exc_info=error)
    return MCPError(INTERNAL_ERROR, "Internal error; the log has the details")


class _CallWatch(DisconnectWatch):
    """Watches a client, and sends one response: as JSON, or if it takes long, as a stream of events with pings."""

    __slots__ = ("_has_begun", "_is_over", "_pinging", "_send", "_timer")

    def __init__(self, receive: Receive, send: Send) -> None:
        super().__init__(receive)
        self._send = send
        self._has_begun = False
        self._is_over: asyncio.Event | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._pinging: asyncio.Task[None] | None = None

    def _start(self) -> None:
        super()._start()
        # Only now: most calls have ended by then, and need no second timer.
        self._timer = asyncio.get_running_loop().call_later(PING_SECONDS - PATIENCE_SECONDS, self._begin)

    def _begin(self) -> None:
        self._is_over = asyncio.Event()
        self._pinging = asyncio.get_running_loop().create_task(self._ping(self._is_over))

    async def _ping(self, is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            if not self._has_begun:
                self._has_begun = True
                await self._send({"type": "http.response.start", "status": 200, "headers": _STREAM})
            await self._send({"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True})
            with suppress(TimeoutError):
                await asyncio.wait_for(is_over.wait(), PING_SECONDS)

    async def stop(self) -> None:
        """Stop sending pings, after the current one."""
        if self._is_over is not None:
            self._is_over.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._pinging is not None:
            await asyncio.wait([self._pinging])
            with suppress(OSError):  # the client has disconnected, which the watch reports
                self._pinging.result()

    async def end(self, status: int, data: bytes) -> None:
        """Send the response."""
        if self._has_begun:
            event = b"event: message\r\ndata: " + data + b"\r\n\r\n"
            await self._send({"type": "http.response.body", "body": event, "more_body": False})
            return
        await _send_json(self._send, status, data)


async def _send_json(send: Send, status: int, data: bytes) -> None:
    headers = [(b"content-length", str(len(data)).encode()), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data, "more_body": False})
