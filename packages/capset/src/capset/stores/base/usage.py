"""The protocol of the usage of models: what steps reserve and use, in windows that are counted in parts (R24)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from capset.definitions.governance.usage import AgentUsage, UsageLimit

PARTS: Final = 60
"""In how many parts a window is counted: one that moves has up to a sixtieth more than its length."""
RETAINED: Final = 86_400 * 1_000_000_000
"""How long a part is retained after it: setting back a clock that was ahead must not free anything."""


@dataclass(frozen=True, slots=True)
class UsageWindow:
    """A moving window of ``length`` nanoseconds, or all time if that is ``None``.

    The ``key`` of one that belongs to a session is the session's id, a slash and more: it goes with the session.
    """

    key: str
    length: int | None

    def part(self, now: int) -> tuple[int, int | None]:
        """Return the beginning of the part that counts at a time, and until when it counts."""
        if self.length is None:
            return 0, None
        size = -(-self.length // PARTS)
        began = now // size * size
        return began, began + size + self.length


@dataclass(frozen=True, slots=True)
class WindowUsage:
    """The usage in a window, and what the steps under way may use beside it."""

    used: AgentUsage
    reserved: AgentUsage


@dataclass(frozen=True, slots=True)
class StepClaim:
    """One step of a model: its id, the limits that it counts in, and the most that it may use.

    Several limits may share a window, in which the step counts once.
    """

    step: str
    limits: tuple[tuple[UsageLimit, UsageWindow], ...]
    most: AgentUsage

    @property
    def windows(self) -> tuple[UsageWindow, ...]:
        """The windows of the limits, each once."""
        return tuple(dict.fromkeys(window for _, window in self.limits))

    def used_up(self, before: Sequence[WindowUsage]) -> tuple[int, AgentUsage] | None:
        """Return the place of a limit of which nothing is left for a step, and what was used of it, or ``None``.

        ``before`` is the usage in each of the windows; what steps under way may use does not count here.
        """
        return self._exceeded([usage.used for usage in before], has_next=True)

    def has_room(self, before: Sequence[WindowUsage]) -> bool:
        """Whether something is left of every limit beside what the steps under way may use."""
        return self._exceeded([usage.used + usage.reserved for usage in before], has_next=True) is None

    def exceeded(self, before: Sequence[WindowUsage], used: AgentUsage) -> tuple[int, AgentUsage] | None:
        """Return the place of a limit that is exceeded by what the step has used, and all that is used of it then."""
        return self._exceeded([usage.used + used for usage in before], has_next=False)

    def counted(self, before: Sequence[WindowUsage], used: AgentUsage) -> AgentUsage:
        """Return what counts of a step's usage: without its calls if a limit is exceeded, since they are refused."""
        return used if self.exceeded(before, used) is None else replace(used, calls=0)

    def _exceeded(self, usages: Sequence[AgentUsage], *, has_next: bool) -> tuple[int, AgentUsage] | None:
        by_window = dict(zip(self.windows, usages, strict=True))
        for place, (limit, window) in enumerate(self.limits):
            if limit.exceeded(by_window[window], has_next=has_next) is not None:
                return place, by_window[window]
        return None


class UsageStore(Protocol):
    """The usage in each window. Times are nanoseconds of Unix time.

    A part of a window counts until it is wholly over. Setting a clock back frees nothing. What a step has reserved
    counts until it is settled, or until its process has died.
    """

    async def read(self, windows: Sequence[UsageWindow], now: int) -> list[WindowUsage]:
        """Return what was used in each of the windows until now, and what is reserved in it."""
        ...

    async def reserve(self, claim: StepClaim, now: int) -> list[WindowUsage]:
        """Reserve the most that a step may use in all of its windows at once, if each has room for it.

        Returns what was used and reserved in each of them before: it was reserved if ``claim.has_room`` of that. Of
        steps that are reserved at once, in any processes, each sees those before it.
        """
        ...

    async def settle(self, claim: StepClaim, used: AgentUsage, now: int) -> list[WindowUsage]:
        """Count what a step has used in the place of what it has reserved, durably and all at once.

        Nothing counts in a window in which it has reserved nothing, so a step may be settled again. ``claim.counted``
        is what counts of it. Returns what was used and reserved in each of the windows before. If that fails, the store
        does it as soon as it can.
        """
        ...
