"""What one measurement says."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report: a value, what it is held to, and what was measured beside it in the same run."""

    name: str
    value: float
    unit: str
    target: float
    direction: Literal["at most", "at least"]
    peers: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def met(self) -> bool:
        """Whether the value keeps to its target."""
        return self.value <= self.target if self.direction == "at most" else self.value >= self.target

    def plain(self) -> dict[str, Any]:
        """Return the row as JSON data."""
        row = asdict(self)
        peers = row.pop("peers")
        return {**row, "met": self.met, "peers": peers}
