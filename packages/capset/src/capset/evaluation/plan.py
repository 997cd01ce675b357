"""The plan of a composition, computed once: its tools in groups, with their fragments of the runtime payload."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence, Set
from itertools import chain
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple
from weakref import WeakKeyDictionary

from capset.composition.compose import Composition
from capset.composition.installation import InstalledTool, InstalledToolkit, PolicyBinding
from capset.definitions.governance.policies import Decision, Policy, allow
from capset.definitions.tools.toolkits import AnyToolkit
from capset.fingerprint.canonical import canonical
from capset.fingerprint.hashes import Ref, prompt_hash, tool_hash
from capset.fingerprint.payloads import runtime_payload


class Group(NamedTuple):
    """Tools with the same policies and permissions, which are in play together or not at all."""

    policies: tuple[Policy, ...]
    permissions: frozenset[str]


class PlanEntry(NamedTuple):
    """One tool of a plan, with the number of its group, its name and its hash."""

    installed: InstalledTool
    group: int
    ref: Ref


class Plan:
    """The tools of a composition, in groups and in the order of the runtime payload.

    ``steps`` are those of an evaluation in traversal order: the policies to evaluate and the dynamic toolkits to make.
    ``policies`` includes those that only calls evaluate. ``members_with_instructions`` is in traversal order.
    """

    __slots__ = (
        "_groups_of",
        "_hashes",
        "_instructions",
        "_payload",
        "_permissions",
        "_prompts",
        "_spans",
        "_system_prompt",
        "entries",
        "groups",
        "has_hooks",
        "installed",
        "is_dynamic",
        "members",
        "members_with_instructions",
        "policies",
        "steps",
    )

    _MAX_CACHED: ClassVar = 64
    """Maximum number of cached hashes, for selections of tools and of instructions each."""

    def __init__(
        self,
        composition: Composition,
        members: Sequence[InstalledTool | InstalledToolkit],
        tools: Mapping[str, InstalledTool],
        steps: Sequence[PolicyBinding | InstalledToolkit] = (),
    ) -> None:
        """``members`` and ``tools`` are the composition's own, plus any made for one evaluation."""
        self.installed = tools
        self.members = members
        self.steps = [step for step in steps if needs_evaluation(step)]
        self.policies = [step.policy for step in steps if isinstance(step, PolicyBinding)]
        self.is_dynamic = len(self.policies) < len(steps)
        self.has_hooks = any(step.hooks for step in steps if isinstance(step, PolicyBinding))
        self.members_with_instructions = [
            member for member in members if _declared_instructions(member) and _is_current(member, tools)
        ]
        groups: dict[Group, int] = {}
        entries: list[PlanEntry] = []
        for name, installed in tools.items():
            group = groups.setdefault(Group(installed.policies, installed.tool.permissions), len(groups))
            ref = Ref(name, tool_hash(installed.tool))
            entries.append(PlanEntry(installed, group, ref))
        self.groups = tuple(groups)
        self._permissions = frozenset[str]().union(*(group.permissions for group in groups))
        self._groups_of: dict[str | Policy, list[int]] = {}
        for number, group in enumerate(groups):
            for reason in (*group.permissions, *group.policies):
                self._groups_of.setdefault(reason, []).append(number)
        self.entries = sorted(entries, key=lambda entry: (entry.ref.name, entry.ref.hash))
        self._system_prompt = composition.block.system_prompt
        self._instructions = composition.instructions
        fragments = [canonical(entry.ref.payload) for entry in self.entries]
        self._payload = _BEFORE + b",".join(fragments) + _AFTER
        self._spans: list[list[tuple[int, int]]] = [[] for _ in groups]
        end = len(_BEFORE)
        for entry, fragment in zip(self.entries, fragments, strict=True):
            begin, end = end, end + len(fragment) + 1
            self._spans[entry.group].append((begin, end))
        self._hashes: dict[frozenset[int], str] = {}
        self._prompts: dict[tuple[str, ...], str] = {}

    def left_out(self, permissions: Set[str], answers: Mapping[Policy, Decision]) -> frozenset[int]:
        """Return the numbers of the groups whose tools are not in play: a permission is missing, or a policy denies."""
        reasons = [*(self._permissions - permissions), *denied_by(answers)]
        return frozenset[int]().union(*[self._groups_of.get(reason, ()) for reason in reasons]) if reasons else _NONE

    def instructions_in_play(self, left_out: Set[int], answers: Mapping[Policy, Decision]) -> tuple[str, ...]:
        """Return the instructions of toolkits and tools in play, in traversal order.

        A toolkit contributes nothing if it is denied, or if none of its tools is in play.
        """
        return self._collect_instructions(left_out, answers) if self.members_with_instructions else ()

    def _collect_instructions(self, left_out: Set[int], answers: Mapping[Policy, Decision]) -> tuple[str, ...]:
        in_play = {entry.ref.name for entry in self.included(left_out)}
        used = {
            (member.source, member.path[:depth])
            for member in self.members
            if isinstance(member, InstalledToolkit) and not member.tools.isdisjoint(in_play)
            for depth in range(1, len(member.path) + 1)
        }
        denied = denied_by(answers)
        texts: dict[InstalledTool | tuple[AnyToolkit, tuple[str, ...]], tuple[str, ...]] = {}
        for member in self.members_with_instructions:
            if isinstance(member, InstalledTool):
                if member.name in in_play:
                    texts[member] = member.instructions
            elif denied.isdisjoint(member.policies) and (member.is_empty or (member.source, member.path) in used):
                instructions = member.instructions
                # A toolkit that is reached twice contributes its text once.
                texts.setdefault((member.toolkit, instructions), instructions)
        return tuple(chain.from_iterable(texts.values()))

    def included(self, left_out: Set[int]) -> Sequence[PlanEntry]:
        """Return the entries of all groups that are not left out, sorted by name."""
        return [entry for entry in self.entries if entry.group not in left_out] if left_out else self.entries

    def runtime_hash(self, left_out: frozenset[int]) -> str:
        """Return the hash of the ``runtime_payload`` of the tools in play, cached for each selection."""
        cached = self._hashes.get(left_out)
        if cached is None:
            if len(self._hashes) >= self._MAX_CACHED:
                self._hashes.clear()
            cached = self._hashes[left_out] = self._runtime_hash(left_out)
        return cached

    def _runtime_hash(self, left_out: frozenset[int]) -> str:
        if not left_out:
            return hashlib.sha256(self._payload).hexdigest()
        payload, pieces, begin = memoryview(self._payload), list[memoryview](), 0
        for start, end in sorted([span for number in left_out for span in self._spans[number]]):
            if start > begin:
                pieces.append(payload[begin:start])
            begin = end
        if begin < len(payload) - len(_AFTER):
            pieces.append(payload[begin:])
        else:  # the last tool is left out, so the comma before it goes too
            last = pieces.pop()
            pieces += last[:-1] if last[-1] == _COMMA else last, memoryview(_AFTER)
        return hashlib.sha256(b"".join(pieces)).hexdigest()

    def prompt_hash(self, member_instructions: tuple[str, ...]) -> str:
        """Return the hash of the prompt. ``member_instructions`` come from ``instructions_in_play``."""
        cached = self._prompts.get(member_instructions)
        if cached is None:
            if len(self._prompts) >= self._MAX_CACHED:
                self._prompts.clear()
            cached = self._prompts[member_instructions] = prompt_hash(
                self._system_prompt, (*self._instructions, *member_instructions)
            )
        return cached


