"""Health on the wire (spec 5, P13)."""

from __future__ import annotations

from typing import Literal

from capset.wire.shapes import Shape


class HealthShape(Shape):
    """It is well; where it is not, a problem is answered."""

    status: Literal["ok"]
