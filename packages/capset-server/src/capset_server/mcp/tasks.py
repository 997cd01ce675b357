"""Tasks of the extension ``io.modelcontextprotocol/tasks``: calls that wait for an approval (spec 7, M19).

A task is an approval request in the store. Its id is that of the request, sealed for the session of its caller.
The call continues when its client polls the task after the decision, as if the client had repeated the call.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, cast

from anyio import CancelScope
from mcp.server.context import ServerRequestContext
from mcp.server.runner import modern_error_data
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    RequestParams,
)
from mcp_types.methods import serialize_server_result
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request

from capset.definitions.calls.clients import ClientAnswer, ClientQuestion
from capset.definitions.governance.approvals import ApprovalRow
from capset.errors import CapsetError, ClientInputRequired, NotFound
from capset.kernel.call.session import Session
from capset.kernel.call.suspended_calls import SuspendedCall
from capset.kernel.governance.approval_needs import needed_connection
from capset.schemas.validation_errors import VALIDATION_ERRORS
from capset.stores.base import ReplyRow
from capset.stores.base.replies import RETENTION
from capset_server.auth.signing_keys import KeySource, is_sealed, seal
from capset_server.mcp.calls import PREFIX, Ended, meta_of, public_text, run
from capset_server.mcp.exchanges import ApprovalAccess, Exchange
from capset_server.mcp.questions import TASKS, declares_tasks
from capset_server.mcp.results import answer

POLL_MS: Final = 5_000
"""How often a client should poll."""
WAIT_SECONDS: Final = 5.0
"""How long a poll waits for a call that continues, so that the first poll mostly returns the result."""
METHODS: Final = ("tasks/get", "tasks/update", "tasks/cancel")
_PURPOSE: Final = "capset task"
_MAX_ID: Final = 200
_MAX_MESSAGE: Final = 1_000
_log = logging.getLogger("capset.mcp")

Asked = ServerRequestContext[dict[str, Any], Any]


class TaskParams(RequestParams):
    """The parameters of ``tasks/get`` and ``tasks/cancel``."""

    task_id: str


class TaskUpdateParams(TaskParams):
    """The parameters of ``tasks/update``. No task of this server ever asks anything, so no response is read."""

    input_responses: dict[str, Any]


class _TaskRun:
    """A call that continues in this process."""

    def __init__(self, digest: str) -> None:
        self.digest = digest
        self.task: asyncio.Task[None] | None = None
        self.outcome: dict[str, Any] = {}
        """The outcome, once the task is done."""
        self.is_cancelled = False
        self._has_begun, self._has_ended = False, False

    def cancel(self) -> None:
        """Cancel the call once, but not before its start or while its outcome is stored: it must get an outcome."""
        if self._has_ended or self.is_cancelled:
            return
        self.is_cancelled = True
        if self._has_begun and self.task is not None:
            self.task.cancel()

    @contextmanager
    def calling(self) -> Generator[None]:
        """Let the call be cancelled while inside. Raises ``CancelledError`` if it was cancelled before."""
        if self.is_cancelled:
            raise asyncio.CancelledError
        self._has_begun = True
        try:
            yield
        finally:
            self._has_ended = True


class Tasks:
    """The tasks of a server's sessions."""

    def __init__(self, keys: KeySource) -> None:
        self._keys = keys
        self._running: dict[str, _TaskRun] = {}
        """Calls that continue here, by the ids of their requests."""

    async def create(self, ended: Ended, exchange: Exchange, approval: str) -> dict[str, Any] | None:
        """Return a task for a call that was refused until it is approved; ``None`` if there cannot be one.

        There cannot be one if the stored arguments are incomplete, since some are secrets, or are in a form that the
        tool does not accept, such as with computed fields; nor if the handler had started: then the waiting call is one
        that the handler made.
        """
        tool = ended.messages.called
        if tool is None or not ended.messages.result.refused:
            return None
        call = await exchange.session.suspended(approval)
        if call.arguments is None:
            return None
        try:
            tool.arguments.check_stored(call.arguments.text)
        except VALIDATION_ERRORS:
            return None
        meta = {**meta_of(ended), f"{PREFIX}approval": approval}
        if (page := exchange.approvals.page(ended.error)) is not None:
            meta[f"{PREFIX}approval_url"] = page
        return {"resultType": "task", **await self._working(call, exchange.approvals), "_meta": meta}

    async def get(self, ctx: Asked, params: TaskParams, exchange: Exchange) -> dict[str, Any]:
        """Answer ``tasks/get``: continue the call of a task if it is decided, and return the state of the task."""
        call = await self._find(ctx, params, exchange)
        if call.is_waiting:
            return await self._working(call, exchange.approvals)
        return await self._state(call, exchange)

    async def update(self, ctx: Asked, params: TaskUpdateParams, exchange: Exchange) -> dict[str, Any]:
        """Answer ``tasks/update``: no task asks anything, so responses are ignored."""
        await self._find(ctx, params, exchange)
        return {"resultType": "complete"}

    async def cancel(self, ctx: Asked, params: TaskParams, exchange: Exchange) -> dict[str, Any]:
        """Answer ``tasks/cancel``: cancel the call if it runs here, or withdraw the request if it has not continued."""
        call = await self._find(ctx, params, exchange)
        task_run = self._running.get(call.request.id)
        if task_run is not None:
            task_run.cancel()
        elif not call.is_expired:
            with CancelScope(shield=True):  # a reserved call gets an outcome, even if its client disconnects now
                if await call.reserve() is None:
                    await call.store_outcome(json.dumps({"status": "cancelled"}))
                    await call.withdraw()
        return {"resultType": "complete"}

    async def _find(self, ctx: Asked, params: TaskParams, exchange: Exchange) -> SuspendedCall:
        """Return the call of a task. Raises ``MCPError``, without a reason, if the task is not the caller's."""
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)
        declared = cast("Mapping[str, Any]", ctx.meta or {}).get(CLIENT_CAPABILITIES_META_KEY)
        if not (isinstance(declared, Mapping) and declares_tasks(cast("Mapping[str, Any]", declared))):
            required: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            raise MCPError(
                MISSING_REQUIRED_CLIENT_CAPABILITY, f"This needs a client with the extension {TASKS}", required
            )
        _check_header(ctx, params.task_id)
        approval, _, signature = params.task_id.partition(".")
        session = exchange.session
        missing = MCPError(INVALID_PARAMS, "There is no such task of this caller, or it has expired")
        if len(params.task_id) > _MAX_ID or not await is_sealed(self._keys, signature, _PURPOSE, approval, session.id):
            raise missing
        try:
            call = await session.suspended(approval)
        except NotFound:
            raise missing from None
        if call.arguments is None or not await exchange.may_call(call.request.tool):
            raise missing
        return call

    async def _state(self, call: SuspendedCall, exchange: Exchange) -> dict[str, Any]:
        approval = call.request.id
        task_run = self._running.get(approval)
        if task_run is None:
            if call.is_expired:
                raise MCPError(INVALID_PARAMS, "There is no such task of this caller, or it has expired")
            stored_reply = await _reserve(call)
            if stored_reply is None:
                task_run = self._start(call, exchange.session)
            elif stored_reply.status is not None:
                return await self._over(call, _outcome_of(stored_reply), stored_reply.digest, stored_reply.created_at)
            else:
                task_run = self._running.get(approval)  # it began during the query
        if task_run is None or task_run.task is None:
            record = await call.interrupted_record()
            if record is None:
                return await self._working(call, exchange.approvals)
            unknown = _failed(f"The outcome of the call is unknown; its record is {record}")
            return await self._over(call, unknown, call.digest)
        done, _ = await asyncio.wait([task_run.task], timeout=WAIT_SECONDS)
        if not done or task_run.outcome.get("status") == "working":
            return {**await self._working(call, exchange.approvals), **task_run.outcome}
        return await self._over(call, task_run.outcome, task_run.digest)

    def _start(self, call: SuspendedCall, session: Session) -> _TaskRun:
        """Continue a reserved call in a task of the kernel, so that it survives a client that disconnects."""
        task_run = self._running[call.request.id] = _TaskRun(call.digest)
        task_run.task = call.spawn(self._go_on(task_run, call, session))
        return task_run

    async def _go_on(self, task_run: _TaskRun, call: SuspendedCall, session: Session) -> None:
        approval, record = call.request.id, None
        try:
            try:
                with task_run.calling():
                    ended = await _call_again(call, session)
                record = ended.messages.record
                if ended.messages.result.refused and ended.error is not None and ended.error.retryable:
                    task_run.outcome = _later(ended.error)
                    return await call.release()
                task_run.outcome = {"status": "completed", "result": await _result_of(ended)}
            except asyncio.CancelledError:
                cut_off = _failed("The server was stopped while the call ran: see its record for what is known")
                task_run.outcome = {"status": "cancelled"} if task_run.is_cancelled else cut_off
                if task_run.is_cancelled:
                    await call.withdraw()  # if the handler had not started
            except Exception as error:
                task_run.outcome = _failed_with(error)
            status = 200 if task_run.outcome["status"] == "completed" else 500
            await call.store_outcome(json.dumps(task_run.outcome), status=status, record=record)
        except CapsetError as error:
            _log.error("cannot store the outcome of the task %s: %s", approval, error.message)
        finally:
            del self._running[approval]

    async def _working(self, call: SuspendedCall, approvals: ApprovalAccess) -> dict[str, Any]:
        request = call.request
        if call.is_waiting:
            connection = needed_connection(request)
            waits_for, done = ("an approval", "decided") if connection is None else ("its user", "connected")
            message = f"{request.tool!r} waits for {waits_for}: {request.reason[:_MAX_MESSAGE]}"
            if (page := approvals.page_of(request.id, connection)) is not None:
                message = f"{message.removesuffix('.')}. It is {done} at {page}"
        else:
            message = f"{request.tool!r} runs"
        return {
            **await self._task(request),
            "status": "working",
            "statusMessage": message,
            "lastUpdatedAt": request.decided_at or request.created_at,
            "ttlMs": _milliseconds(request.created_at, request.expires_at),
            "pollIntervalMs": POLL_MS,
        }

    async def _over(
        self, call: SuspendedCall, outcome: Mapping[str, Any], digest: str, since: str | None = None
    ) -> dict[str, Any]:
        """Return a finished task. Raises ``MCPError`` if the call ran when its caller had other rights."""
        if outcome["status"] == "completed" and digest != call.digest:
            raise MCPError(
                INVALID_PARAMS,
                "This call ran with other permissions or attributes of its caller: use a credential that has the same "
                "ones",
            )
        request = call.request
        last = since or request.decided_at or request.expires_at
        ttl = _milliseconds(request.created_at, last) + round(RETENTION.total_seconds() * 1000)
        return {**await self._task(request), **outcome, "lastUpdatedAt": last, "ttlMs": ttl}

    async def _task(self, request: ApprovalRow) -> dict[str, Any]:
        sealed = await seal(self._keys, _PURPOSE, request.id, request.session)
        return {"taskId": f"{request.id}.{sealed}", "createdAt": request.created_at}


