"""Resource limits per request, so that no client can exhaust the server (spec 5, P15)."""

from __future__ import annotations

from dataclasses import dataclass

from capset.definitions.files import FILE_BYTES


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Sizes in bytes, times in seconds."""

    head: int = 32 * 1024
    """The request line and all headers; beyond it, 431."""
    body: int = 16 * 1024 * 1024
    """A body; beyond it, 413."""
    file: int = FILE_BYTES
    """A file's content, unless the kernel's governance sets another limit; beyond it, 413."""
    head_seconds: float = 10.0
    """Until the headers have arrived; beyond it, 408."""
    body_seconds: float = 30.0
    """Between two parts of a body; beyond it, 408."""
    send_seconds: float = 30.0
    """Until a client has accepted part of a stream; beyond it, the client is dropped."""
    beat_seconds: float = 15.0
    """Between two keep-alives of a stream."""
