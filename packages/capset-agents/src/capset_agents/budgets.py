"""Budgets of turns: the steps, tool calls, tokens and money that one turn may use."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from capset.definitions.governance.usage import AgentUsage
from capset.errors import BudgetExceeded, DefinitionError

MAX_STEPS: Final = 50
"""The maximum number of requests to models in one turn, unless set."""
SUMMARISE_AT: Final = 100_000
"""A conversation with more tokens than this is summarised. Common models accept 128,000 and more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnBudget:
    """The maximum that one turn may use; ``None`` means no limit. ``cost`` is in US dollars, by genai-prices.

    A continued turn keeps its budget, and agents called within the turn share it. Each step reserves its maximum usage
    before it begins, so a turn exceeds its budget by at most one step of one agent. Raises ``DefinitionError`` if a
    number is not positive.
    """

    steps: int | None = MAX_STEPS
    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name, maximum in asdict(self).items():
            if maximum is not None and not maximum > 0:
                raise DefinitionError(f"a turn's {name} must be a number above 0; got {maximum!r}")

    def exceeded(self, used: AgentUsage) -> str | None:
        """Return the name of a resource whose limit ``used`` exceeds, or ``None``."""
        for name in self.__slots__:
            maximum = getattr(self, name)
            if maximum is not None and getattr(used, name) > maximum:
                return name
        return None

    def check(self, used: AgentUsage) -> None:
        """Raise ``BudgetExceeded``, naming the resource, if ``used`` exceeds the budget."""
        if (name := self.exceeded(used)) is not None:
            maximum, value = getattr(self, name), getattr(used, name)
            raise BudgetExceeded(f"The turn was ended: it would have used {value:g} {name}, and may use {maximum:g}")
