"""Problem details (RFC 9457): what every door over HTTP answers when a request itself cannot be served (spec 5)."""

from __future__ import annotations

from http import HTTPStatus

from pydantic import Field

from capset.errors import CapsetError
from capset.wire.errors import FieldShape, error_shape
from capset.wire.shapes import Shape

MEDIA_TYPE = "application/problem+json"


class Problem(Shape):
    """``type`` is ``urn:capset:error:`` and the ``code``; ``correlation`` stands in the log and in the records too.

    ``retry_after`` is in seconds; ``approval`` is the id of the request that somebody has to decide first.
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
    fields: list[FieldShape] | None = None


def problem_of(error: CapsetError, correlation: str) -> Problem:
    """Return an error as problem details."""
    shape = error_shape(error)
    return Problem(
        type=f"urn:capset:error:{shape.code}",
        title=_phrase(shape.status),
        status=shape.status,
        detail=shape.message,
        code=shape.code,
        retryable=shape.retryable,
        correlation=correlation,
        retry_after=shape.retry_after,
        approval=shape.approval,
        fields=shape.fields,
    )


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
