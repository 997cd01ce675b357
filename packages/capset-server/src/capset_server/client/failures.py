"""Conversion of errors of the wire to their classes in ``capset.errors``."""

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
    """Return an error of its own class by its ``code``, a ``CapsetError`` for an unknown code.

    It has the code, status, message, fields, correlation and whether, and when, it may be retried; and the id of the
    request for an approval, if it awaits one.
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
