"""Errors of the wire as the errors of ``capset.errors`` that they were."""

from __future__ import annotations

from typing import Any, Final

from capset import errors
from capset.errors import ApprovalRequired, CapsetError, Field
from capset.wire.calls import CallShape
from capset.wire.errors import ErrorShape, Problem

_KINDS: Final[dict[str, type[CapsetError]]] = {
    kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, CapsetError)
}


def error_of(said: Problem | ErrorShape) -> CapsetError:
    """Return an error of its own class by its ``code``, a ``CapsetError`` for a code that nobody knows here.

    It keeps code, status, message, fields, correlation and whether, and when, it may be tried again; and the id of the
    request that somebody has to decide first.
    """
    fields = (Field(one.path, one.expected, one.did_you_mean) for one in said.fields or ())
    message = said.detail if isinstance(said, Problem) else said.message
    error = _KINDS.get(said.code, CapsetError)(message, fields=fields)
    error.code, error.status, error.retryable = said.code, said.status, said.retryable
    error.correlation = said.correlation
    if said.retry_after is not None:
        error.retry_after = said.retry_after
    if isinstance(error, ApprovalRequired):
        error.approval = said.approval
    return error


def data_of(call: CallShape) -> Any:  # the tool's own output, as JSON data
    """Return the data of a call that succeeded; raise the error of one that did not."""
    if call.error is not None:
        raise error_of(call.error)
    return call.data
