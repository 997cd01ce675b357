"""From a composition to a snapshot: policies asked, dynamic toolkits made, what is in play decided (spec 2, F21)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, TypedDict

from capset.composition.compose import Composition
from capset.composition.installing import Gate, InstalledToolkit, Installing
from capset.definitions.contexts import Context
from capset.definitions.hooks import Hooks, merge_hooks
from capset.definitions.policies import Decision, Policy, Request
from capset.definitions.principals import Principal
from capset.definitions.toolkits import DynamicToolkit, ToolkitContext
from capset.errors import ToolkitFailed
from capset.evaluation.budget import Budget, OutOfTime
from capset.evaluation.growing import grown
from capset.evaluation.making import make_members
from capset.evaluation.plan import Plan, plan_of
from capset.evaluation.policies import ask_each, tell_asked
from capset.evaluation.snapshot import Snapshot, Verdict, verdict_of
from capset.fingerprint.hashes import invocation_hash

EVALUATION_SECONDS: Final = 10.0
"""How long the policies and the dynamic toolkits of one evaluation may take together, hooks not counted."""


class Labels(TypedDict, total=False):
    """What a host may say of one evaluation beside the principal and the environment; see ``evaluate``."""

    namespace: str | None
    agent_id: str | None
    agent_name: str | None
    invocation: Mapping[str, Any] | None
    invocation_allowlist: Iterable[str]
    hooks: Hooks | None


async def evaluate(
    composition: Composition,
    *,
    principal: Principal,
    env: Mapping[str, Any] | None = None,
    namespace: str | None = None,
    agent_id: str | None = None,
    agent_name: str | None = None,
    invocation: Mapping[str, Any] | None = None,
    invocation_allowlist: Iterable[str] = (),
    context: Context | None = None,
    hooks: Hooks | None = None,
    timeout: float = EVALUATION_SECONDS,
    results: Mapping[str, Decision] | None = None,
) -> Snapshot:
    """Decide which tools are in play. Every policy object is asked once, however many tools carry it (F17).

    Never shrinks silently: ``explain`` has a reason for every tool, and a dynamic toolkit that fails, fails the
    evaluation (F22).

    Args:
        composition: what there is.
        principal: who acts.
        env: what the host knows of this environment, in values of its own, which policies and handlers read; it never
            comes from the body of a request (F16).
        namespace: a label of the host's, for dynamic toolkits and envelopes; as ``agent_id`` and ``agent_name``.
        agent_id: see ``namespace``.
        agent_name: see ``namespace``; the block's name if left out.
        invocation: for whom this runs; hashed into ``invocation_hash``, see ``normalize_invocation``.
        invocation_allowlist: the keys of ``invocation`` that count; empty, all do.
        context: what dynamic ``uses`` see; without it they add nothing.
        hooks: told of every policy now, and of the calls made with the snapshot; after all others.
        timeout: seconds for policies and dynamic toolkits together. A policy that is not done by then denies.
        results: what policies said before, by their ids; they are not asked again, and no hook is told.

    Raises ``ToolkitFailed``, ``InvalidArguments`` for an invocation that cannot be hashed, and what dynamic ``uses``
    raise.
    """
    hashed = invocation_hash(invocation, invocation_allowlist)
    if context is not None and composition.dynamic:
        composition = grown(composition, context)
    frozen_env = MappingProxyType(dict(env or {}))
    called = composition.block.name if agent_name is None else agent_name
    run_hooks = merge_hooks(hooks)
    evaluating = _Evaluating(
        plan_of(composition),
        Request(frozen_env, principal),
        ToolkitContext(frozen_env, principal, namespace, agent_id, called),
        run_hooks,
        Budget(timeout),
        results,
    )
    await evaluating.take_steps()
    plan = evaluating.plan(composition)
    answers = MappingProxyType(evaluating.answers)
    passed = plan.passing(principal.permissions, answers)
    told = plan.told(passed, answers)
    return Snapshot(
        composition,
        principal,
        frozen_env,
        plan,
        passed,
        answers,
        told,
        plan.runtime_hash(passed),
        plan.prompt_hash((*composition.instructions, *told)),
        hashed,
        MappingProxyType(evaluating.toolkits),
        namespace,
        agent_id,
        called,
        run_hooks,
    )


async def evaluate_again(snapshot: Snapshot, composition: Composition) -> Snapshot:
    """Evaluate another composition on the same occasion: the same principal, environment, labels and hooks."""
    again = await evaluate(
        composition,
        principal=snapshot.principal,
        env=snapshot.env,
        namespace=snapshot.namespace,
        agent_id=snapshot.agent_id,
        agent_name=snapshot.agent_name,
        hooks=snapshot.hooks,
    )
    return replace(again, invocation_hash=snapshot.invocation_hash)


class _Evaluating:
    """One evaluation under way: the answers so far, and the toolkits and tools that were made."""

    def __init__(
        self,
        plan: Plan,
        request: Request,
        context: ToolkitContext,
        hooks: Hooks,
        budget: Budget,
        results: Mapping[str, Decision] | None,
    ) -> None:
        self.answers: dict[Policy, Decision] = {}
        self.toolkits: dict[str, Verdict] = {}
        self._plan = plan
        self._request = request
        self._context = context
        self._hooks = hooks
        self._budget = budget
        self._results = results
        self._made = Installing(plan.installed, (one.policy for one in plan.steps if isinstance(one, Gate)))

    async def take_steps(self) -> None:
        """Ask every gate and make every dynamic toolkit, in traversal order, those too that are found meanwhile."""
        pending = list(reversed(self._plan.steps))
        while pending:
            step = pending.pop()
            if isinstance(step, Gate):
                await self._ask(step)
            else:
                known = len(self._made.steps)
                await self._make(step)
                pending += reversed(self._made.steps[known:])

    def plan(self, composition: Composition) -> Plan:
        """Return the composition's plan, or one with what was made too."""
        members = self._made.members
        if not members:
            return self._plan
        tools = MappingProxyType(self._made.tools)
        return Plan(composition, (*composition.merged.members, *members), tools)

    async def _ask(self, gate: Gate) -> None:
        policy = gate.policy
        if not policy.is_asked_at_evaluation:
            return
        if self._results is not None:
            if policy.id in self._results:
                self.answers[policy] = self._results[policy.id]
            return
        ((_, decision),) = await ask_each((policy,), self._request, self._budget)
        self.answers[policy] = decision
        if gate.hooks or self._hooks:
            hooks = merge_hooks(gate.hooks, self._hooks)
            await tell_asked(policy, decision, self._request, hooks, gate.owner)

    async def _make(self, step: InstalledToolkit) -> None:
        path, verdict = ".".join(step.path), verdict_of(step.gates, self.answers)
        self.toolkits[path] = verdict
        toolkit = step.toolkit
        if not verdict.in_play or not isinstance(toolkit, DynamicToolkit):
            return
        try:
            members = await make_members(toolkit, self._context, self._budget)
        except OutOfTime:
            raise ToolkitFailed(f"the dynamic toolkit {path!r} was not made in time") from None
        self._made.add(members, step.source, step.names, step.levels, step.path)
