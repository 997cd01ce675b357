"""What one request may take, so that no client can take all there is (spec 5, P15)."""

from __future__ import annotations

from dataclasses import dataclass

from capset.definitions.files import FILE_BYTES


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Sizes in bytes, times in seconds."""

    head: int = 32 * 1024
    """The request line and all headers; more answers 431."""
    body: int = 16 * 1024 * 1024
    """A body; more answers 413."""
    file: int = FILE_BYTES
    """A file's content (spec 5, P25), unless the kernel's governance says otherwise; more answers 413."""
    head_seconds: float = 10.0
    """Until the headers are there; else 408."""
    body_seconds: float = 30.0
    """Between two parts of a body; else 408."""
    send_seconds: float = 30.0
    """Until a client has taken a part of a stream; else it is given up."""
    beat_seconds: float = 15.0
    """Between two signs of life of a stream."""
