"""One evaluation under way: gates are asked and dynamic toolkits made, in traversal order (spec 2, F17, F18, F22)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Iterable, Mapping
from types import CoroutineType
from typing import Any, Final, cast

from capset.composition.compose import Composition
from capset.composition.installing import Gate, InstalledToolkit
from capset.definitions.hooks import Hooks, merge_hooks
from capset.definitions.policies import Decision, Policy, Request, allow
from capset.definitions.toolkits import DynamicToolkit, ToolkitContext
from capset.errors import ToolkitFailed
from capset.evaluation.begun import begun
from capset.evaluation.containment import is_contained
from capset.evaluation.making import Making
from capset.evaluation.plan import Plan, is_taken
from capset.evaluation.policies import LATE, decided, failed, tell_asked
from capset.evaluation.snapshot import Verdict, verdict_of

Step = Gate | InstalledToolkit
_ALLOWED: Final = allow()
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
        """Take every step, those too that are found meanwhile.

        A policy that has not answered in time denies. Raises ``ToolkitFailed``.
        """
        while self._pending:
            step = self._pending.pop()
            waiting = self._begin(step)
            if waiting is not None:
                await self._under_the_clock(step, waiting, seconds)
            elif self._tells:
                await self._tell(step)

    def _begin(self, step: Step) -> Awaitable[Any] | None:
        """Begin a step, and return what is to be awaited, unless it is done."""
        if not isinstance(step, Gate):
            return self._make(step)
        policy = step.policy
        if self._results is not None:
            if policy.id in self._results:
                self.answers[policy] = self._results[policy.id]
            return None
        try:
            answer = policy.evaluate(self._request)
            if type(answer) is CoroutineType:
                try:
                    return begun(cast("Coroutine[Any, Any, Decision | bool]", answer))
                except StopIteration as done:
                    answer = done.value
            elif answer is not None and not isinstance(answer, (Decision, bool)):  # pyright: ignore[reportUnnecessaryComparison]  # untyped policies
                return answer
        except BaseException as error:
            if not is_contained(error):
                raise
            answer = failed(policy, error)
        self.answers[policy] = _ALLOWED if answer is True else decided(policy, answer)
        return None

    async def _under_the_clock(self, step: Step, waiting: Awaitable[Any] | None, seconds: float) -> None:
        """Finish this step and take all others. One clock is for all of them: each would cost several microseconds."""
        scope = asyncio.timeout(seconds)
        try:
            async with scope:
                while True:
                    if waiting is not None:
                        await self._finish(step, waiting)
                        if scope.expired():  # it was cancelled, and took no notice
                            break
                    if self._tells:
                        await self._tell(step, scope)
                    if not self._pending:
                        return
                    step = self._pending.pop()
                    waiting = self._begin(step)
        except TimeoutError:
            if not scope.expired():
                raise
        await self._refuse([step, *self._pending[::-1]])

    async def _finish(self, step: Step, waiting: Awaitable[Any]) -> None:
        if not isinstance(step, Gate):
            await waiting
            return
        try:
            answer = await waiting
        except BaseException as error:
            if not is_contained(error):
                raise
            answer = failed(step.policy, error)
        self.answers[step.policy] = decided(step.policy, answer)

    async def _refuse(self, late: Iterable[Step]) -> None:
        """Deny for what was not done in time. Raises ``ToolkitFailed`` if a toolkit is among it that nobody denies."""
        self._pending = []
        for step in late:
            if not isinstance(step, Gate):
                if self._judge(step).in_play:
                    raise ToolkitFailed(f"the dynamic toolkit {step.qualified!r} was not made in time")
                continue
            _log.error("policy %r did not answer in time", step.policy.id)
            self.answers[step.policy] = LATE
            await self._tell(step)

    async def _tell(self, step: Step, scope: asyncio.Timeout | None = None) -> None:
        """Tell the hooks of a policy that was asked; the clock stands still meanwhile."""
        if not isinstance(step, Gate):
            return
        hooks, decision = merge_hooks(step.hooks, self._hooks), self.answers[step.policy]
        if not hooks.on_policy_evaluated:
            return
        end = scope.when() if scope else None
        if scope is None or end is None:
            await tell_asked(step.policy, decision, self._request, hooks, step.owner)
            return
        clock = asyncio.get_running_loop().time
        left = end - clock()
        scope.reschedule(None)
        await tell_asked(step.policy, decision, self._request, hooks, step.owner)
        scope.reschedule(clock() + left)

    def _judge(self, step: InstalledToolkit) -> Verdict:
        """Say whether a toolkit is to be made."""
        verdict = self.toolkits[step.qualified] = verdict_of(step.gates, self.answers)
        return verdict

    def _make(self, step: InstalledToolkit) -> Awaitable[None] | None:
        toolkit, is_denied = step.toolkit, not self._judge(step).in_play
        if is_denied or not isinstance(toolkit, DynamicToolkit) or self._making is None:
            return None
        return self._install(self._making, step, toolkit)

    async def _install(self, making: Making, step: InstalledToolkit, toolkit: DynamicToolkit) -> None:
        found = await making.make(step, toolkit, ToolkitContext(*self._request[:2], *self._labels))
        self._pending += [one for one in found[::-1] if is_taken(one)]
