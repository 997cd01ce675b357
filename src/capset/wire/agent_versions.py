"""The versions of agents on the wire (spec 5, P5, P7)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field

from capset.composition.compose import Composition
from capset.evaluation.compare.differences import Diff
from capset.fingerprint.changes import Change
from capset.stores.base import AgentRow, AgentStatus
from capset.wire.diffs import ChangeShape, DiffShape, change_shapes, diff_shape
from capset.wire.shapes import Shape, Whole

LAST: Final = 2**31 - 1
"""The last number that a version can have."""


Version = Annotated[int, Field(ge=1, le=LAST), Whole]


class VersionShape(Shape):
    """One version of an agent: its number, from 1, what it was called, and its hash.

    ``created_at`` is when it was written, and ``author`` who wrote it, such as ``user:ada``, where that is known.
    """

    version: int
    name: str
    static_hash: str
    status: AgentStatus
    author: str | None = None
    created_at: str | None = None


class VersionPageShape(Shape):
    """Some versions of an agent, newest first, and the cursor of the next page, if there is one."""

    items: list[VersionShape]
    next: str | None = None


class RollbackInput(Shape):
    """The version whose content is to be written again, as the next version."""

    model_config = ConfigDict(strict=True)

    version: Version


class AgentDiffShape(Shape):
    """Two versions of an agent compared.

    ``fields`` are those that were written otherwise, whether a hash covers them or not; ``composition`` is what comes
    of it for whoever asks, ``null`` where one of the two cannot be composed any more, or has something of high risk
    that the present version has not and an administrator does not ask. ``notices`` say why, and what has gone of each.
    """

    before: int
    after: int
    fields: list[ChangeShape]
    composition: DiffShape | None
    notices: list[str]

    def plain(self) -> dict[str, Any]:
        """Return plain JSON data; what is not known is left out, and a null in it is data."""
        return self.model_dump(mode="json", exclude_unset=True)


def version_shape(row: AgentRow) -> VersionShape:
    """Return the wire shape of one version of a stored agent."""
    return VersionShape(
        version=row.version,
        name=row.name,
        static_hash=row.static_hash,
        status=row.status,
        author=row.author,
        created_at=row.updated_at,
    )


def defined_version_shape(composition: Composition) -> VersionShape:
    """Return the wire shape of the one version that an agent has which is defined in code."""
    return VersionShape(version=1, name=composition.block.name, static_hash=composition.static_hash, status="active")


def agent_diff_shape(
    before: int, after: int, changes: Iterable[Change], composed: Diff | None, notices: Iterable[str]
) -> AgentDiffShape:
    """Return the wire shape of a comparison of two versions."""
    return AgentDiffShape(
        before=before,
        after=after,
        fields=change_shapes(changes),
        composition=None if composed is None else diff_shape(composed),
        notices=list(notices),
    )
