"""The differences between two evaluations (spec 2, F31)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from capset.evaluation.policies import PolicyMode
from capset.evaluation.snapshot.envelope import PolicyResult
from capset.fingerprint.changes import Change
from capset.fingerprint.diff import ChangedCode, LinksDiff
from capset.fingerprint.links import CapabilityLink
from capset.fingerprint.payload_changes import diff_payloads
from capset.fingerprint.payloads import Payload

ToolKind = Literal["came", "went", "changed", "gated"]
"""``gated``: the tool is the same, and its policies differ."""
PolicyKind = Literal["came", "went", "flipped"]


@dataclass(frozen=True, slots=True)
class ToolChange:
    """A tool that came, went or changed. A payload is ``None`` if only the hash is known.

    ``gates`` are the changes of the policies that apply to it here and are not its own.
    """

    name: str
    kind: ToolKind
    before: str | None
    after: str | None
    payloads: tuple[Payload | None, Payload | None] = (None, None)
    gates: tuple[Change, ...] = ()

    @property
    def changes(self) -> tuple[Change, ...] | None:
        """The changes of the tool, field by field, or ``None`` if they are not known."""
        return changes_of(self.before, self.after, *self.payloads)


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """A policy whose answer differs; ``None`` on a side where it was not asked."""

    id: str
    before: PolicyResult | None
    after: PolicyResult | None

    @property
    def kind(self) -> PolicyKind:
        """The kind of the change."""
        return "came" if self.before is None else "went" if self.after is None else "flipped"


@dataclass(frozen=True, slots=True)
class PartChange:
    """A payload of the definition with a different hash: the agent's or the block's own, or one that it uses.

    ``name`` is ``None`` for the definition itself; ``changes`` is ``None`` if only the hashes are known.
    """

    kind: str
    name: str | None
    before: str
    after: str
    changes: tuple[Change, ...] | None


@dataclass(frozen=True, slots=True)
class CodeChange:
    """Tools whose code differs; ``changes`` is ``None`` if only the hashes of the code are known."""

    code: ChangedCode
    changes: tuple[Change, ...] | None


@dataclass(frozen=True, slots=True)
class Diff:
    """The differences between two evaluations. A field is ``None`` if it is not known, since one side has only hashes.

    ``definition`` are the payloads that changed, the outermost first; ``code`` are the differences in the code behind
    the tools, as far as both sides have hashes of code. ``notes`` are the differences that are never hashed.
    """

    before: CapabilityLink
    after: CapabilityLink
    links: LinksDiff
    tools: tuple[ToolChange, ...]
    prompt: tuple[Change, ...] | None
    definition: tuple[PartChange, ...] | None
    policies: tuple[PolicyChange, ...] | None
    modes: tuple[PolicyMode, PolicyMode] | None
    code: tuple[CodeChange, ...]
    notes: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether anything differs beyond the notes."""
        return bool(self.links.differs or self.tools or self.policies or self.modes)


def changes_of(
    old: str | None, new: str | None, before: Payload | None, after: Payload | None
) -> tuple[Change, ...] | None:
    """Return the changes between two hashes' payloads; nothing if the hashes are equal, or if one side has none."""
    if old == new or old is None or new is None:
        return ()
    return None if before is None or after is None else diff_payloads(before, after)
