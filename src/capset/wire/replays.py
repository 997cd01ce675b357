"""A replayed snapshot on the wire: what an agent could do then, and what it can do now (spec 2, F33)."""

from __future__ import annotations

from typing import Any

from capset.evaluation.replay.evaluation import Replay
from capset.wire.diffs import DiffShape, diff_shape
from capset.wire.shapes import Shape


class GoneShape(Shape):
    """A tool that was in play and is not now, or that ``hydrate`` refuses, and why."""

    name: str
    reason: str


class HydrateShape(Shape):
    """Whether ``hydrate`` takes the envelope; the tools that it refuses, and else why it refuses the whole."""

    accepts: bool
    refused: list[GoneShape]
    reason: str | None


class ReplayShape(Shape):
    """Which tools were in play then and are now, by name; ``diff`` has what changed in them, and the policies.

    ``attributes`` are the principal's, and masked where their names are those of secrets.
    ``dropped`` are the paths of ``env`` that the envelope does not have, ``notes`` what else could not be the same.
    """

    agent: str
    agent_id: str
    principal: str
    permissions: list[str]
    attributes: dict[str, Any]
    differs: bool
    both: list[str]
    only_then: list[GoneShape]
    only_now: list[str]
    changed: list[str]
    flipped: list[str]
    hydrate: HydrateShape
    dropped: list[str]
    notes: list[str]
    diff: DiffShape

    def plain(self) -> dict[str, Any]:
        """Return plain JSON data; of the comparison, what is not known is left out."""
        return {**self.model_dump(mode="json", exclude={"diff"}), "diff": self.diff.plain()}


def replay_shape(replay: Replay) -> ReplayShape:
    """Return the wire shape of a replay."""
    refusal = replay.refusal
    return ReplayShape(
        agent=replay.then.link.agent_name,
        agent_id=replay.then.link.agent_id,
        principal=replay.principal.id,
        permissions=sorted(replay.principal.permissions),
        attributes=replay.principal.attributes.masked(),
        differs=replay.differs,
        both=list(replay.both),
        only_then=[GoneShape(name=one.name, reason=one.reason) for one in replay.gone],
        only_now=list(replay.only_now),
        changed=[one.name for one in replay.changed],
        flipped=[one.id for one in replay.flipped],
        hydrate=HydrateShape(
            accepts=refusal is None,
            refused=[GoneShape(name=one.path, reason=one.expected) for one in replay.refused],
            reason=None if refusal is None else refusal.message,
        ),
        dropped=list(replay.dropped),
        notes=list(replay.notes),
        diff=diff_shape(replay.diff),
    )
