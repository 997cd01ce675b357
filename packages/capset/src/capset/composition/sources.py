"""Sources of contributions, with their paths (spec 1, C40)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from typing_extensions import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ContributionSource:
    """A contributor: a capability, or a block itself if ``capability`` is ``None``.

    ``path`` lists the names from the root to it; ``preset`` is the contributing preset, if any.
    """

    path: tuple[str, ...]
    capability: str | None = None
    preset: str | None = None

    def __str__(self) -> str:
        preset = f", preset {self.preset!r}" if self.preset else ""
        if self.capability is None:
            return f"{self.path[-1]!r} itself"
        return f"capability {self.capability!r}{preset} ({' → '.join(self.path)})"


@dataclass(frozen=True, slots=True)
class Contributed(Generic[T]):
    """A value of a composition, and its first contributor."""

    value: T
    source: ContributionSource
