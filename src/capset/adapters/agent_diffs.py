"""What differs between two versions of an agent: in what was written, and in what comes of it (spec 5, P5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from capset.adapters.agent_rows import plain_of
from capset.adapters.stored_agents import Loaded
from capset.definitions.agents import Agent
from capset.definitions.principals import Principal
from capset.errors import DefinitionError
from capset.evaluation.capture import envelope_of
from capset.evaluation.comparison import diff_sides
from capset.evaluation.differences import Diff
from capset.evaluation.sides import Side, side_of
from capset.evaluation.snapshot import Snapshot
from capset.fingerprint.changes import Change, compare, compare_named
from capset.kernel.kernel import Kernel


@dataclass(frozen=True, eq=False, slots=True)
class AgentDiff:
    """Two versions compared: ``changes`` of what was written, and ``composed`` of what comes of it for one principal.

    ``composed`` is ``None`` where one of them cannot be composed any more; ``notices`` say why, and what has gone.
    """

    before: int
    after: int
    changes: tuple[Change, ...]
    composed: Diff | None
    notices: tuple[str, ...]


async def snapshot_of(
    kernel: Kernel,
    agent: Agent,
    *,
    principal: Principal,
    env: Mapping[str, Any],
    agent_id: str | None = None,
) -> Snapshot:
    """Return what a new session of an agent would have, without one. Raises what ``compose`` and ``evaluate`` raise."""
    row = kernel.new_session(agent, principal)
    return (await kernel.enter(row, agent, principal=principal, env=env, agent_id=agent_id)).snapshot


async def diff_agents(
    kernel: Kernel, before: Loaded, after: Loaded, *, principal: Principal, env: Mapping[str, Any]
) -> AgentDiff:
    """Compare two versions of one agent, as they are for this principal in this environment today."""
    notices: list[str] = []
    sides: list[Side] = []
    for one in (before, after):
        where = f"version {_version(one)}: "
        try:
            snapshot = await snapshot_of(kernel, one.agent, principal=principal, env=env, agent_id=one.id)
            sides.append(side_of(envelope_of(snapshot)))
            notices += [where + notice for notice in one.notices]
        except DefinitionError as error:
            notices += [where + notice for notice in dict.fromkeys((*one.notices, error.message))]
    composed = diff_sides(*sides) if len(sides) == 2 else None
    written = [{} if one.row is None else plain_of(one.row) for one in (before, after)]
    return AgentDiff(_version(before), _version(after), tuple(changes_of(*written)), composed, tuple(notices))


def changes_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    """Yield what differs between two written agents, field by field; capabilities go by their ids."""
    for name in sorted({*before, *after}):
        if name not in after:
            yield Change(name, "removed", before=before[name])
        elif name not in before:
            yield Change(name, "added", after=after[name])
        else:
            yield from _compared(name, before[name], after[name])


def _compared(name: str, before: Any, after: Any) -> Iterator[Change]:
    if name == "capabilities":
        return compare_named(name, before, after, _id_of)
    return compare(name, before, after)


def _id_of(entry: Any) -> str | None:  # an id, or an entry with one
    return entry if isinstance(entry, str) else entry["id"]


def _version(one: Loaded) -> int:
    return 1 if one.row is None else one.row.version
