"""Differences between two versions of an agent, on the wire (spec 2, F31)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from capset.evaluation.compare.differences import CodeChange, Diff, PartChange, PolicyChange, PolicyKind, ToolChange
from capset.evaluation.policies import PolicyMode
from capset.evaluation.replay.evaluation import Replay
from capset.evaluation.snapshot.envelope import PolicyResult
from capset.fingerprint.changes import Change, ChangeKind
from capset.fingerprint.diff import HASHES, HashName, explain_relationship, hash_of
from capset.wire.shapes import Shape


class ChangeShape(Shape):
    """One field that differs. ``before`` is left out of what was added, ``after`` of what was removed."""

    path: str
    kind: ChangeKind
    before: Any = None  # JSON of every type, null among them
    after: Any = None


class MovedShape(Shape):
    """A hash or a profile before and after; null for no invocation."""

    before: str | None
    after: str | None
    moved: bool


class ToolRefShape(Shape):
    """A tool that came or went; ``payload`` is what its hash covers, if that is known."""

    name: str
    hash: str
    payload: dict[str, Any] | None = None


class ToolChangeShape(Shape):
    """A tool that changed, by its hashes; ``changes`` are left out where only those are known.

    ``gates`` are the policies, beside its own, that stand before it on one side only.
    """

    name: str
    before: str
    after: str
    changes: list[ChangeShape] | None = None
    gates: list[ChangeShape]


class ToolsShape(Shape):
    """The tools in play: ``gated`` are the same as before, behind other policies; ``stayed`` counts equal hashes."""

    came: list[ToolRefShape]
    went: list[ToolRefShape]
    changed: list[ToolChangeShape]
    gated: list[ToolChangeShape]
    stayed: int


class AnswerShape(Shape):
    """What a policy said."""

    kind: Literal["allow", "ask", "deny"]
    reason: str | None


class PolicyChangeShape(Shape):
    """A policy that came, went or flipped, with its answers on the sides that asked it."""

    id: str
    kind: PolicyKind
    before: AnswerShape | None = None
    after: AnswerShape | None = None


class ModeShape(Shape):
    """The policy mode, where it differs."""

    before: PolicyMode
    after: PolicyMode


class PartShape(Shape):
    """A payload of the definition that has another hash; ``name`` is left out for the definition itself."""

    kind: str
    name: str | None = None
    before: str
    after: str
    changes: list[ChangeShape] | None = None


class CodeChangeShape(Shape):
    """Tools with other code, from one hash of it to another.

    ``tools`` have the same definition still, ``changed`` have another; ``changes`` are of the files, and left out where
    only the hashes are known.
    """

    before: str
    after: str
    tools: list[str]
    changed: list[str]
    changes: list[ChangeShape] | None = None


class DiffShape(Shape):
    """What differs. ``policies``, ``prompt`` and ``definition`` are left out where one side has only hashes.

    ``differs`` says whether there is more than what ``notes`` tell, which is never hashed.
    """

    differs: bool
    relationship: str
    profile: MovedShape
    hashes: dict[HashName, MovedShape]
    tools: ToolsShape
    policies: list[PolicyChangeShape] | None = None
    mode: ModeShape | None = None
    prompt: list[ChangeShape] | None = None
    definition: list[PartShape] | None = None
    code: list[CodeChangeShape]
    notes: list[str]

    def plain(self) -> dict[str, Any]:
        """Return plain JSON data; unknown members are omitted, and a null is data."""
        return self.model_dump(mode="json", exclude_unset=True)


def diff_shape(diff: Diff) -> DiffShape:
    """Return the wire shape of a comparison."""
    before, after = diff.before, diff.after
    optional: dict[str, Any] = {}  # omitted members must stay unset
    if diff.policies is not None:
        optional["policies"] = [_policy(policy) for policy in diff.policies]
    if diff.modes is not None:
        optional["mode"] = ModeShape(before=diff.modes[0], after=diff.modes[1])
    if diff.prompt is not None:
        optional["prompt"] = change_shapes(diff.prompt)
    if diff.definition is not None:
        optional["definition"] = [_part(part) for part in diff.definition]
    return DiffShape(
        differs=diff.differs,
        relationship=explain_relationship(before, after),
        profile=_moved(before.profile, after.profile),
        hashes={name: _moved(hash_of(before, name), hash_of(after, name)) for name in HASHES},
        tools=ToolsShape(
            came=[_ref(tool) for tool in diff.tools if tool.kind == "came"],
            went=[_ref(tool) for tool in diff.tools if tool.kind == "went"],
            changed=[_tool(tool) for tool in diff.tools if tool.kind == "changed"],
            gated=[_tool(tool) for tool in diff.tools if tool.kind == "gated"],
            stayed=diff.links.tools.stayed,
        ),
        **optional,
        code=[_code(change) for change in diff.code],
        notes=list(diff.notes),
    )


def _moved(before: str | None, after: str | None) -> MovedShape:
    return MovedShape(before=before, after=after, moved=before != after)


def change_shapes(changes: Iterable[Change]) -> list[ChangeShape]:
    """Return the wire shapes of some differences."""
    return [_change(change) for change in changes]


def _change(change: Change) -> ChangeShape:
    match change.kind:
        case "added":
            return ChangeShape(path=change.path, kind=change.kind, after=change.after)
        case "removed":
            return ChangeShape(path=change.path, kind=change.kind, before=change.before)
        case _:
            return ChangeShape(path=change.path, kind=change.kind, before=change.before, after=change.after)


def _ref(tool: ToolChange) -> ToolRefShape:
    payload = tool.payloads[0] or tool.payloads[1]
    optional: dict[str, Any] = {} if payload is None else {"payload": dict(payload)}
    return ToolRefShape(name=tool.name, hash=tool.before or tool.after or "", **optional)


def _tool(tool: ToolChange) -> ToolChangeShape:
    optional: dict[str, Any] = {} if tool.changes is None else {"changes": change_shapes(tool.changes)}
    return ToolChangeShape(
        name=tool.name, before=tool.before or "", after=tool.after or "", **optional, gates=change_shapes(tool.gates)
    )


def _policy(policy: PolicyChange) -> PolicyChangeShape:
    answers = {"before": policy.before, "after": policy.after}
    optional: dict[str, Any] = {side: _answer(result) for side, result in answers.items() if result is not None}
    return PolicyChangeShape(id=policy.id, kind=policy.kind, **optional)


def _answer(result: PolicyResult) -> AnswerShape:
    return AnswerShape(kind=result.kind, reason=result.reason)


def _code(change: CodeChange) -> CodeChangeShape:
    code = change.code
    optional: dict[str, Any] = {} if change.changes is None else {"changes": change_shapes(change.changes)}
    return CodeChangeShape(
        before=code.before, after=code.after, tools=list(code.tools), changed=list(code.changed), **optional
    )


def _part(part: PartChange) -> PartShape:
    optional: dict[str, Any] = {} if part.name is None else {"name": part.name}
    if part.changes is not None:
        optional["changes"] = change_shapes(part.changes)
    return PartShape(kind=part.kind, before=part.before, after=part.after, **optional)


class FingerprintDiffShape(Shape):
    """The differences between the payloads of two hashes of one kind; none if the hashes are equal."""

    before: str
    after: str
    kind: str
    changes: list[ChangeShape]


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
        """Return plain JSON data; unknown members of the comparison are omitted."""
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
        only_then=[GoneShape(name=gone_tool.name, reason=gone_tool.reason) for gone_tool in replay.gone],
        only_now=list(replay.only_now),
        changed=[tool.name for tool in replay.changed],
        flipped=[policy.id for policy in replay.flipped],
        hydrate=HydrateShape(
            accepts=refusal is None,
            refused=[GoneShape(name=misfit.path, reason=misfit.expected) for misfit in replay.refused],
            reason=None if refusal is None else refusal.message,
        ),
        dropped=list(replay.dropped),
        notes=list(replay.notes),
        diff=diff_shape(replay.diff),
    )
