"""The protocol for model usage: what steps reserve and use, in windows that are counted in parts (R24)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from capset.definitions.governance.usage import AgentUsage, UsageLimit

DAY_NS: Final = 86_400 * 1_000_000_000
RETAINED_NS: Final = DAY_NS
"""How long an expired part is retained, in nanoseconds: setting back a clock that was ahead must not free usage."""


@dataclass(frozen=True, slots=True)
class UsageWindow:
    """A moving window of ``length`` nanoseconds, or all time if ``length`` is ``None``.

    A ``key`` that starts with a session's id and a slash belongs to that session and is deleted with it.
    """

    key: str
    length: int | None

    def part(self, now: int) -> tuple[int, int | None]:
        """Return the start of the part that contains ``now``, and the time until which the part counts."""
        if self.length is None:
            return 0, None
        size = -(-self.length // 60)  # so a window counts up to a sixtieth more than its length
        began = now // size * size
        return began, began + size + self.length


@dataclass(frozen=True, slots=True)
class WindowUsage:
    """The usage in a window, and what running steps have reserved in addition."""

    used: AgentUsage
    reserved: AgentUsage


@dataclass(frozen=True, slots=True)
class StepClaim:
    """One model step: its id, the limits that apply to it, and the most that it may use.

    Several limits may share a window. The step counts once in each window.
    """

    step: str
    limits: tuple[tuple[UsageLimit, UsageWindow], ...]
    maximum: AgentUsage

    @property
    def windows(self) -> tuple[UsageWindow, ...]:
        """The distinct windows of the limits."""
        return tuple(dict.fromkeys(window for _, window in self.limits))

    def exhausted_limit(self, before: Sequence[WindowUsage]) -> tuple[int, AgentUsage] | None:
        """Return the index of the first exhausted limit and the usage in its window, or ``None``.

        ``before`` has the usage in each window. Reservations of running steps do not count here.
        """
        return self._first_exceeded([usage.used for usage in before], has_next=True)

    def has_room(self, before: Sequence[WindowUsage]) -> bool:
        """Return whether every limit leaves room for the step, counting the reservations of running steps."""
        return self._first_exceeded([usage.used + usage.reserved for usage in before], has_next=True) is None

    def exceeded_limit(self, before: Sequence[WindowUsage], used: AgentUsage) -> tuple[int, AgentUsage] | None:
        """Return the index of the first limit that ``used`` exceeds and the total usage in its window, or ``None``."""
        return self._first_exceeded([usage.used + used for usage in before], has_next=False)

    def counted_usage(self, before: Sequence[WindowUsage], used: AgentUsage) -> AgentUsage:
        """Return the part of a step's usage that counts. Beyond a limit its calls are refused, and do not count."""
        return used if self.exceeded_limit(before, used) is None else replace(used, calls=0)

    def _first_exceeded(self, usages: Sequence[AgentUsage], *, has_next: bool) -> tuple[int, AgentUsage] | None:
        by_window = dict(zip(self.windows, usages, strict=True))
        for index, (limit, window) in enumerate(self.limits):
            if limit.exceeded_quantity(by_window[window], has_next=has_next) is not None:
                return index, by_window[window]
        return None


HOUR: Final = len("2026-01-31T13")
"""The length of an hour's name, the beginning of its times."""
COUNTED_DAYS: Final = 400
"""For how many days the usage of each hour is retained."""


@dataclass(frozen=True, slots=True)
class ModelUser:
    """The org, the agent and the principal that model usage is counted for."""

    org: str | None
    agent: str
    principal: str
    principal_kind: str


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """A query for the usage of one org from the hour ``since`` on, before ``until``: ``2026-01-31T13``.

    ``top`` is the number of agents, and of principals, with the most usage.
    """

    org: str | None
    since: str
    until: str
    agent: str | None = None
    principal: str | None = None
    top: int = 10


@dataclass(frozen=True, slots=True)
class UsageTotals:
    """Usage by hour, and of the agents and principals (``kind:id``) with the highest cost, then the most tokens."""

    hours: tuple[tuple[str, AgentUsage], ...]
    agents: tuple[tuple[str, AgentUsage], ...]
    principals: tuple[tuple[str, AgentUsage], ...]


class UsageStore(Protocol):
    """The usage in each window, and of each hour. Times are nanoseconds of Unix time.

    A part counts until all of it has left the window. Setting a clock back frees nothing. A step's reservation counts
    until the step is settled or its process has died.
    """

    async def read(self, windows: Sequence[UsageWindow], now: int) -> list[WindowUsage]:
        """Return the usage and the reservations in each window at ``now``."""
        ...

    async def reserve(self, claim: StepClaim, now: int) -> list[WindowUsage]:
        """Reserve the most that a step may use in all of its windows at once, if each has room for it.

        Returns the usage and the reservations in each window before. The step was reserved if these pass
        ``claim.has_room``. Concurrent reservations, in any processes, see those made before them.
        """
        ...

    async def settle(self, claim: StepClaim, used: AgentUsage, now: int) -> list[WindowUsage]:
        """Replace a step's reservation with its actual usage, durably and in all windows at once.

        ``claim.counted_usage`` determines the usage that counts. Nothing is counted in a window without a reservation
        of the step, so settling a step twice is harmless. Returns the usage and the reservations in each window before.
        If settling fails, the store repeats it as soon as it can.
        """
        ...

    async def count(self, user: ModelUser, used: AgentUsage, now: int) -> None:
        """Add usage to the hour of ``now``, durably. It limits nothing, and stays when its session is deleted."""
        ...

    async def totals(self, query: UsageQuery) -> UsageTotals:
        """Return the usage that was counted."""
        ...
