"""What one curve says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Points = Mapping[int, float]
"""What was measured at each number of things, the least number first."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Lines over one axis: ``of`` what there are more and more, and the ``unit`` of what was measured."""

    name: str
    of: str
    unit: str
    lines: Mapping[str, Points]

    def plain(self) -> dict[str, Any]:
        """Return the curve as JSON data, its points as pairs."""
        lines = {label: [[x, _short(y)] for x, y in points.items()] for label, points in self.lines.items()}
        return {"name": self.name, "of": self.of, "unit": self.unit, "lines": lines}


def _short(value: float) -> float:
    return float(f"{value:.4g}")
