"""Budgets of turns: how many steps, tool calls, tokens and how much money one turn may use."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from capset.definitions.governance.usage import AgentUsage
from capset.errors import BudgetExceeded, DefinitionError

STEPS: Final = 50
"""The maximum number of model steps of one turn, unless the host says otherwise."""
SUMMARISE_AT: Final = 100_000
"""The size of a conversation, in tokens, from which it is summarised; common models take 128,000 and more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnBudget:
    """The most that one turn may use; ``None`` is no limit. ``cost`` is in US dollars, by the prices of genai-prices.

    It goes on where a turn is continued, and covers the agents that work for it. Each step reserves as much as it may
    use before it begins, so all of them together use more by one step of one agent at most. Raises ``DefinitionError``
    for a number that is not positive.
    """

    steps: int | None = STEPS
    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name, maximum in asdict(self).items():
            if maximum is not None and not maximum > 0:
                raise DefinitionError(f"a turn's {name} must be a number above 0; got {maximum!r}")

    def exceeded(self, used: AgentUsage) -> str | None:
        """Return the name of a resource of which a turn has used more than it may, or ``None``."""
        for name in self.__slots__:
            maximum = getattr(self, name)
            if maximum is not None and getattr(used, name) > maximum:
                return name
        return None

    def check(self, used: AgentUsage) -> None:
        """Raise ``BudgetExceeded``, naming what is used up, if a turn has used more than it may."""
        if (name := self.exceeded(used)) is not None:
            maximum, value = getattr(self, name), getattr(used, name)
            raise BudgetExceeded(f"The turn was ended: it would have used {value:g} {name}, and may use {maximum:g}")
