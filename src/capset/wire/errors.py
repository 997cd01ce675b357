"""An error on the wire (spec 3, K2; spec 4, G24)."""

from __future__ import annotations

from capset.errors import CapsetError
from capset.kernel.streams.emission import error_data
from capset.wire.shapes import Shape


class FieldShape(Shape):
    """One field that does not fit."""

    path: str
    expected: str
    did_you_mean: str | None = None


class ErrorShape(Shape):
    """What went wrong, in words that are safe to show; ``status`` is 400–599.

    ``retry_after`` is in seconds; ``approval`` is the id of the request that somebody has to decide first.
    """

    code: str
    status: int
    message: str
    retryable: bool
    retry_after: float | None = None
    approval: str | None = None
    fields: list[FieldShape] | None = None
    correlation: str | None = None


def error_shape(error: CapsetError) -> ErrorShape:
    """Return the wire shape of an error: the data of the kernel's error message, and nothing else."""
    return ErrorShape.model_validate(error_data(error))
