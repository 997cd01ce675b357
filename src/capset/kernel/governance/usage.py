"""The usage of models by a session's agents, counted after each step and checked before it (spec 6, R24)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from capset.clock import Clock
from capset.definitions.limits import written_window
from capset.definitions.usage import AgentUsage
from capset.errors import BudgetExceeded
from capset.kernel.governance.quotas import CountedUsage
from capset.stores.base import Store, UsageWindow


class UsageMeter:
    """The limits on the usage of one session's models, and what was used of them."""

    __slots__ = ("_clock", "_limits", "_store", "_used", "_windows")

    def __init__(self, limits: Sequence[CountedUsage], store: Store, clock: Clock) -> None:
        self._limits: Final = tuple(limits)
        self._store = store
        self._clock = clock
        # Several limits may share a window, in which a step counts once.
        self._windows: Final[tuple[UsageWindow, ...]] = tuple(dict.fromkeys(one.window for one in limits))
        self._used: dict[UsageWindow, AgentUsage] | None = None

    @property
    def limits_cost(self) -> bool:
        """Whether money is limited, so that the price of each step must be known."""
        return any(one.limit.cost is not None for one in self._limits)

    async def check(self) -> None:
        """Raise ``BudgetExceeded`` if nothing is left for a next step, by what was used when it was last counted."""
        if self._windows and self._used is None:
            self._note(await self._store.usage.read(self._windows, self._clock.time_ns()))
        self._refuse(has_next=True)

    async def add(self, used: AgentUsage) -> None:
        """Count usage, durably. Raises ``BudgetExceeded`` if it was more than is left: its calls are not made."""
        if self._windows:
            self._note(await self._store.usage.add(self._windows, used, self._clock.time_ns()))
            self._refuse(has_next=False)

    def _note(self, used: Sequence[AgentUsage]) -> None:
        self._used = dict(zip(self._windows, used, strict=True))

    def _refuse(self, *, has_next: bool) -> None:
        for what, limit, window in self._limits:
            used = (self._used or {}).get(window, AgentUsage())
            if (name := limit.exceeded(used, has_next=has_next)) is not None:
                most, value = limit.amounts()[name], getattr(used, name)
                noun = name.removesuffix("s") if most == 1 else name
                error = BudgetExceeded(
                    f"Budget exceeded: {what} may use {most:g} {noun}{_span(limit.window)}, and has used {value:g}."
                )
                error.retryable = limit.window is not None  # the turn may go on when the window has moved
                raise error


def _span(seconds: int | None) -> str:
    return " in all" if seconds is None else f" within {written_window(seconds)}"
