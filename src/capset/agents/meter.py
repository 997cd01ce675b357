"""The count of what one run of an agent uses: for its turn, for the runs above it, and for its session."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Self

from pydantic_ai.messages import ModelResponse

from capset.agents.budgets import TurnBudget
from capset.definitions.usage import AgentUsage, usage_of
from capset.errors import BudgetExceeded
from capset.kernel.blocks.generation import Turn


class TurnMeter:
    """The usage of one run: of its turn's budget, of those of the runs above it, and of the limits of its session."""

    def __init__(self, turn: Turn, budget: TurnBudget) -> None:
        self._limits = turn.usage
        self._journal = turn.journal
        self._budget = budget
        self._used = AgentUsage() if turn.journal is None else usage_of(turn.journal.usage)
        self._new = AgentUsage()
        """Usage that the session's limits do not count yet."""
        self._unpriced: str | None = None
        """The name of a model that has answered at a price that is not known."""
        self._since = asyncio.get_running_loop().time()
        self._above = _COUNTING.get()
        """That of the run in whose call this one is made, of an agent that has this one as a tool."""

    @contextmanager
    def counting(self) -> Generator[Self]:
        """Have runs that are made within count here too."""
        token = _COUNTING.set(self)
        try:
            yield self
        finally:
            _COUNTING.reset(token)

    def note(self, message: ModelResponse, price: float | None) -> None:
        """Note what an answer has used, at its price in US dollars; ``None`` if that is not known."""
        used = message.usage
        tokens = used.input_tokens + used.output_tokens
        step = AgentUsage(steps=1, calls=len(message.tool_calls), tokens=tokens, cost=price or 0.0)
        self._use(step)
        self._new += step
        if price is None:
            self._unpriced = message.model_name or ""

    async def settle(self) -> None:
        """Count what was noted, durably.

        Raises ``BudgetExceeded`` if it was more than is left, and for an unknown price where money is bounded.
        """
        now = asyncio.get_running_loop().time()
        seconds = 0.0 if self._above is not None else now - self._since  # the run above waits for this one
        used, self._new, self._since = self._new + AgentUsage(seconds=seconds), AgentUsage(), now
        await self._limits.add(used)
        self._check(AgentUsage())
        if self._unpriced is not None and self._bounds_cost():
            told = f"The turn was ended: money is bounded, and the price of {self._unpriced!r} is not known"
            raise BudgetExceeded(told)

    async def check(self) -> None:
        """Raise ``BudgetExceeded`` if nothing is left for another step."""
        self._check(AgentUsage(steps=1))
        await self._limits.check()

    def _use(self, more: AgentUsage) -> None:
        self._used += more
        if self._journal is not None:
            self._journal.count(self._used.plain())
        if self._above is not None:
            self._above._use(more)

    def _check(self, more: AgentUsage) -> None:
        self._budget.check(self._used + more)
        if self._above is not None:
            self._above._check(more)

    def _bounds_cost(self) -> bool:
        above = self._above is not None and self._above._bounds_cost()
        return self._budget.cost is not None or self._limits.limits_cost or above


_COUNTING: Final = ContextVar[TurnMeter | None]("capset_turn_meter", default=None)
"""The count of the run that the current task works for."""


def price_of(message: ModelResponse) -> float | None:
    """Return what an answer costs in US dollars, by genai-prices; ``None`` if its model's price is not known."""
    if (message.model_id or "").startswith("script:"):
        return 0.0
    try:
        return float(message.cost().total_price)
    except (LookupError, ValueError, AssertionError):  # of a model whose price is not known
        return None
