"""What ``capset db`` says of a database (spec 5, P30)."""

from __future__ import annotations

from capset.wire.audit import VerificationShape
from capset.wire.shapes import Shape


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
