"""The old path of ``capset.evaluation.snapshot.capture``."""

from capset.evaluation.snapshot.capture import (
    Captured,
    capture,
    capture_runtime,
    compute_link,
    envelope_of,
    link_of,
    session_context_of,
)

__all__ = ["Captured", "capture", "capture_runtime", "compute_link", "envelope_of", "link_of", "session_context_of"]
