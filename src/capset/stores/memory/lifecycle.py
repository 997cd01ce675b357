"""The lifecycle of a store in memory."""

from __future__ import annotations

from capset.errors import StoreError


class Lifecycle:
    """Whether the store is open, and under which writer's id."""

    def __init__(self) -> None:
        self.writer = ""

    def check(self) -> str:
        """Return the writer's id. Raises ``StoreError`` if the store is not open."""
        if not self.writer:
            raise StoreError("the store in memory is not open")
        return self.writer