class _Unasked:
    """The client of a call that continues: it cannot be asked, so a question gives the approval back."""

    capabilities: Mapping[str, Any] = {"elicitation": {"form": {}}}

    async def ask(self, question: ClientQuestion[Any], /) -> ClientAnswer[Any]:
        """Raise ``ClientInputRequired``, which gives the approval back."""
        raise ClientInputRequired(
            f"This call is approved, and asks its caller: {question.message} Make the same call again, as tools/call: "
            "a task cannot be asked."
        )


async def _reserve(call: SuspendedCall) -> ReplyRow | None:
    """Reserve a call, even if the client disconnects now: a reserved call has to continue."""
    with CancelScope(shield=True):
        return await call.reserve()
    raise AssertionError


async def _call_again(call: SuspendedCall, session: Session) -> Ended:
    request = call.request
    arguments: dict[str, Any] = {} if call.arguments is None else json.loads(call.arguments.text)

    async def report(progress: float, total: float | None, message: str | None) -> None:
        """Tasks have no progress."""

    exchange = Exchange(session, correlation=request.id)
    return await run(exchange, request.tool, arguments, report, _Unasked(), approval=request.id)


async def _result_of(ended: Ended) -> dict[str, Any]:
    """Return the result as ``tools/call`` would have returned it."""
    dumped = (await answer(ended)).model_dump(by_alias=True, mode="json", exclude_none=True)
    return serialize_server_result("tools/call", LATEST_MODERN_VERSION, dumped)


