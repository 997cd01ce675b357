"""The usage of models by a session's agents: reserved before each step, and counted after it (spec 6, R24)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from capset.clock import Clock
from capset.definitions.governance.limits import format_window
from capset.definitions.governance.usage import AgentUsage
from capset.errors import BudgetExceeded, CapsetError, StoreError
from capset.kernel.governance.quotas import CountedUsage
from capset.stores.base import ModelUser, StepClaim, Store

_log = logging.getLogger("capset.kernel")


class UsageMeter:
    """Enforces the limits on the model usage of one session, and counts it for its agent and its principal."""

    __slots__ = ("_clock", "_limits", "_store", "_user")

    def __init__(self, limits: Sequence[CountedUsage], store: Store, clock: Clock, user: ModelUser) -> None:
        self._user = user
        self._limits: Final = tuple(limits)
        self._store = store
        self._clock = clock

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return bool(self._limits)

    @property
    def limits_cost(self) -> bool:
        """Whether the cost is limited, so that the price of each step must be known."""
        return any(counted.limit.cost is not None for counted in self._limits)

    async def reserve(self, step: str, maximum: AgentUsage) -> bool:
        """Reserve the most that a step may use, and return whether there was room for it.

        There is none while running steps may use all that is left; once they are settled, there may be room again.
        Raises ``BudgetExceeded`` if nothing is left. ``step`` is a new id; a reserved step must be settled.
        """
        if not self._limits:
            return True
        claim = self._claim(step, maximum)
        try:
            before = await self._store.usage.reserve(claim, self._clock.time_ns())
        except BaseException:  # the reservation may have been made nevertheless
            with suppress(CapsetError):
                await self.settle(step, AgentUsage())
            raise
        if (exhausted := claim.exhausted_limit(before)) is not None:
            raise self._error(*exhausted, has_next=True)
        return claim.has_room(before)

    async def settle(self, step: str, used: AgentUsage) -> None:
        """Replace what a step has reserved with what it has used, durably, and count it.

        Raises ``BudgetExceeded`` if a limit is exceeded now: the step's calls then do not count and must not be made.
        """
        try:
            if self._limits:
                await self._settle(step, used)
        except BudgetExceeded:
            used = replace(used, calls=0)
            raise
        finally:  # also if the turn is cancelled: the model was paid for
            await self._count(used)

    async def _settle(self, step: str, used: AgentUsage) -> None:
        claim = self._claim(step, AgentUsage())
        before = await self._store.usage.settle(claim, used, self._clock.time_ns())
        if (exceeded := claim.exceeded_limit(before, used)) is not None:
            raise self._error(*exceeded, has_next=False)

    async def _count(self, used: AgentUsage) -> None:
        """Count a step's usage for its hour, which limits nothing, so a turn does not fail if this does."""
        if not (used.steps or used.calls):
            return
        try:
            await self._store.usage.count(self._user, used, self._clock.time_ns())
        except StoreError as error:
            _log.warning("the model usage of the agent %r was not counted: %s", self._user.agent, error)

    def _claim(self, step: str, maximum: AgentUsage) -> StepClaim:
        return StepClaim(step, tuple((counted.limit, counted.window) for counted in self._limits), maximum)

    def _error(self, place: int, used: AgentUsage, *, has_next: bool) -> BudgetExceeded:
        """Return the error for a limit that is used up or exceeded."""
        label, limit, _ = self._limits[place]
        name = limit.exceeded_quantity(used, has_next=has_next) or ""
        maximum, value = limit.maximums()[name], getattr(used, name)
        noun = name.removesuffix("s") if maximum == 1 else name
        has = "would have" if name == "calls" and not has_next else "has"
        amount = f"{maximum:g} {noun}{_window_text(limit.window)}"
        error = BudgetExceeded(f"Budget exceeded: {label} may use {amount}, and {has} used {value:g}.")
        error.retryable = limit.window is not None  # the turn may continue once the window has moved
        return error


def _window_text(seconds: int | None) -> str:
    return " in all" if seconds is None else f" within {format_window(seconds)}"
