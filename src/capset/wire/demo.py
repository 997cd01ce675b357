"""What the demo did, on the wire."""

from __future__ import annotations

from capset.wire.audit import AuditPageShape, VerificationShape
from capset.wire.shapes import Shape


class DoorShape(Shape):
    """A call that came in by one of the server's doors, and the record that it left."""

    door: str
    tool: str
    outcome: str
    runtime_hash: str
    record: str


class OversightShape(Shape):
    """A call of the last part: how it was refused, if it was, and the request for an approval that it led to."""

    tool: str
    code: str | None = None
    approval: str | None = None
    record: str


class DemoShape(Shape):
    """Where things were put, what came in, the trail (newest first), whether it holds, and what went wrong.

    ``research`` is where the report of the part about the web was put; ``doors`` and ``oversight`` are the calls of the
    last two parts, in their order. Each is ``None`` where the extras for it are not installed.
    """

    folder: str
    report: str | None
    research: str | None
    files: int
    size_bytes: int
    skipped: list[str]
    records: AuditPageShape
    verification: VerificationShape
    surprises: list[str]
    doors: list[DoorShape] | None = None
    oversight: list[OversightShape] | None = None
