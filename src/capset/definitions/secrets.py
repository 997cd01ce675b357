"""Where secrets come from: a port, so that no definition ever holds one."""

from __future__ import annotations

from typing import Protocol


class Secrets(Protocol):
    """A place that knows secrets by name. What it gives is never hashed, stored or logged (spec 1, C1)."""

    async def get(self, name: str) -> str | None:
        """Return a secret, or ``None`` if there is none of this name."""
        ...
