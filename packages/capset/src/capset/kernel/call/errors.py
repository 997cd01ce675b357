"""Errors of calls whose handler raises: translation to safe errors, their causes, and cancellation from outside."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import NoReturn, TypeVar, cast

from capset.definitions.agents import Agent
from capset.errors import (
    ApprovalVoid,
    Cancelled,
    CapsetError,
    DeadlineExceeded,
    InternalError,
    InvalidArguments,
    LimitExceeded,
    NoFreeSlot,
    NotFound,
    PermissionDenied,
    StoreError,
    ToolError,
    TurnSuspended,
    Unauthenticated,
)
from capset.evaluation.containment import is_contained
from capset.kernel.call.invocation import Invocation
from capset.kernel.runtime import KernelRuntime
from capset.kernel.streams.emission import hide_store_details

_SAFE = (
    *(ApprovalVoid, Cancelled, DeadlineExceeded, InvalidArguments, LimitExceeded, NotFound, PermissionDenied),
    *(StoreError, Unauthenticated),
)
"""Errors of nested calls that may pass through a handler: their messages are the kernel's own."""
T = TypeVar("T")
_log = logging.getLogger("capset.kernel")


def raise_contained(call: Invocation, error: BaseException) -> NoReturn:
    """Raise a safe error for a handler's exception, or the exception itself for a cancellation from outside (G4)."""
    safe_error = error_for(call, error)
    if safe_error is error:
        raise error
    raise safe_error from error


def error_for(call: Invocation, error: BaseException) -> BaseException:
    """Return the error to raise for a handler's exception (spec 3, K13; spec 4, G4).

    For a group of reportable errors only, this is its first ``ToolError``; for any other exception, an error that the
    tool failed. An exception that is not the handler's own is returned unchanged.
    """
    if isinstance(error, NoFreeSlot) and not call.attempts:
        return error  # the handler has not started
    if isinstance(error, ToolError | InternalError) or (
        call.stream is not None and error is call.stream.consumer_error
    ):
        return error
    if isinstance(error, TurnSuspended) and call.compiled.tool and isinstance(call.compiled.tool.block, Agent):
        return error  # the agent runs in this call, and continues when the call is repeated
    if isinstance(error, CapsetError) and isinstance(error, _SAFE):
        return _convert_refusal(call, error)
    if not is_handler_error(call, error):
        is_plain = isinstance(error, asyncio.CancelledError) or not _contains_cancellation(error)
        return error if is_plain else _cancellation_for(call, error)
    tool_error = _first_tool_error(call, _leaves(error))
    _log.error("tool %r failed, correlation %s", call.compiled.name, call.correlation, exc_info=error)
    return tool_error or InternalError(f"The tool {call.compiled.name!r} failed unexpectedly; the log has the details.")


def strip_causes(error: CapsetError, runtime: KernelRuntime) -> None:
    """Remove an error's causes and traceback before a caller gets it, unless the host wants them (spec 4, G62).

    The chained exceptions and the frames of the traceback may hold anything that a handler has: secrets, and large
    arguments, which would stay in memory until the next garbage collection.
    """
    if not runtime.governance.error_causes:
        error.__cause__ = error.__context__ = error.__traceback__ = None


async def without_causes(runtime: KernelRuntime, work: Awaitable[T]) -> T:
    """Await work that is not a call, and return its result. Removes the causes of an error that it raises."""
    try:
        return await work
    except CapsetError as error:
        strip_causes(error, runtime)
        raise


def is_cancelled(call: Invocation) -> bool:
    """Whether the task of a call was cancelled from outside.

    A call with a channel runs in a kernel task, where this is certain. Elsewhere, the cancellation count that a failed
    task group leaves behind is also taken for a cancellation.
    """
    if call.channel is not None:
        return call.context.runtime.is_stopping()
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def is_handler_error(call: Invocation, error: BaseException) -> bool:
    """Whether an exception is the handler's own: neither a cancellation from outside nor a timeout."""
    if isinstance(error, asyncio.CancelledError):
        return not is_cancelled(call) and not (call.scope is not None and call.scope.expired())
    return is_contained(error) and not (_contains_cancellation(error) and is_cancelled(call))


def _contains_cancellation(error: BaseException) -> bool:
    return any(isinstance(leaf, asyncio.CancelledError) for leaf in _leaves(error))


def _cancellation_for(call: Invocation, group: BaseException) -> BaseException:
    """Return a cancellation for a group that contains one, and log the group."""
    _log.error("tool %r, correlation %s", call.compiled.name, call.correlation, exc_info=group)
    cancelled = asyncio.CancelledError()
    cancelled.__cause__ = group
    return cancelled


def _convert_refusal(call: Invocation, error: CapsetError) -> ToolError:
    """Return the refusal of a nested call as a ``ToolError`` of this call, which was not refused. Its text is safe."""
    safe = hide_store_details(error, call)
    tool_error = ToolError(safe.message, code=error.code, status=error.status, hint=error.hint, fields=error.fields)
    tool_error.retryable, tool_error.retry_after, tool_error.answer_lost = (
        error.retryable,
        error.retry_after,
        error.answer_lost,
    )
    return tool_error


def _first_tool_error(call: Invocation, errors: list[BaseException]) -> ToolError | None:
    tool_errors = [error for error in errors if isinstance(error, ToolError)]
    refusals = [error for error in errors if isinstance(error, _SAFE)]
    if len(tool_errors) + len(refusals) < len(errors):
        return None
    return tool_errors[0] if tool_errors else _convert_refusal(call, refusals[0])


def _leaves(error: BaseException) -> list[BaseException]:
    """Return the leaf errors of a group, at any depth, or the one error itself."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    group = cast("BaseExceptionGroup[BaseException]", error)
    return [leaf for inner in group.exceptions for leaf in _leaves(inner)]
