"""What a comparison of two evaluations says (spec 2, F31)."""

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
"""``gated``: the tool is the same, and other policies stand before it."""
PolicyKind = Literal["came", "went", "flipped"]


@dataclass(frozen=True, slots=True)
class ToolChange:
    """A tool that came, went or changed. A payload is ``None`` where only the hash is known.

    ``gates`` are the policies that gate it here and are not its own.
    """

    name: str
    kind: ToolKind
    before: str | None
    after: str | None
    payloads: tuple[Payload | None, Payload | None] = (None, None)
    gates: tuple[Change, ...] = ()

    @property
    def changes(self) -> tuple[Change, ...] | None:
        """What changed in it, field by field, or ``None`` if that is not known."""
        return changes_of(self.before, self.after, *self.payloads)


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """A policy whose answer is another one; ``None`` where it was not asked."""

    id: str
    before: PolicyResult | None
    after: PolicyResult | None

    @property
    def kind(self) -> PolicyKind:
        """What has become of it."""
        return "came" if self.before is None else "went" if self.after is None else "flipped"


@dataclass(frozen=True, slots=True)
class PartChange:
    """A payload of the definition that has another hash: of the agent or the block itself, or of what it uses.

    ``name`` is ``None`` for the definition itself; ``changes`` where only the hashes are known.
    """

    kind: str
    name: str | None
    before: str
    after: str
    changes: tuple[Change, ...] | None


@dataclass(frozen=True, slots=True)
class CodeChange:
    """Tools that have other code; ``changes`` are ``None`` where only the hashes of the code are known."""

    code: ChangedCode
    changes: tuple[Change, ...] | None


@dataclass(frozen=True, slots=True)
class Diff:
    """What differs between two evaluations. What is ``None`` is not known, since one side has only hashes.

    ``definition`` are the payloads that changed, the outermost first; ``code`` what differs beneath them, as far as
    both sides have hashes of code. ``notes`` say what differs and is never hashed.
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
        """Whether anything differs but what the notes say."""
        return bool(self.links.differs or self.tools or self.policies or self.modes)


def changes_of(
    old: str | None, new: str | None, before: Payload | None, after: Payload | None
) -> tuple[Change, ...] | None:
    """Return what changed between two hashes' payloads; nothing where the hashes are one, or one side has none."""
    if old == new or old is None or new is None:
        return ()
    return None if before is None or after is None else diff_payloads(before, after)
