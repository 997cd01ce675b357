"""Evaluation of a composition: asks policies, makes dynamic toolkits, decides what is in play (spec 2, F21)."""

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
from capset.evaluation.plan import Plan, is_taken, plan_of
from capset.evaluation.policies import LATE, decided, failed, tell_asked
from capset.evaluation.snapshot.snapshot import Snapshot, Verdict, verdict_of
from capset.fingerprint.hashes import invocation_hash

EVALUATION_SECONDS: Final = 10.0
"""Time that the policies and the dynamic toolkits of one evaluation may take together, without hooks."""


class Labels(TypedDict, total=False):
    """Labels that a host may give an evaluation beside the principal and the environment; see ``evaluate``."""

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
    """Decide which tools are in play. Every policy object is asked once, however many tools carry it.

    Never shrinks silently: ``explain`` has a reason for every tool, and a dynamic toolkit that fails, fails the
    evaluation.

    Args:
        composition: the composition to evaluate.
        principal: the acting principal.
        env: the host's knowledge of this environment, in values of its own, for policies and handlers; it never comes
            from the body of a request.
        namespace: a label of the host's, for dynamic toolkits and envelopes; as ``agent_id`` and ``agent_name``.
        agent_id: see ``namespace``.
        agent_name: see ``namespace``; the block's name if left out.
        invocation: for whom this runs; hashed into ``invocation_hash``, see ``normalize_invocation``.
        invocation_allowlist: the keys of ``invocation`` that count; all, if empty.
        context: the context for dynamic ``uses``; without it they add nothing.
        hooks: notified of every policy now, and of the calls made with the snapshot; after all others.
        timeout: seconds for policies and dynamic toolkits together. A policy that is not done by then denies.
        results: earlier results of policies, by their ids; those are not asked again, and hooks are not notified.

    Raises ``ToolkitFailed``, ``InvalidArguments`` for an invocation that cannot be hashed, and any error of dynamic
    ``uses``.
    """
    hashed = None if invocation is None else invocation_hash(invocation, invocation_allowlist)
    if context is not None and composition.dynamic:
        composition = with_dynamic_uses(composition, context)
    frozen_env = MappingProxyType(Environment(env or {}))
    called = composition.block.name if agent_name is None else agent_name
    run_hooks = checked_hooks("evaluate", hooks)
    plan = plan_of(composition)
    evaluating = Evaluation(plan, Request(frozen_env, principal), run_hooks, (namespace, agent_id, called), results)
    await evaluating.take_steps(timeout)
    plan = evaluating.plan(composition)
    answers = MappingProxyType(evaluating.answers)
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
        hashed,
        MappingProxyType(evaluating.toolkits),
        namespace,
        agent_id,
        called,
        run_hooks,
    )


async def evaluate_again(snapshot: Snapshot, composition: Composition) -> Snapshot:
    """Evaluate another composition in the same circumstances: the same principal, environment, labels and hooks."""
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
    return evaluated if snapshot.refused is None else evaluated.closed(snapshot.refused)


Step = PolicyBinding | InstalledToolkit
_ALLOWED: Final = allow()
_kind: Final[Callable[[object], object]] = type
"""Recognizes a coroutine faster than ``_is_pending``, and leaves its type opaque to a type checker."""
_log: Final = logging.getLogger("capset.policies")


