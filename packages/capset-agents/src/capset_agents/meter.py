"""The usage of one run of an agent: reserved before each step, and counted for its turn, those above, and its session.

A turn and the agents that work for it run in one process, so its budget is reserved in memory; limits that other turns
share are reserved in the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import Final, Self

from capset.definitions.governance.usage import AgentUsage, usage_of
from capset.errors import BudgetExceeded, CapsetError, StoreError
from capset.ids import Ids
from capset.kernel.blocks.generation import Turn
from capset_agents.budgets import TurnBudget

LOOK_SECONDS: Final = 1.0
"""How often, in seconds, a step that waits looks whether steps of other turns and processes are settled."""
_NEXT: Final = AgentUsage(steps=1, tokens=1)
"""The least that a step uses."""


class TurnMeter:
    """The usage of one run: of its turn's budget, of those of the runs above it, and of the limits of its session."""

    def __init__(self, turn: Turn, budget: TurnBudget) -> None:
        self._limits = turn.usage
        self._journal = turn.journal
        self._budget = budget
        self._ids = Ids()
        self._used = AgentUsage() if turn.journal is None else usage_of(turn.journal.usage)
        self._steps: dict[str, AgentUsage] = {}
        """The most that each step under way may use, of this run and those below it."""
        self._refusal: CapsetError | None = None
        """The reason why the calls of the last step are not to be made, if there is one."""
        self._since = asyncio.get_running_loop().time()
        self._above = _COUNTING.get()
        """That of the run in whose call this one is made, of an agent that has this one as a tool."""
        self._settled: _Settlement = _Settlement() if self._above is None else self._above._settled

    @contextmanager
    def counting(self) -> Generator[Self]:
        """Have runs that are made within count here too."""
        token = _COUNTING.set(self)
        try:
            yield self
        finally:
            _COUNTING.reset(token)

    @property
    def bounds_use(self) -> bool:
        """Whether tokens or money of a step count in any budget or limit."""
        budgets = [run._budget for run in self._runs()]
        return self._limits.is_limited or any(
            budget.tokens is not None or budget.cost is not None for budget in budgets
        )

    @property
    def bounds_cost(self) -> bool:
        """Whether money is bounded, so that the price of each step must be known."""
        return self._limits.limits_cost or any(run._budget.cost is not None for run in self._runs())

    async def reserve(self, maximum: AgentUsage) -> str:
        """Reserve the most that a step may use, of all budgets and limits at once, and return the id of the step.

        It waits while steps under way may use all that is left: they end without waiting for others. Raises
        ``BudgetExceeded`` if nothing is left. The step is to be settled.
        """
        step = self._ids.new()
        while True:
            settlement = self._settled.next  # before it looks, so that it misses none
            if self._hold(step, maximum):
                has_room = False
                try:
                    has_room = await self._limits.reserve(step, maximum)
                finally:
                    if not has_room:
                        self._free(step)
                if has_room:
                    return step
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await settlement.wait()

    async def settle(self, step: str, used: AgentUsage, *, unpriced: str | None = None) -> None:
        """Count what a step has used in the place of what it has reserved; ``check`` says whether it was too much.

        ``unpriced`` is the name of a model whose price is not known.
        """
        self._refusal = None
        try:
            for run in self._runs():
                run._budget.check(run._used + used)
            if unpriced is not None and self.bounds_cost:
                raise BudgetExceeded(
                    f"The turn was ended: money is bounded, and the price of {unpriced!r} is not known"
                )
        except BudgetExceeded as error:
            self._refusal = error
            used = replace(used, calls=0)  # which are not made
        self._free(step)
        for run in self._runs():
            run._used += used
            if run._journal is not None:
                run._journal.count(run._used.plain())
        now = asyncio.get_running_loop().time()
        seconds = 0.0 if self._above is not None else now - self._since  # the run above waits for this one
        self._since = now
        try:
            await self._limits.settle(step, used + AgentUsage(seconds=seconds))
        except (BudgetExceeded, StoreError) as error:
            self._refusal = self._refusal or error
        finally:
            self._settled.tell()

    def check(self) -> None:
        """Raise ``BudgetExceeded`` if more was used than may be, so that the calls of the last step are not made.

        Raises ``StoreError`` if they could not be counted.
        """
        if self._refusal is not None:
            raise self._refusal
        for run in self._runs():
            run._budget.check(run._used)

    def _runs(self) -> Iterator[TurnMeter]:
        """Yield this run and those above it."""
        run: TurnMeter | None = self
        while run is not None:
            yield run
            run = run._above

    def _hold(self, step: str, maximum: AgentUsage) -> bool:
        """Reserve a step in this run and those above it, and return whether there was room; nothing comes between.

        Raises ``BudgetExceeded`` if nothing is left.
        """
        for run in self._runs():
            run._budget.check(run._used + _NEXT)
        if any(run._budget.exceeded(sum(run._steps.values(), run._used + _NEXT)) for run in self._runs()):
            return False
        for run in self._runs():
            run._steps[step] = maximum
        return True

    def _free(self, step: str) -> None:
        for run in self._runs():
            run._steps.pop(step, None)


class _Settlement:
    """The next settlement of a step of one turn: ``next`` is set by it, and replaced."""

    def __init__(self) -> None:
        self.next = asyncio.Event()

    def tell(self) -> None:
        """Wake the steps that wait."""
        self.next.set()
        self.next = asyncio.Event()


_COUNTING: Final = ContextVar[TurnMeter | None]("capset_turn_meter", default=None)
"""The count of the run that the current task works for."""