def _outcome_of(stored_reply: ReplyRow) -> Mapping[str, Any]:
    if stored_reply.body is not None:
        return json.loads(stored_reply.body)
    return _failed(f"The call was made, but its result was too large to be stored; its record is {stored_reply.record}")


def _later(error: CapsetError) -> dict[str, Any]:
    """Return the state of a task whose call was refused for now: its approval stays valid for the next poll."""
    wait = round((error.retry_after or 0.0) * 1000)
    return {"status": "working", "statusMessage": error.message, "pollIntervalMs": max(POLL_MS, wait)}


def _failed(message: str) -> dict[str, Any]:
    return {"status": "failed", "statusMessage": message, "error": {"code": INTERNAL_ERROR, "message": message}}


def _failed_with(error: Exception) -> dict[str, Any]:
    if not isinstance(error, MCPError | CapsetError):
        _log.error("a task failed", exc_info=error)
        return _failed("Internal error; the log has the details")
    mcp_error = error if isinstance(error, MCPError) else MCPError(INTERNAL_ERROR, public_text(error, "tasks/get"))
    error_data = modern_error_data(mcp_error)
    shape = error_data.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"status": "failed", "statusMessage": error_data.message, "error": shape}


def _check_header(ctx: Asked, task_id: str) -> None:
    """Raise ``MCPError`` unless the header ``Mcp-Name``, if there are headers, names the task: proxies route by it."""
    request = cast("object", ctx.request)
    if isinstance(request, Request) and decode_header_value(request.headers.get(MCP_NAME_HEADER)) != task_id:
        raise MCPError(HEADER_MISMATCH, f"{MCP_NAME_HEADER} header does not match the request body's taskId parameter")


def _milliseconds(since: str, until: str) -> int:
    return round((datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds() * 1000)
