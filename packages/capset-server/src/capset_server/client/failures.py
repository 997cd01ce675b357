"""Conversion of wire errors to their classes in ``capset.errors``."""

from __future__ import annotations

from typing import Any, Final

from capset import errors
from capset.errors import ApprovalRequired, CapsetError, ConnectionRequired, Field
from capset.wire.calls import CallShape
from capset.wire.errors import ErrorShape, Problem

_KINDS: Final[dict[str, type[CapsetError]]] = {
    kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, CapsetError)
}


def error_of(problem: Problem | ErrorShape) -> CapsetError:
    """Return an error of the class for its ``code``, a ``CapsetError`` for an unknown code.

    It has the code, status, message, fields and correlation, whether and when it may be retried, and the id of the
    approval request if it awaits one.
    """
    fields = (Field(field.path, field.expected, field.did_you_mean) for field in problem.fields or ())
    message = problem.detail if isinstance(problem, Problem) else problem.message
    error = _KINDS.get(problem.code, CapsetError)(message, fields=fields)
    error.code, error.status, error.retryable = problem.code, problem.status, problem.retryable
    error.correlation = problem.correlation
    if problem.retry_after is not None:
        error.retry_after = problem.retry_after
    if isinstance(error, ApprovalRequired):
        error.approval = problem.approval
    if isinstance(error, ConnectionRequired):
        error.connection = problem.connection
    return error


def data_of(call: CallShape) -> Any:  # the tool's own output, as JSON data
    """Return the data of a successful call; raise the error of a failed one."""
    if call.error is not None:
        raise error_of(call.error)
    return call.data
