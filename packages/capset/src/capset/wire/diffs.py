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
from capset.wire.shapes import Shape, SparseShape


class ChangeShape(Shape):
    """A field that differs. ``before`` is absent if it was added, ``after`` if it was removed."""

    path: str
    kind: ChangeKind
    before: Any = None  # any JSON, including null
    after: Any = None


class HashChangeShape(Shape):
    """A hash or profile before and after; null if there was no invocation."""

    before: str | None
    after: str | None
    moved: bool


class ToolRefShape(Shape):
    """A tool that was added or removed. ``payload`` is what its hash covers, if known."""

    name: str
    hash: str
    payload: dict[str, Any] | None = None


class ToolChangeShape(Shape):
    """A tool that changed, by its hashes. ``changes`` is absent if only the hashes are known.

    ``gates`` are the policies other than its own that apply to it on one side only.
    """

    name: str
    before: str
    after: str
    changes: list[ChangeShape] | None = None
    gates: list[ChangeShape]


class ToolsShape(Shape):
    """The tools in play. ``gated`` are unchanged but have other policies; ``stayed`` is the number of equal hashes."""

    came: list[ToolRefShape]
    went: list[ToolRefShape]
    changed: list[ToolChangeShape]
    gated: list[ToolChangeShape]
    stayed: int


class PolicyDecisionShape(Shape):
    """A policy's decision."""

    kind: Literal["allow", "ask", "deny"]
    reason: str | None


class PolicyChangeShape(Shape):
    """A policy that was added or removed, or whose decision changed, with its decision on each side that asked it."""

    id: str
    kind: PolicyKind
    before: PolicyDecisionShape | None = None
    after: PolicyDecisionShape | None = None


class ModeShape(Shape):
    """The policy mode before and after, if it differs."""

    before: PolicyMode
    after: PolicyMode


class PayloadChangeShape(Shape):
    """A payload of the definition whose hash differs. ``name`` is absent for the definition itself."""

    kind: str
    name: str | None = None
    before: str
    after: str
    changes: list[ChangeShape] | None = None


class CodeChangeShape(Shape):
    """Tools whose code changed, by the hashes of the code.

    ``tools`` have the same definition as before, ``changed`` have another one. ``changes`` lists the files that differ,
    and is absent if only the hashes are known.
    """

    before: str
    after: str
    tools: list[str]
    changed: list[str]
    changes: list[ChangeShape] | None = None


class DiffShape(SparseShape):
    """The differences. ``policies``, ``prompt`` and ``definition`` are absent if one side has only hashes.

    ``differs`` says whether anything differs besides what ``notes`` mention, which no hash covers.
    """

    differs: bool
    relationship: str
    profile: HashChangeShape
    hashes: dict[HashName, HashChangeShape]
    tools: ToolsShape
    policies: list[PolicyChangeShape] | None = None
    mode: ModeShape | None = None
    prompt: list[ChangeShape] | None = None
    definition: list[PayloadChangeShape] | None = None
    code: list[CodeChangeShape]
    notes: list[str]


def diff_shape(diff: Diff) -> DiffShape:
    """Return the wire shape of a comparison."""
    before, after = diff.before, diff.after
    optional: dict[str, Any] = {}  # omitted members must stay unset
    if diff.policies is not None:
        optional["policies"] = [_policy_change_shape(policy) for policy in diff.policies]
    if diff.modes is not None:
        optional["mode"] = ModeShape(before=diff.modes[0], after=diff.modes[1])
    if diff.prompt is not None:
        optional["prompt"] = change_shapes(diff.prompt)
    if diff.definition is not None:
        optional["definition"] = [_payload_change_shape(part) for part in diff.definition]
    return DiffShape(
        differs=diff.differs,
        relationship=explain_relationship(before, after),
        profile=_hash_change_shape(before.profile, after.profile),
        hashes={name: _hash_change_shape(hash_of(before, name), hash_of(after, name)) for name in HASHES},
        tools=ToolsShape(
            came=[_tool_ref_shape(tool) for tool in diff.tools if tool.kind == "added"],
            went=[_tool_ref_shape(tool) for tool in diff.tools if tool.kind == "removed"],
            changed=[_tool_change_shape(tool) for tool in diff.tools if tool.kind == "changed"],
            gated=[_tool_change_shape(tool) for tool in diff.tools if tool.kind == "gated"],
            stayed=diff.links.tools.unchanged,
        ),
        **optional,
        code=[_code_change_shape(change) for change in diff.code],
        notes=list(diff.notes),
    )


