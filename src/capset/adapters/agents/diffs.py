"""Comparison of two versions of an agent: their definitions, and their compositions (spec 5, P5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from capset.adapters.agents.permissions import Author, needs_admin
from capset.adapters.agents.rows import plain_of
from capset.adapters.agents.store import Loaded
from capset.composition.compose import Composition
from capset.definitions.principals import Principal
from capset.errors import DefinitionError
from capset.evaluation.code import read_code
from capset.evaluation.compare.comparison import diff_sides
from capset.evaluation.compare.differences import Diff
from capset.evaluation.compare.sides import Side, side_of
from capset.evaluation.snapshot.capture import envelope_of
from capset.fingerprint.changes import Change, compare, compare_named
from capset.kernel.kernel import Kernel


@dataclass(frozen=True, eq=False, slots=True)
class AgentDiff:
    """Two versions compared: ``changes`` of the definition, and ``composed``, the compositions for one principal.

    ``composed`` is ``None`` if one of them can no longer be composed, or only an administrator may evaluate it;
    ``notices`` give the reason, and name what is gone.
    """

    before: int
    after: int
    changes: tuple[Change, ...]
    composed: Diff | None
    notices: tuple[str, ...]


async def diff_agents(
    kernel: Kernel,
    before: Loaded,
    after: Loaded,
    *,
    present: Loaded,
    author: Author,
    principal: Principal,
    env: Mapping[str, Any],
) -> AgentDiff:
    """Compare two versions of one agent, as they are today for this principal in this environment.

    A version with high-risk capabilities that the ``present`` one lacks is evaluated for administrators only, because
    evaluation runs policies and makes dynamic toolkits.
    """
    notices: list[str] = []
    sides: list[Side] = []
    enabled = None if author.is_admin else _composed(kernel, present)
    for one in (before, after):
        where = f"version {_version(one)}: "
        told = one.notices
        try:
            composition = kernel.compose(one.agent)
            if not author.is_admin and (needed := needs_admin(composition, enabled)):
                names = ", ".join(map(repr, needed))
                told = (*told, f"not evaluated, since only an administrator enables {names}")
            else:
                snapshot = await kernel.evaluate(composition, principal=principal, env=env, agent_id=one.id)
                await read_code(snapshot)
                sides.append(side_of(envelope_of(snapshot)))
        except DefinitionError as error:
            told = dict.fromkeys((*told, error.message))
        notices += [where + notice for notice in told]
    composed = diff_sides(*sides) if len(sides) == 2 else None
    written = [{} if one.row is None else plain_of(one.row) for one in (before, after)]
    return AgentDiff(_version(before), _version(after), tuple(changes_of(*written)), composed, tuple(notices))


def changes_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    """Yield the differences between two definitions, field by field; capabilities are matched by id."""
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


def _composed(kernel: Kernel, one: Loaded) -> Composition | None:
    try:
        return kernel.compose(one.agent)
    except DefinitionError:
        return None  # then none of its capabilities counts as enabled


def _version(one: Loaded) -> int:
    return 1 if one.row is None else one.row.version
