"""Shapes for operators: health, databases, the demo (spec 5, P13, P30)."""

from __future__ import annotations

from typing import Literal

from capset.wire.audit import AuditPageShape, VerificationShape
from capset.wire.shapes import Shape


class HealthShape(Shape):
    """It is well; where it is not, a problem is answered."""

    status: Literal["ok"]


class StepShape(Shape):
    """One migration; ``beside_writers`` says whether those who write go on while it runs."""

    revision: str
    does: str
    beside_writers: bool


class UpgradeShape(Shape):
    """The revisions before and after, no ``before`` for an empty database; ``done`` is false for a plan."""

    before: str | None = None
    after: str
    done: bool
    steps: list[StepShape]


class DatabaseCheckShape(Shape):
    """What was found; ``problems`` are sentences, ``verification`` is there if it was asked for."""

    ok: bool
    revision: str | None = None
    head: str
    problems: list[str]
    verification: VerificationShape | None = None


class BackupShape(Shape):
    """The file that was written, and how many bytes it has."""

    file: str
    bytes: int


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
