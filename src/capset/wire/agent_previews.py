"""What an agent would be, on the wire (spec 5, P7)."""

from __future__ import annotations

from collections.abc import Iterable

from capset.errors import DefinitionError
from capset.errors import Field as Misfit
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.wire.errors import FieldShape
from capset.wire.shapes import Shape
from capset.wire.snapshots import SnapshotShape, snapshot_shape


class ConflictShape(Shape):
    """Why two things that an agent would have do not go together, naming both, and how to mend it."""

    code: str
    message: str
    hint: str | None = None


class PreviewShape(Shape):
    """What an agent would be if it were written as it was given; nothing is kept.

    ``problems`` are fields that do not fit, and ``conflicts`` all between those that do; with neither, it is ``valid``,
    and ``snapshot`` is what the caller would have in a session of it. ``needs_admin`` names the high-risk capabilities
    that it enables: only an administrator may write it then, and for anybody else there is no snapshot.
    """

    valid: bool
    problems: list[FieldShape]
    conflicts: list[ConflictShape]
    needs_admin: list[str]
    snapshot: SnapshotShape | None = None


def preview_shape(
    problems: Iterable[Misfit],
    conflicts: Iterable[DefinitionError],
    needs_admin: Iterable[str],
    snapshot: Snapshot | None,
    *,
    is_valid: bool,
) -> PreviewShape:
    """Return the wire shape of a preview."""
    return PreviewShape(
        valid=is_valid,
        problems=[FieldShape(path=one.path, expected=one.expected, did_you_mean=one.did_you_mean) for one in problems],
        conflicts=[ConflictShape(code=one.code, message=one.message, hint=one.hint) for one in conflicts],
        needs_admin=list(needs_admin),
        snapshot=None if snapshot is None else snapshot_shape(snapshot),
    )