class Evaluation:
    """The answers so far, and the toolkits made.

    Given ``results``, by policy ids, no policy is asked and no hook is notified. ``labels`` are the namespace, the
    agent's id and its name.
    """

    __slots__ = (
        "_hooks",
        "_labels",
        "_making",
        "_pending",
        "_plan",
        "_request",
        "_results",
        "_step",
        "_tells",
        "answers",
        "toolkits",
    )

    def __init__(
        self,
        plan: Plan,
        request: Request,
        hooks: Hooks,
        labels: tuple[str | None, str | None, str | None] = (None, None, None),
        results: Mapping[str, Decision] | None = None,
    ) -> None:
        self.answers: dict[Policy, Decision] = {}
        self.toolkits: dict[str, Verdict] = {}
        self._plan = plan
        self._pending = plan.steps[::-1]
        self._request = request
        self._labels = labels
        self._hooks = hooks
        self._results = results
        self._making = Expansion(plan) if plan.is_dynamic else None
        self._tells = results is None and (plan.is_dynamic or plan.has_hooks or bool(hooks))

    def plan(self, composition: Composition) -> Plan:
        """Return the plan with the members of dynamic toolkits. Raises ``ToolkitFailed`` for a tool that cannot run."""
        return self._plan if self._making is None else self._making.plan(composition)

    async def take_steps(self, seconds: float) -> None:
        """Take every step, including those found along the way. One deadline covers all that wait.

        A policy that has not answered in time denies. Raises ``ToolkitFailed``.
        """
        request, results, answers, tells = self._request, self._results, self.answers, self._tells
        deadline, pending = Deadline(seconds), self._pending
        try:
            with deadline:
                while pending and not deadline.expired:  # else it was cancelled, and took no notice
                    step = self._step = pending.pop()
                    if not isinstance(step, PolicyBinding):
                        await self._make(step, deadline)
                        continue
                    policy = step.policy
                    if results is None:
                        try:
                            answer: object = policy.evaluate(request)
                            if _kind(answer) is CoroutineType or _is_pending(answer):
                                deadline.start()
                                answer = await cast("Awaitable[object]", answer)
                        except BaseException as error:
                            if not is_contained(error):
                                raise
                            answer = failed(policy, error)
                        answers[policy] = _ALLOWED if answer is True else decided(policy, answer)
                    elif policy.id in results:
                        answers[policy] = results[policy.id]
                    if tells and not deadline.expired:
                        await self._notify_hooks(step, deadline)
        except TimeoutError:
            if not deadline.expired:
                raise
        if deadline.expired:
            await self._refuse()

    async def _refuse(self) -> None:
        """Deny for each policy not done in time. Raises ``ToolkitFailed`` if an unmade toolkit is not denied anyway."""
        for step in (self._step, *self._pending[::-1]):
            if not isinstance(step, PolicyBinding):
                if self._judge(step).in_play:
                    raise ToolkitFailed(f"the dynamic toolkit {step.qualified!r} was not made in time")
                continue
            _log.error("policy %r did not answer in time", step.policy.id)
            self.answers[step.policy] = LATE
            await self._notify_hooks(step)

    async def _notify_hooks(self, step: PolicyBinding, deadline: Deadline | None = None) -> None:
        """Notify the hooks that a policy was asked; the deadline is paused for that time."""
        hooks = merge_hooks(step.hooks, self._hooks)
        if not hooks.on_policy_evaluated:
            return
        was_running = deadline is not None and deadline.stop()
        await tell_asked(step.policy, self.answers[step.policy], self._request, hooks, step.owner)
        if deadline is not None and was_running:
            deadline.start()

    def _judge(self, step: InstalledToolkit) -> Verdict:
        """Decide whether a toolkit is to be made."""
        verdict = self.toolkits[step.qualified] = verdict_of(step.gates, self.answers)
        return verdict

    async def _make(self, step: InstalledToolkit, deadline: Deadline) -> None:
        toolkit, is_denied = step.toolkit, not self._judge(step).in_play
        if is_denied or not isinstance(toolkit, DynamicToolkit) or self._making is None:
            return
        deadline.start()
        new_steps = await self._making.make(step, toolkit, ToolkitContext(*self._request[:2], *self._labels))
        self._pending += [new_step for new_step in new_steps[::-1] if is_taken(new_step)]


def _is_pending(answer: object) -> bool:
    """Whether an answer is to be awaited; an object that is no answer at all fails when awaited, and denies."""
    return answer is not None and not isinstance(answer, (Decision, bool))
