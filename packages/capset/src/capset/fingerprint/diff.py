"""Comparison of two versions by hash: changed hashes, and added, removed or changed tools (spec 2, F30, F31)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast, get_args

from capset.fingerprint.hashes import Ref
from capset.fingerprint.links import CapabilityLink

HashName = Literal["static", "runtime", "prompt", "invocation"]
HASHES: Final[tuple[HashName, ...]] = get_args(HashName)
"""The hashes of a link."""
_LABELS: Final[Mapping[HashName, str]] = {
    "static": "definition",
    "runtime": "tools in play",
    "prompt": "prompt",
    "invocation": "invocation",
}
"""What each hash covers, in words."""


@dataclass(frozen=True, slots=True)
class ChangedRef:
    """A reference with the same name and a different hash."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ToolsDiff:
    """The tools that were added, removed and changed, each by name, and the number of unchanged ones."""

    added: tuple[Ref, ...]
    removed: tuple[Ref, ...]
    changed: tuple[ChangedRef, ...]
    unchanged: int

    @property
    def differs(self) -> bool:
        """Whether any tool was added, removed or changed."""
        return bool(self.added or self.removed or self.changed)


@dataclass(frozen=True, slots=True)
class ChangedHash:
    """A hash that has changed; ``None`` means no invocation."""

    name: HashName
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class ChangedCode:
    """Tools whose code changed from the same old hash to the same new one.

    ``tools`` names those with an unchanged definition, ``changed`` those whose definition changed too.
    """

    before: str
    after: str
    tools: tuple[str, ...]
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LinksDiff:
    """The changed hashes, the profiles if they differ, the tools and their code.

    Agent ids and names are not compared, nor is code that has no hash on one side.
    """

    hashes: tuple[ChangedHash, ...]
    profiles: tuple[str, str] | None
    tools: ToolsDiff
    code: tuple[ChangedCode, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether anything hashed differs."""
        return bool(self.hashes or self.profiles or self.tools.differs or self.code)


def diff_tools(before: Iterable[Ref], after: Iterable[Ref]) -> ToolsDiff:
    """Compare the tools of two versions, by name."""
    ours, theirs = Counter(before), Counter(after)
    added, removed = _by_name(theirs - ours), _by_name(ours - theirs)
    changed: list[ChangedRef] = []
    for name in sorted(added.keys() & removed.keys()):
        pairs = list(zip(removed[name], added[name], strict=False))
        changed += [ChangedRef(name, old.hash, other.hash) for old, other in pairs]
        removed[name], added[name] = removed[name][len(pairs) :], added[name][len(pairs) :]
    return ToolsDiff(_flat(added), _flat(removed), tuple(changed), (ours & theirs).total())


def diff_code(before: Iterable[Ref], after: Iterable[Ref]) -> tuple[ChangedCode, ...]:
    """Compare the code of the tools that are in both versions, where both references have its hash."""
    ours = {ref.name: ref for ref in before if ref.code is not None}
    changed: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for ref in sorted(after, key=lambda ref: ref.name):
        old = ours.get(ref.name)
        if old is not None and old.code is not None and ref.code is not None and old.code != ref.code:
            changed.setdefault((old.code, ref.code), ([], []))[old.hash != ref.hash].append(ref.name)
    return tuple(ChangedCode(*pair, tuple(same), tuple(other)) for pair, (same, other) in changed.items())


def diff_links(before: CapabilityLink, after: CapabilityLink) -> LinksDiff:
    """Compare two links: the hashes, the profile, the tools in play, and their code."""
    hashes = [ChangedHash(name, hash_of(before, name), hash_of(after, name)) for name in HASHES]
    return LinksDiff(
        tuple(changed_hash for changed_hash in hashes if changed_hash.before != changed_hash.after),
        None if before.profile == after.profile else (before.profile, after.profile),
        diff_tools(before.tool_refs, after.tool_refs),
        diff_code(before.tool_refs, after.tool_refs),
    )


def explain_relationship(before: CapabilityLink, after: CapabilityLink) -> str:
    """Describe in one sentence what two links have in common, and what differs."""
    if before.profile != after.profile:
        profiles = f"{before.profile} and {after.profile}"
        return f"Hashed with different profiles, {profiles}, so the hashes cannot be compared."
    diff = diff_links(before, after)
    changed = {changed_hash.name for changed_hash in diff.hashes}
    names: list[HashName] = [name for name in HASHES if hash_of(before, name) or hash_of(after, name)]
    unchanged = _enumerated(_LABELS[name] for name in names if name not in changed)
    if not changed:
        return f"Same {unchanged}; different code." if diff.code else f"Same in all: {unchanged}."
    other = _enumerated([*(_LABELS[name] for name in names if name in changed), *(["code"] if diff.code else [])])
    return f"Same {unchanged}; different {other}." if unchanged else f"Nothing in common: different {other}."


def format_hash_short(hash: str | None) -> str:
    """Return the first twelve digits of a hash, or a dash if there is none."""
    return hash[:12] if hash else "–"


def hash_of(link: CapabilityLink, name: HashName) -> str | None:
    """Return one of a link's hashes by its name; ``None`` if there is no invocation."""
    return cast("str | None", getattr(link, f"{name}_hash"))


def _by_name(refs: Counter[Ref]) -> dict[str, list[Ref]]:
    by_name: dict[str, list[Ref]] = {}
    for ref in sorted(refs.elements(), key=lambda ref: (ref.name, ref.hash)):
        by_name.setdefault(ref.name, []).append(ref)
    return by_name


def _flat(refs: Mapping[str, Sequence[Ref]]) -> tuple[Ref, ...]:
    return tuple(ref for name in refs for ref in refs[name])


def _enumerated(names: Iterable[str]) -> str:
    *first, last = ("", *names)
    return f"{', '.join(first[1:])} and {last}" if first[1:] else last
