"""An error on the wire (spec 3, K2; spec 4, G24)."""

from __future__ import annotations

from http import HTTPStatus

from pydantic import Field

from capset.errors import CapsetError
from capset.kernel.streams.emission import error_data
from capset.wire.shapes import Shape


class FieldShape(Shape):
    """An invalid field."""

    path: str
    expected: str
    did_you_mean: str | None = None


class ErrorShape(Shape):
    """An error, with a message that is safe to show. ``status`` is 400–599.

    ``retry_after`` is in seconds; ``approval`` is the id of the request that must be decided first, and ``connection``
    what the caller has to connect first.
    """

    code: str
    status: int
    message: str
    retryable: bool
    retry_after: float | None = None
    approval: str | None = None
    connection: str | None = None
    fields: list[FieldShape] | None = None
    correlation: str | None = None


def error_shape(error: CapsetError) -> ErrorShape:
    """Return the wire shape of an error: the data of the kernel's error message, and nothing else."""
    return ErrorShape.model_validate(error_data(error))


MEDIA_TYPE = "application/problem+json"


class Problem(Shape):
    """An error as problem details. ``type`` is ``urn:capset:error:`` and the ``code``.

    ``correlation`` also appears in the log and in records. ``retry_after`` is in seconds; ``approval`` is the id of the
    request that must be decided first, and ``connection`` what the caller has to connect first.
    """

    type: str
    title: str
    status: int = Field(ge=400, le=599)
    detail: str
    code: str
    retryable: bool = False
    correlation: str
    retry_after: float | None = None
    approval: str | None = None
    connection: str | None = None
    fields: list[FieldShape] | None = None


def problem_of(error: CapsetError, correlation: str) -> Problem:
    """Return an error as problem details."""
    shape = error_shape(error)
    return Problem(
        type=f"urn:capset:error:{shape.code}",
        title=_status_phrase(shape.status),
        status=shape.status,
        detail=shape.message,
        code=shape.code,
        retryable=shape.retryable,
        correlation=correlation,
        retry_after=shape.retry_after,
        approval=shape.approval,
        connection=shape.connection,
        fields=shape.fields,
    )


def _status_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
