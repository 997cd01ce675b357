"""Budgets of turns: how many steps, tool calls, tokens and how much money one turn may use."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from capset.definitions.usage import AgentUsage
from capset.errors import BudgetExceeded, DefinitionError

STEPS: Final = 50
"""The maximum number of model steps of one turn, unless the host says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnBudget:
    """The most that one turn may use; ``None`` is no limit. ``cost`` is in US dollars, by the prices of genai-prices.

    It goes on where a turn is continued. A step that is under way is not cut off, so a turn uses more by one step at
    most. Raises ``DefinitionError`` for a number that is not positive.
    """

    steps: int | None = STEPS
    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name, most in asdict(self).items():
            if most is not None and not most > 0:
                raise DefinitionError(f"a turn's {name} must be a number above 0; got {most!r}")

    def check(self, used: AgentUsage) -> None:
        """Raise ``BudgetExceeded``, naming what is used up, if a turn has used more than it may."""
        for name in self.__slots__:
            most, value = getattr(self, name), getattr(used, name)
            if most is not None and value > most:
                raise BudgetExceeded(f"The turn was ended: it would have used {value:g} {name}, and may use {most:g}")
