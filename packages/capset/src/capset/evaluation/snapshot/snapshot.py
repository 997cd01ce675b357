"""Snapshots of compositions: the tools that one principal may use here and now, and why the others are excluded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

from capset.composition.compose import Composition
from capset.composition.context import render_system
from capset.composition.installation import InstalledTool
from capset.composition.statics import static_parts
from capset.definitions.governance.hooks import NO_HOOKS, Hooks
from capset.definitions.governance.policies import Decision, Policy
from capset.definitions.principals import Principal
from capset.errors import NotFound, unknown
from capset.evaluation.plan import Group, Plan
from capset.evaluation.policies import FailedDecision, PolicyMode, rule
from capset.fingerprint.hashes import Ref, tool_hash
from capset.fingerprint.payloads import Payload, prompt_payload, runtime_payload, tool_payload


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a tool or a toolkit is in play, the reason, and the ids of the policies that decided."""

    in_play: bool
    reason: str
    policies: tuple[str, ...] = ()
    detail: str | None = None
    """The reason for the record if a policy failed: it includes the error's type."""


_NONE: Final[Mapping[str, Verdict]] = MappingProxyType({})


@dataclass(frozen=True, eq=False, init=False)
class Snapshot:
    """A composition as seen by one principal in one environment; made by ``evaluate()``.

    ``answers`` are the policies' decisions in the order of their evaluation. ``left_out`` are the numbers of the
    ``plan``'s groups whose tools are not in play. ``member_instructions`` are those of toolkits and tools in play.
    ``runtime_hash``, ``prompt_hash`` and ``invocation_hash`` are 64 hexadecimal digits; the last is ``None`` without an
    invocation. ``toolkits`` has a verdict for each dynamic toolkit, by its path. The values of ``env``, the labels and
    ``hooks`` come from the host. ``refusal`` is set if the principal was refused outright, so that nothing is in play,
    and gives the reason.
    """

    composition: Composition
    principal: Principal
    env: Mapping[str, Any]
    plan: Plan
    left_out: Set[int]
    answers: Mapping[Policy, Decision]
    member_instructions: tuple[str, ...]
    runtime_hash: str
    prompt_hash: str
    invocation_hash: str | None
    toolkits: Mapping[str, Verdict]
    namespace: str | None
    agent_id: str | None
    agent_name: str | None
    hooks: Hooks
    policy_mode: PolicyMode
    refusal: str | None

    def __init__(
        self,
        composition: Composition,
        principal: Principal,
        env: Mapping[str, Any],
        plan: Plan,
        left_out: Set[int],
        answers: Mapping[Policy, Decision],
        member_instructions: tuple[str, ...],
        runtime_hash: str,
        prompt_hash: str,
        invocation_hash: str | None = None,
        toolkits: Mapping[str, Verdict] = _NONE,
        namespace: str | None = None,
        agent_id: str | None = None,
        agent_name: str | None = None,
        hooks: Hooks = NO_HOOKS,
        policy_mode: PolicyMode = "authoritative",
        refusal: str | None = None,
    ) -> None:
        # Every evaluation makes a snapshot. The __init__ of a frozen dataclass sets fields one by one, which takes four
        # times as long.
        vars(self).update(
            composition=composition,
            principal=principal,
            env=env,
            plan=plan,
            left_out=left_out,
            answers=answers,
            member_instructions=member_instructions,
            runtime_hash=runtime_hash,
            prompt_hash=prompt_hash,
            invocation_hash=invocation_hash,
            toolkits=toolkits,
            namespace=namespace,
            agent_id=agent_id,
            agent_name=agent_name,
            hooks=hooks,
            policy_mode=policy_mode,
            refusal=refusal,
        )

    def with_refusal(self, reason: str) -> Snapshot:
        """Return a copy with nothing in play and no decisions, for a principal that is refused outright."""
        all_groups = frozenset(range(len(self.plan.groups)))
        return replace(
            self,
            left_out=all_groups,
            answers=MappingProxyType({}),
            member_instructions=(),
            runtime_hash=self.plan.runtime_hash(all_groups),
            prompt_hash=self.plan.prompt_hash(()),
            toolkits=_NONE,
            refusal=reason,
        )

    @property
    def static_hash(self) -> str:
        """The hash of the composition."""
        return self.composition.static_hash

    @property
    def installed(self) -> Mapping[str, InstalledTool]:
        """Every tool by name, in play or not, including members of dynamic toolkits."""
        return self.plan.installed

    @cached_property
    def tools(self) -> Mapping[str, InstalledTool]:
        """The tools in play, by the name that a model uses."""
        if not self.left_out:
            return self.plan.installed
        names = {entry.ref.name for entry in self.plan.included(self.left_out)}
        return MappingProxyType({name: installed for name, installed in self.plan.installed.items() if name in names})

    @cached_property
    def tool_refs(self) -> tuple[Ref, ...]:
        """The names and hashes of the tools in play, sorted by name, as covered by ``runtime_hash``."""
        return tuple([entry.ref for entry in self.plan.included(self.left_out)])

    @cached_property
    def verdicts(self) -> Mapping[str, Verdict]:
        """Whether each tool is in play, and why."""
        group_verdicts = [self._verdict(group) for group in self.plan.groups]
        groups = {entry.ref.name: entry.group for entry in self.plan.entries}
        return MappingProxyType({name: group_verdicts[groups[name]] for name in self.plan.installed})

    @property
    def decisions(self) -> Mapping[str, Decision]:
        """The decisions of all policies that were evaluated, by policy id."""
        return MappingProxyType({policy.id: decision for policy, decision in self.answers.items()})

    @property
    def failures(self) -> tuple[str, ...]:
        """The ids of the policies that failed and so deny; the log has the errors."""
        return tuple(policy.id for policy, decision in self.answers.items() if isinstance(decision, FailedDecision))

    @property
    def instructions(self) -> tuple[str, ...]:
        """The instructions that ``prompt_hash`` covers in addition to the system prompt."""
        return (*self.composition.instructions, *self.member_instructions)

    @property
    def system_text(self) -> str:
        """The text of a model's system prompt, without context, which is resolved at every step."""
        return render_system(
            self.composition.block.system_prompt, self.composition.merged.instructions, self.member_instructions
        )

    def explain(self, tool: str) -> Verdict:
        """Return whether a tool is in play, and why. Raises ``NotFound`` for an unknown name."""
        try:
            return self.verdicts[tool]
        except KeyError:
            denied_toolkits = [
                f"{path}: {verdict.reason}" for path, verdict in self.toolkits.items() if not verdict.in_play
            ]
            raise NotFound(
                unknown("tool", tool, self.verdicts),
                hint=f"these dynamic toolkits were not made: {'; '.join(denied_toolkits)}" if denied_toolkits else None,
            ) from None

    def _verdict(self, group: Group) -> Verdict:
        if self.refusal is not None:
            return Verdict(False, self.refusal)
        if missing := sorted(group.permissions - self.principal.permissions):
            return Verdict(False, f"{self.principal.id} lacks the permission {' and '.join(missing)}")
        return verdict_of(group.policies, self.answers)