def needs_evaluation(step: PolicyBinding | InstalledToolkit) -> bool:
    """Whether an evaluation takes a step. It takes all but policies of the phase ``call``."""
    return not isinstance(step, PolicyBinding) or step.policy.is_asked_at_evaluation


def denied_by(answers: Mapping[Policy, Decision]) -> set[Policy]:
    """Return the policies that deny."""
    return {policy for policy, decision in answers.items() if decision is not _ALLOWED and decision.kind == "deny"}


def _declared_instructions(member: InstalledTool | InstalledToolkit) -> tuple[str, ...]:
    return member.instructions if isinstance(member, InstalledTool) else member.toolkit.instructions


def _is_current(member: InstalledTool | InstalledToolkit, tools: Mapping[str, InstalledTool]) -> bool:
    """Whether a member is still the installed tool of its name. A tool installed again has more policies now."""
    return isinstance(member, InstalledToolkit) or tools.get(member.name) is member


_EMPTY: Final = canonical(runtime_payload(()))
_MIDDLE: Final = _EMPTY.index(b"]")
_BEFORE, _AFTER = _EMPTY[:_MIDDLE], _EMPTY[_MIDDLE:]
_COMMA: Final = ord(",")
_NONE: Final = frozenset[int]()

_ALLOWED: Final = allow()
"""The most common answer."""

# A cache keyed by frozen values, like that of the hashes.
_PLANS: WeakKeyDictionary[Composition, Plan] = WeakKeyDictionary()


def plan_of(composition: Composition) -> Plan:
    """Return the plan of a composition, computed at first use."""
    plan = _PLANS.get(composition)
    if plan is None:
        merged = composition.merged
        tools = MappingProxyType(dict(merged.tools))
        plan = _PLANS[composition] = Plan(composition, merged.members, tools, merged.steps)
    return plan
