"""The usage of one agent run: reserved before each step, then counted for the run, its parent runs and its session.

A turn and the agents called within it run in one process, so the turn's budget is reserved in memory. Limits shared
with other turns are reserved in the store.
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

POLL_SECONDS: Final = 1.0
"""How often, in seconds, a waiting step checks whether steps of other turns and processes were settled."""
_MINIMUM_STEP: Final = AgentUsage(steps=1, tokens=1)
"""The minimum usage of a step."""


class TurnMeter:
    """The meter of one run. It counts in the turn's budget, the budgets of parent runs, and the session's limits."""

    def __init__(self, turn: Turn, budget: TurnBudget) -> None:
        self._limits = turn.usage
        self._journal = turn.journal
        self._budget = budget
        self._ids = Ids()
        self._used = AgentUsage() if turn.journal is None else usage_of(turn.journal.usage)
        self._reserved: dict[str, AgentUsage] = {}
        """The maximum usage of each running step of this run and its child runs."""
        self._overrun: BudgetExceeded | None = None
        """The budget or limit that the last step has exceeded, so that its calls must not be made, if any."""
        self._failure: CapsetError | None = None
        """Why the last step cannot be counted, if it cannot: even a final answer does not stand then."""
        self._settled_at = asyncio.get_running_loop().time()
        self._parent = _CURRENT_METER.get()
        """The meter of the parent run, whose agent called this one as a tool."""
        self._settlements: _Settlement = _Settlement() if self._parent is None else self._parent._settlements

    @contextmanager
    def counting(self) -> Generator[Self]:
        """Count runs that start within this context here, too."""
        token = _CURRENT_METER.set(self)
        try:
            yield self
        finally:
            _CURRENT_METER.reset(token)

    @property
    def limits_usage(self) -> bool:
        """Whether any budget or limit bounds tokens or money."""
        budgets = [run._budget for run in self._runs()]
        return self._limits.is_limited or any(
            budget.tokens is not None or budget.cost is not None for budget in budgets
        )

    @property
    def limits_cost(self) -> bool:
        """Whether money is bounded, so that the price of each step must be known."""
        return self._limits.limits_cost or any(run._budget.cost is not None for run in self._runs())

    async def reserve(self, maximum: AgentUsage) -> str:
        """Reserve a step's maximum usage in all budgets and limits at once, and return the id of the step.

        Waits while running steps may use up what is left; those never wait for other steps. Raises ``BudgetExceeded``
        if nothing is left. The caller must settle the step.
        """
        step = self._ids.new()
        while True:
            settlement = self._settlements.next  # taken before the check, so that no settlement is missed
            if self._reserve_in_budgets(step, maximum):
                has_room = False
                try:
                    has_room = await self._limits.reserve(step, maximum)
                finally:
                    if not has_room:
                        self._release(step)
                if has_room:
                    return step
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await settlement.wait()

    async def settle(self, step: str, used: AgentUsage, *, unpriced: str | None = None) -> None:
        """Replace a step's reservation with its actual usage. If that was too much, ``check`` raises.

        ``unpriced`` is the name of the model if its price is not known.
        """
        self._overrun = self._failure = None
        try:
            for run in self._runs():
                run._budget.check(run._used + used)
        except BudgetExceeded as error:
            self._overrun = error
        if unpriced is not None and self.limits_cost:
            self._failure = BudgetExceeded(
                f"The turn was ended: its cost is limited, and the price of {unpriced!r} is not known"
            )
        if self._overrun is not None or self._failure is not None:
            used = replace(used, calls=0)  # the calls are not made
        self._release(step)
        for run in self._runs():
            run._used += used
            if run._journal is not None:
                run._journal.record_usage(run._used.plain())
        now = asyncio.get_running_loop().time()
        seconds = 0.0 if self._parent is not None else now - self._settled_at  # a parent run counts its own time
        self._settled_at = now
        try:
            await self._limits.settle(step, used + AgentUsage(seconds=seconds))
        except BudgetExceeded as error:
            self._overrun = self._overrun or error
        except StoreError as error:
            self._failure = self._failure or error
        finally:
            self._settlements.notify()

    def check(self, *, is_final: bool = False) -> None:
        """Raise ``BudgetExceeded`` if the usage is too high; the calls of the last step must then not be made.

        An answer that ``is_final`` stands, since it was paid for; the next step is refused. Raises ``StoreError`` if
        the step could not be settled, and ``BudgetExceeded`` if its price is limited and not known.
        """
        if self._failure is not None:
            raise self._failure
        if is_final:
            return
        if self._overrun is not None:
            raise self._overrun
        for run in self._runs():
            run._budget.check(run._used)

    def _runs(self) -> Iterator[TurnMeter]:
        """Yield this run and its parent runs."""
        run: TurnMeter | None = self
        while run is not None:
            yield run
            run = run._parent

    def _reserve_in_budgets(self, step: str, maximum: AgentUsage) -> bool:
        """Reserve a step in this run and its parent runs, and return whether there was room.

        Does not await, so that the check and the reservation are atomic. Raises ``BudgetExceeded`` if nothing is left.
        """
        for run in self._runs():
            run._budget.check(run._used + _MINIMUM_STEP)
        if any(run._budget.exceeded(sum(run._reserved.values(), run._used + _MINIMUM_STEP)) for run in self._runs()):
            return False
        for run in self._runs():
            run._reserved[step] = maximum
        return True

    def _release(self, step: str) -> None:
        for run in self._runs():
            run._reserved.pop(step, None)


class _Settlement:
    """Announces settlements of steps of one turn: each one sets ``next``, and replaces it."""

    def __init__(self) -> None:
        self.next = asyncio.Event()

    def notify(self) -> None:
        """Wake the waiting steps."""
        self.next.set()
        self.next = asyncio.Event()


_CURRENT_METER: Final = ContextVar[TurnMeter | None]("capset_turn_meter", default=None)
"""The meter of the run that the current task belongs to."""