def _hash_change_shape(before: str | None, after: str | None) -> HashChangeShape:
    return HashChangeShape(before=before, after=after, moved=before != after)


def change_shapes(changes: Iterable[Change]) -> list[ChangeShape]:
    """Return the wire shapes of some differences."""
    return [_change_shape(change) for change in changes]


def _change_shape(change: Change) -> ChangeShape:
    match change.kind:
        case "added":
            return ChangeShape(path=change.path, kind=change.kind, after=change.after)
        case "removed":
            return ChangeShape(path=change.path, kind=change.kind, before=change.before)
        case _:
            return ChangeShape(path=change.path, kind=change.kind, before=change.before, after=change.after)


def _tool_ref_shape(tool: ToolChange) -> ToolRefShape:
    payload = tool.payloads[0] or tool.payloads[1]
    optional: dict[str, Any] = {} if payload is None else {"payload": dict(payload)}
    return ToolRefShape(name=tool.name, hash=tool.before or tool.after or "", **optional)


def _tool_change_shape(tool: ToolChange) -> ToolChangeShape:
    optional: dict[str, Any] = {} if tool.changes is None else {"changes": change_shapes(tool.changes)}
    return ToolChangeShape(
        name=tool.name, before=tool.before or "", after=tool.after or "", **optional, gates=change_shapes(tool.gates)
    )


def _policy_change_shape(policy: PolicyChange) -> PolicyChangeShape:
    answers = {"before": policy.before, "after": policy.after}
    optional: dict[str, Any] = {
        side: _policy_decision_shape(result) for side, result in answers.items() if result is not None
    }
    return PolicyChangeShape(id=policy.id, kind=policy.kind, **optional)


def _policy_decision_shape(result: PolicyResult) -> PolicyDecisionShape:
    return PolicyDecisionShape(kind=result.kind, reason=result.reason)


def _code_change_shape(change: CodeChange) -> CodeChangeShape:
    code = change.code
    optional: dict[str, Any] = {} if change.changes is None else {"changes": change_shapes(change.changes)}
    return CodeChangeShape(
        before=code.before, after=code.after, tools=list(code.tools), changed=list(code.changed), **optional
    )


def _payload_change_shape(part: PartChange) -> PayloadChangeShape:
    optional: dict[str, Any] = {} if part.name is None else {"name": part.name}
    if part.changes is not None:
        optional["changes"] = change_shapes(part.changes)
    return PayloadChangeShape(kind=part.kind, before=part.before, after=part.after, **optional)


class FingerprintDiffShape(Shape):
    """The differences between the payloads of two hashes of one kind. There are none if the hashes are equal."""

    before: str
    after: str
    kind: str
    changes: list[ChangeShape]


class ExcludedToolShape(Shape):
    """A tool that is no longer in play, or that ``hydrate`` refuses, and the reason."""

    name: str
    reason: str


class HydrateShape(Shape):
    """Whether ``hydrate`` accepts the envelope, the tools that it refuses, or why it refuses the whole envelope."""

    accepts: bool
    refused: list[ExcludedToolShape]
    reason: str | None


class ReplayShape(Shape):
    """The tools that were in play then and those that are now, by name. ``diff`` has their changes and the policies.

    ``attributes`` are the principal's; those with names of secrets are masked. ``dropped`` are the paths in ``env``
    that the envelope does not contain; ``notes`` list what else could not be reproduced.
    """

    agent: str
    agent_id: str
    principal: str
    permissions: list[str]
    attributes: dict[str, Any]
    differs: bool
    both: list[str]
    only_then: list[ExcludedToolShape]
    only_now: list[str]
    changed: list[str]
    flipped: list[str]
    hydrate: HydrateShape
    dropped: list[str]
    notes: list[str]
    diff: DiffShape

    def plain(self) -> dict[str, Any]:
        """Return plain JSON data. Unknown members of the comparison are omitted."""
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
        only_then=[
            ExcludedToolShape(name=missing_tool.name, reason=missing_tool.reason) for missing_tool in replay.missing
        ],
        only_now=list(replay.only_now),
        changed=[tool.name for tool in replay.changed],
        flipped=[policy.id for policy in replay.flipped],
        hydrate=HydrateShape(
            accepts=refusal is None,
            refused=[ExcludedToolShape(name=misfit.path, reason=misfit.expected) for misfit in replay.refused],
            reason=None if refusal is None else refusal.message,
        ),
        dropped=list(replay.dropped),
        notes=list(replay.notes),
        diff=diff_shape(replay.diff),
    )
