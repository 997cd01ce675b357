"""What a call ends with when its handler raises: errors that are safe to show, and cancellations not its own."""

from __future__ import annotations

import asyncio
import logging
from typing import cast

from capset.errors import (
    ApprovalVoid,
    Cancelled,
    CapsetError,
    DeadlineExceeded,
    InternalError,
    InvalidArguments,
    LimitExceeded,
    NotFound,
    PermissionDenied,
    StoreError,
    ToolError,
    Unauthenticated,
)
from capset.evaluation.error_mapping import is_contained
from capset.kernel.call.invocation import Invocation
from capset.kernel.streams.emission import shown

_SAFE = (
    *(ApprovalVoid, Cancelled, DeadlineExceeded, InvalidArguments, LimitExceeded, NotFound, PermissionDenied),
    *(StoreError, Unauthenticated),
)
"""What a call inside the handler may end with, in words of the kernel's own."""
_log = logging.getLogger("capset.kernel")


def error_for(call: Invocation, error: BaseException) -> BaseException:
    """Return what is to be raised for what a handler raised (spec 3, K13; spec 4, G4).

    Of a group, all of whose errors are meant to be told, that is the first ``ToolError``; of any other, that the tool
    failed. What is no error of the handler's is returned as it is.
    """
    if isinstance(error, ToolError | InternalError) or error is call.stalled:
        return error
    if isinstance(error, CapsetError) and isinstance(error, _SAFE):
        return _told(call, error)
    if not is_own(call, error):
        is_plain = isinstance(error, asyncio.CancelledError) or not _holds_cancellation(error)
        return error if is_plain else _cancelled(call, error)
    told = _first(call, _leaves(error))
    _log.error("tool %r failed, correlation %s", call.compiled.name, call.correlation, exc_info=error)
    return told or InternalError(f"The tool {call.compiled.name!r} failed unexpectedly; the log has the details.")


def is_cancelled(call: Invocation) -> bool:
    """Whether the task that a call runs in was cancelled from outside of it.

    A call with a channel has a task of the kernel's, which knows; elsewhere a count that a task group left is one too.
    """
    if call.channel is not None:
        return call.context.runtime.is_stopping()
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def is_own(call: Invocation, error: BaseException) -> bool:
    """Whether what came out of a handler is the handler's own; a cancellation from outside is not, nor an expiry."""
    if isinstance(error, asyncio.CancelledError):
        return not is_cancelled(call) and not (call.scope is not None and call.scope.expired())
    return is_contained(error) and not (_holds_cancellation(error) and is_cancelled(call))


def _holds_cancellation(error: BaseException) -> bool:
    return any(isinstance(one, asyncio.CancelledError) for one in _leaves(error))


def _cancelled(call: Invocation, group: BaseException) -> BaseException:
    """Return the cancellation in a group; what else is in it is for the log."""
    _log.error("tool %r, correlation %s", call.compiled.name, call.correlation, exc_info=group)
    cancelled = asyncio.CancelledError()
    cancelled.__cause__ = group
    return cancelled


def _told(call: Invocation, error: CapsetError) -> ToolError:
    """Return the refusal of a call that the handler made: its message is safe, but this call was not refused."""
    safe = shown(error, call)
    told = ToolError(safe.message, code=error.code, status=error.status, hint=error.hint, fields=error.fields)
    told.retryable, told.retry_after = error.retryable, error.retry_after
    return told


def _first(call: Invocation, errors: list[BaseException]) -> ToolError | None:
    meant = [one for one in errors if isinstance(one, ToolError)]
    refusals = [one for one in errors if isinstance(one, _SAFE)]
    if len(meant) + len(refusals) < len(errors):
        return None
    return meant[0] if meant else _told(call, refusals[0])


def _leaves(error: BaseException) -> list[BaseException]:
    """Return the errors in a group, however deep, or the one error itself."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    group = cast("BaseExceptionGroup[BaseException]", error)
    return [leaf for one in group.exceptions for leaf in _leaves(one)]
