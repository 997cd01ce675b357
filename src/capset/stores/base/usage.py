"""The protocol of the usage of models, and the parts in which its windows are counted (spec 6, R24)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from capset.definitions.usage import AgentUsage

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


class UsageStore(Protocol):
    """The usage in each window. Times are nanoseconds of Unix time.

    A part of a window counts until it is wholly over. Setting a clock back frees nothing.
    """

    async def read(self, windows: Sequence[UsageWindow], now: int) -> list[AgentUsage]:
        """Return what was used in each of the windows until now."""
        ...

    async def add(self, windows: Sequence[UsageWindow], more: AgentUsage, now: int) -> list[AgentUsage]:
        """Count more in each of the windows, durably and all at once, and return what was used in each."""
        ...
