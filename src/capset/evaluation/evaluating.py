"""One evaluation under way: gates are asked and dynamic toolkits made, in traversal order (spec 2, F17, F18, F22)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from types import CoroutineType
from typing import Final, cast

from capset.composition.compose import Composition
from capset.composition.installing import Gate, InstalledToolkit
from capset.definitions.hooks import Hooks, merge_hooks
from capset.definitions.policies import Decision, Policy, Request, allow
from capset.definitions.toolkits import DynamicToolkit, ToolkitContext
from capset.errors import ToolkitFailed
from capset.evaluation.containment import is_contained
from capset.evaluation.deadline import Deadline
from capset.evaluation.making import Making
from capset.evaluation.plan import Plan, is_taken
from capset.evaluation.policies import LATE, decided, failed, tell_asked
from capset.evaluation.snapshot import Verdict, verdict_of

Step = Gate | InstalledToolkit
_ALLOWED: Final = allow()
_kind: Final[Callable[[object], object]] = type
"""Tells a coroutine more quickly than ``_is_pending``, and a type checker nothing of what is in it."""
_log: Final = logging.getLogger("capset.policies")


class Evaluating:
    """The answers so far, and what was made. Given ``results``, by policy ids, nobody is asked and no hook is told.

    ``labels`` are the namespace, the agent's id and its name.
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
        self._making = Making(plan) if plan.is_dynamic else None
        self._tells = results is None and (plan.is_dynamic or plan.has_hooks or bool(hooks))

    def plan(self, composition: Composition) -> Plan:
        """Return the plan with what dynamic toolkits made. Raises ``ToolkitFailed`` for a tool that cannot run."""
        return self._plan if self._making is None else self._making.plan(composition)

    async def take_steps(self, seconds: float) -> None:
        """Take every step, those too that are found meanwhile. One clock is for all that wait.

        A policy that has not answered in time denies. Raises ``ToolkitFailed``.
        """
        request, results, answers, tells = self._request, self._results, self.answers, self._tells
        deadline, pending = Deadline(seconds), self._pending
        try:
            with deadline:
                while pending and not deadline.expired:  # else it was cancelled, and took no notice
                    step = self._step = pending.pop()
                    if not isinstance(step, Gate):
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
                        await self._tell(step, deadline)
        except TimeoutError:
            if not deadline.expired:
                raise
        if deadline.expired:
            await self._refuse()

    async def _refuse(self) -> None:
        """Deny for what was not done in time. Raises ``ToolkitFailed`` if a toolkit is among it that nobody denies."""
        for step in (self._step, *self._pending[::-1]):
            if not isinstance(step, Gate):
                if self._judge(step).in_play:
                    raise ToolkitFailed(f"the dynamic toolkit {step.qualified!r} was not made in time")
                continue
            _log.error("policy %r did not answer in time", step.policy.id)
            self.answers[step.policy] = LATE
            await self._tell(step)

    async def _tell(self, step: Gate, deadline: Deadline | None = None) -> None:
        """Tell the hooks of a policy that was asked; the clock stands still meanwhile."""
        hooks = merge_hooks(step.hooks, self._hooks)
        if not hooks.on_policy_evaluated:
            return
        was_running = deadline is not None and deadline.stop()
        await tell_asked(step.policy, self.answers[step.policy], self._request, hooks, step.owner)
        if deadline is not None and was_running:
            deadline.start()

    def _judge(self, step: InstalledToolkit) -> Verdict:
        """Say whether a toolkit is to be made."""
        verdict = self.toolkits[step.qualified] = verdict_of(step.gates, self.answers)
        return verdict

    async def _make(self, step: InstalledToolkit, deadline: Deadline) -> None:
        toolkit, is_denied = step.toolkit, not self._judge(step).in_play
        if is_denied or not isinstance(toolkit, DynamicToolkit) or self._making is None:
            return
        deadline.start()
        found = await self._making.make(step, toolkit, ToolkitContext(*self._request[:2], *self._labels))
        self._pending += [one for one in found[::-1] if is_taken(one)]


def _is_pending(answer: object) -> bool:
    """Whether an answer is to be awaited; what is no answer at all fails there, and denies."""
    return answer is not None and not isinstance(answer, (Decision, bool))
