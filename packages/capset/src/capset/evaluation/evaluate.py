"""Evaluation of a composition: runs policies, expands dynamic toolkits, selects the tools in play (spec 2, F21)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from types import CoroutineType, MappingProxyType
from typing import Any, Final, TypedDict, cast

from capset.composition.compose import Composition
from capset.composition.installation import InstalledToolkit, PolicyBinding
from capset.definitions.calls.contexts import Context
from capset.definitions.environments import Environment
from capset.definitions.governance.hooks import Hooks, checked_hooks, merge_hooks
from capset.definitions.governance.policies import Decision, Policy, Request, allow
from capset.definitions.principals import Principal
from capset.definitions.tools.toolkits import DynamicToolkit, ToolkitContext
from capset.errors import ToolkitFailed
from capset.evaluation.containment import Deadline, is_contained
from capset.evaluation.expansion import Expansion, with_dynamic_uses
from capset.evaluation.plan import Plan, needs_evaluation, plan_of
from capset.evaluation.policies import LATE, decision_of, failed_decision, notify_evaluated
from capset.evaluation.snapshot.snapshot import Snapshot, Verdict, verdict_of
from capset.fingerprint.hashes import invocation_hash


class Labels(TypedDict, total=False):
    """Labels and hooks that a host may pass to an evaluation; see ``evaluate``."""

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
    timeout: float = 10.0,
    results: Mapping[str, Decision] | None = None,
) -> Snapshot:
    """Decide which tools are in play. Each policy object is evaluated once, however many tools it applies to.

    Tools never disappear silently: ``explain`` has a reason for every tool, and a failure in a dynamic toolkit fails
    the evaluation.

    Args:
        composition: the composition to evaluate.
        principal: the acting principal.
        env: the host's facts for policies and handlers, as Python objects of any type; never taken from a request body.
        namespace: a label for dynamic toolkits and envelopes, chosen by the host, like ``agent_id`` and ``agent_name``.
        agent_id: see ``namespace``.
        agent_name: see ``namespace``; defaults to the block's name.
        invocation: whom this run is for; hashed into ``invocation_hash``, see ``normalize_invocation``.
        invocation_allowlist: the keys of ``invocation`` to hash; all if empty.
        context: the context for dynamic ``uses``; without it they add nothing.
        hooks: notified of every policy evaluation and of the calls made with the snapshot, after all other hooks.
        timeout: seconds for all policies and dynamic toolkits together. A policy that has not answered by then denies.
        results: earlier policy results by policy id. If given, no policy is evaluated and hooks are not notified.

    Raises ``ToolkitFailed`` if a dynamic toolkit fails, ``InvalidArguments`` for an invocation that cannot be hashed,
    and any error of dynamic ``uses``.
    """
    invocation_digest = None if invocation is None else invocation_hash(invocation, invocation_allowlist)
    if context is not None and composition.dynamic:
        composition = with_dynamic_uses(composition, context)
    frozen_env = MappingProxyType(Environment(env or {}))
    agent_label = composition.block.name if agent_name is None else agent_name
    run_hooks = checked_hooks("evaluate", hooks)
    plan = plan_of(composition)
    evaluation = Evaluation(
        plan, Request(frozen_env, principal), run_hooks, (namespace, agent_id, agent_label), results
    )
    await evaluation.take_steps(timeout)
    plan = evaluation.plan(composition)
    answers = MappingProxyType(evaluation.answers)
    left_out = plan.left_out(principal.permissions, answers)
    member_instructions = plan.instructions_in_play(left_out, answers)
    return Snapshot(
        composition,
        principal,
        frozen_env,
        plan,
        left_out,
        answers,
        member_instructions,
        plan.runtime_hash(left_out),
        plan.prompt_hash(member_instructions),
        invocation_digest,
        MappingProxyType(evaluation.toolkits),
        namespace,
        agent_id,
        agent_label,
        run_hooks,
    )


async def evaluate_again(snapshot: Snapshot, composition: Composition) -> Snapshot:
    """Evaluate another composition with the same principal, environment, labels and hooks."""
    evaluated = await evaluate(
        composition,
        principal=snapshot.principal,
        env=snapshot.env,
        namespace=snapshot.namespace,
        agent_id=snapshot.agent_id,
        agent_name=snapshot.agent_name,
        hooks=snapshot.hooks,
    )
    evaluated = replace(evaluated, invocation_hash=snapshot.invocation_hash)
    return evaluated if snapshot.refusal is None else evaluated.with_refusal(snapshot.refusal)


Step = PolicyBinding | InstalledToolkit
_ALLOWED: Final = allow()
_opaque_type: Final[Callable[[object], object]] = type
"""Recognizes a coroutine faster than ``_is_pending``. This signature keeps type checkers from narrowing the answer."""
_log: Final = logging.getLogger("capset.policies")


class Evaluation:
    """The state of an evaluation: the policies' answers so far, and the verdicts on dynamic toolkits.

    With ``results``, by policy id, no policy is evaluated and no hook is notified. ``labels`` are the namespace, the
    agent's id and the agent's name.
    """

    __slots__ = (
        "_expansion",
        "_hooks",
        "_labels",
        "_notifies",
        "_pending",
        "_plan",
        "_request",
        "_results",
        "_step",
        "answers",
        "toolkits",
    )

    def __init__(
        self,
        plan: Plan,
        request: Request,
        hooks: Hooks,
        labels: tuple[str | None, str | None, str | None],
        results: Mapping[str, Decision] | None,
    ) -> None:
        self.answers: dict[Policy, Decision] = {}
        self.toolkits: dict[str, Verdict] = {}
        self._plan = plan
        self._pending = plan.steps[::-1]
        self._request = request
        self._labels = labels
        self._hooks = hooks
        self._results = results
        self._expansion = Expansion(plan) if plan.is_dynamic else None
        self._notifies = results is None and (plan.is_dynamic or plan.has_hooks or bool(hooks))

    def plan(self, composition: Composition) -> Plan:
        """Return the plan, with the members of dynamic toolkits. Raises ``ToolkitFailed`` if one of them cannot run."""
        return self._plan if self._expansion is None else self._expansion.plan(composition)

    async def take_steps(self, seconds: float) -> None:
        """Take every step, including those that new toolkits add. One deadline covers all steps that wait.

        A policy that has not answered in time denies. Raises ``ToolkitFailed`` if a dynamic toolkit fails or is late.
        """
        request, results, answers, notifies = self._request, self._results, self.answers, self._notifies
        deadline, pending = Deadline(seconds), self._pending
        try:
            with deadline:
                while pending and not deadline.expired:  # a step may ignore its cancellation
                    step = self._step = pending.pop()
                    if not isinstance(step, PolicyBinding):
                        await self._make(step, deadline)
                        continue
                    policy = step.policy
                    if results is None:
                        try:
                            answer: object = policy.evaluate(request)
                            if _opaque_type(answer) is CoroutineType or _is_pending(answer):
                                deadline.start()
                                answer = await cast("Awaitable[object]", answer)
                        except BaseException as error:
                            if not is_contained(error):
                                raise
                            answer = failed_decision(policy, error)
                        answers[policy] = _ALLOWED if answer is True else decision_of(policy, answer)
                    elif policy.id in results:
                        answers[policy] = results[policy.id]
                    if notifies and not deadline.expired:
                        await self._notify_hooks(step, deadline)
        except TimeoutError:
            if not deadline.expired:
                raise
        if deadline.expired:
            await self._deny_pending()

    async def _deny_pending(self) -> None:
        """Deny for each pending policy. Raises ``ToolkitFailed`` for a pending toolkit that no policy denies."""
        for step in (self._step, *self._pending[::-1]):
            if not isinstance(step, PolicyBinding):
                if self._decide_toolkit(step).in_play:
                    raise ToolkitFailed(f"the dynamic toolkit {step.qualified_name!r} was not made in time")
                continue
            _log.error("policy %r did not answer in time", step.policy.id)
            self.answers[step.policy] = LATE
            await self._notify_hooks(step)

    async def _notify_hooks(self, step: PolicyBinding, deadline: Deadline | None = None) -> None:
        """Notify the hooks of a policy evaluation, with the deadline paused."""
        hooks = merge_hooks(step.hooks, self._hooks)
        if not hooks.on_policy_evaluated:
            return
        was_running = deadline is not None and deadline.stop()
        await notify_evaluated(step.policy, self.answers[step.policy], self._request, hooks, step.owner)
        if deadline is not None and was_running:
            deadline.start()

    def _decide_toolkit(self, step: InstalledToolkit) -> Verdict:
        """Decide whether to make a toolkit."""
        verdict = self.toolkits[step.qualified_name] = verdict_of(step.policies, self.answers)
        return verdict

    async def _make(self, step: InstalledToolkit, deadline: Deadline) -> None:
        toolkit, is_denied = step.toolkit, not self._decide_toolkit(step).in_play
        if is_denied or not isinstance(toolkit, DynamicToolkit) or self._expansion is None:
            return
        deadline.start()
        new_steps = await self._expansion.make(step, toolkit, ToolkitContext(*self._request[:2], *self._labels))
        self._pending += [new_step for new_step in new_steps[::-1] if needs_evaluation(new_step)]


def _is_pending(answer: object) -> bool:
    """Whether to await an answer. An object that is not a valid answer fails when awaited, and so denies."""
    return answer is not None and not isinstance(answer, (Decision, bool))
