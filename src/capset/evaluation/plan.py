"""What evaluating a composition takes, worked out once: tools by their gates, and their fragments of the payload."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import NamedTuple
from weakref import WeakKeyDictionary

from capset.composition.compose import Composition
from capset.composition.installing import Gate, Installed, InstalledToolkit
from capset.definitions.policies import Decision, Policy
from capset.fingerprint.canonical import canonical
from capset.fingerprint.hashes import Ref, prompt_hash, tool_hash
from capset.fingerprint.payloads import runtime_payload

_KEPT_PROMPTS = 64


class Group(NamedTuple):
    """Tools that are in play together or not at all: the same gates, the same permissions."""

    gates: tuple[Policy, ...]
    permissions: frozenset[str]


class Entry(NamedTuple):
    """One tool of a plan: the number of its group, and what the runtime payload says of it."""

    installed: Installed
    group: int
    ref: Ref
    fragment: str


class Plan:
    """The tools of a composition in groups, and in the runtime payload's order.

    ``steps`` are the gates and the dynamic toolkits in traversal order, ``speaking`` the members with instructions.
    """

    __slots__ = (
        "_prompts",
        "_system_prompt",
        "_whole",
        "entries",
        "groups",
        "installed",
        "members",
        "speaking",
        "steps",
    )

    def __init__(
        self,
        composition: Composition,
        members: Sequence[Installed | InstalledToolkit],
        tools: Mapping[str, Installed],
        steps: Sequence[Gate | InstalledToolkit] = (),
    ) -> None:
        """``members`` and ``tools`` are the composition's own, with what was made for one evaluation, if anything."""
        self.installed = tools
        self.members = members
        self.steps = steps
        self.speaking = [one for one in members if _texts(one) and _is_current(one, tools)]
        groups: dict[Group, int] = {}
        entries: list[Entry] = []
        for name, one in tools.items():
            group = groups.setdefault(Group(one.gates, one.tool.permissions), len(groups))
            ref = Ref(name, tool_hash(one.tool))
            entries.append(Entry(one, group, ref, canonical(ref.payload).decode()))
        self.groups = tuple(groups)
        self.entries = sorted(entries, key=lambda entry: (entry.ref.name, entry.ref.hash))
        self._system_prompt = composition.block.system_prompt
        self._whole = self._payload([entry.fragment for entry in self.entries])
        self._prompts: dict[tuple[str, ...], str] = {}

    def passing(self, permissions: Set[str], answers: Mapping[Policy, Decision]) -> tuple[bool, ...]:
        """Return for each group whether its tools are in play: nothing is missing, and no gate denies."""
        denied = denied_by(answers)
        return tuple([group.permissions <= permissions and denied.isdisjoint(group.gates) for group in self.groups])

    def told(self, passed: Sequence[bool], answers: Mapping[Policy, Decision]) -> tuple[str, ...]:
        """Return the instructions of toolkits and tools in play, in traversal order (F18).

        A toolkit that is denied says nothing, and neither does one of whose tools none is in play.
        """
        if not self.speaking:
            return ()
        there = {entry.ref.name: entry.installed for entry in self.chosen(passed)}
        within = {
            (one.source, one.toolkits[:depth]) for one in there.values() for depth in range(1, len(one.toolkits) + 1)
        }
        denied = denied_by(answers)
        texts: list[str] = []
        for one in self.speaking:
            if isinstance(one, Installed):
                is_heard = one.name in there
            else:
                is_used = not one.tools.isdisjoint(there) or (one.source, one.path) in within
                is_heard = denied.isdisjoint(one.gates) and (is_used or one.is_empty)
            texts += one.instructions if is_heard else ()
        return tuple(texts)

    def chosen(self, passed: Sequence[bool]) -> Iterable[Entry]:
        """Return the entries whose groups pass, by name."""
        return self.entries if all(passed) else [entry for entry in self.entries if passed[entry.group]]

    def runtime_hash(self, passed: Sequence[bool]) -> str:
        """Return the hash of the tools whose groups pass: that of their ``runtime_payload``."""
        if all(passed):
            payload = self._whole
        else:
            payload = self._payload([entry.fragment for entry in self.entries if passed[entry.group]])
        return hashlib.sha256(payload).hexdigest()

    def prompt_hash(self, instructions: tuple[str, ...]) -> str:
        """Return the hash of what the model is told, which is much the same every time."""
        known = self._prompts.get(instructions)
        if known is None:
            if len(self._prompts) >= _KEPT_PROMPTS:
                self._prompts.clear()
            known = self._prompts[instructions] = prompt_hash(self._system_prompt, instructions)
        return known

    @staticmethod
    def _payload(fragments: Iterable[str]) -> bytes:
        return f"{_BEFORE}{','.join(fragments)}]{_AFTER}".encode()


def denied_by(answers: Mapping[Policy, Decision]) -> set[Policy]:
    """Return the policies that deny."""
    return {policy for policy, decision in answers.items() if decision.kind == "deny"}


def _texts(member: Installed | InstalledToolkit) -> tuple[str, ...]:
    return member.instructions if isinstance(member, Installed) else member.toolkit.instructions


def _is_current(member: Installed | InstalledToolkit, tools: Mapping[str, Installed]) -> bool:
    """Whether a tool stands as its member says: one that was made again has more gates now."""
    return isinstance(member, InstalledToolkit) or tools.get(member.name) is member


_BEFORE, _AFTER = canonical(runtime_payload(())).decode().split("]")

# A memo over frozen values, as that of the hashes is.
_PLANS: WeakKeyDictionary[Composition, Plan] = WeakKeyDictionary()


def plan_of(composition: Composition) -> Plan:
    """Return the plan of a composition, worked out at first use."""
    known = _PLANS.get(composition)
    if known is None:
        merged = composition.merged
        tools = MappingProxyType(dict(merged.tools))
        known = _PLANS[composition] = Plan(composition, merged.members, tools, merged.steps)
    return known