def verdict_of(policies: Sequence[Policy], answers: Mapping[Policy, Decision]) -> Verdict:
    """Return the verdict that follows from the policies' answers. A policy without an answer does not block."""
    ruling = rule([(policy, answers[policy]) for policy in policies if policy in answers])
    if ruling.kind != "allow":
        detail = ruling.detail if ruling.detail != ruling.reason else None
        return Verdict(ruling.kind == "ask", ruling.reason, ruling.policies, detail)
    if not policies:
        return Verdict(True, "no policy applies to it")
    allowing, pending = ruling.policies, [policy.id for policy in policies if policy not in answers]
    reasons = [f"allowed by {', '.join(allowing)}"] if allowing else []
    reasons += [f"each call asks {', '.join(pending)}"] if pending else []
    return Verdict(True, "; ".join(reasons), tuple(policy.id for policy in policies))


def covered_payloads(snapshot: Snapshot) -> Mapping[str, Payload]:
    """Return the payload of every hash of a snapshot.

    These are the payloads of the definition and everything it references, of all tools, in play or not, of the runtime
    and of the prompt. The invocation's payload is excluded, since it identifies the end user.
    """
    payloads = {part.hash: part.payload for part in static_parts(snapshot.composition)}
    payloads |= {tool_hash(installed.tool): tool_payload(installed.tool) for installed in snapshot.installed.values()}
    payloads[snapshot.runtime_hash] = runtime_payload(ref.payload for ref in snapshot.tool_refs)
    payloads[snapshot.prompt_hash] = prompt_payload(snapshot.composition.block.system_prompt, snapshot.instructions)
    return payloads
