"""What the demo did, on the wire."""

from __future__ import annotations

from capset.wire.audit import AuditPageShape, VerificationShape
from capset.wire.shapes import Shape


class DemoShape(Shape):
    """Where things were put, what came in, the trail (newest first), whether it holds, and what went wrong."""

    folder: str
    report: str | None
    files: int
    size_bytes: int
    skipped: list[str]
    records: AuditPageShape
    verification: VerificationShape
    surprises: list[str]
