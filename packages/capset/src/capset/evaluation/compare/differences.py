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

ToolKind = Literal["added", "removed", "changed", "gated"]
"""``gated``: the tool is the same, but other policies apply to it."""
PolicyKind = Literal["came", "went", "flipped"]


@dataclass(frozen=True, slots=True)
class ToolChange:
    """A tool that was added, removed or changed, or to which other policies apply.

    A payload is ``None`` if only its hash is known. ``gates`` are the changes of policies that apply to the tool here
    but are not its own.
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
    """A policy whose result differs. A side is ``None`` if the policy was not evaluated there."""

    id: str
    before: PolicyResult | None
    after: PolicyResult | None

    @property
    def kind(self) -> PolicyKind:
        """The kind of the change."""
        return "came" if self.before is None else "went" if self.after is None else "flipped"


@dataclass(frozen=True, slots=True)
class PartChange:
    """A payload of the definition whose hash differs: that of the agent or block itself, or one that it uses.

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
    """The differences between two evaluations. A field is ``None`` if it is unknown because one side has only hashes.

    ``definition`` has the payloads that changed, outermost first. ``code`` has the differences in the code behind the
    tools, where both sides have code hashes. ``notes`` has the differences in data that is never hashed.
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
    """Return the changes between two payloads: ``()`` if a hash is missing or both are equal, ``None`` if unknown."""
    if old == new or old is None or new is None:
        return ()
    return None if before is None or after is None else diff_payloads(before, after)
