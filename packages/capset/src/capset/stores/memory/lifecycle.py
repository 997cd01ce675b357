"""The lifecycle of a memory store."""

from __future__ import annotations

from collections.abc import Callable

from capset.errors import StoreError
from capset.stores.base import Entry


class Lifecycle:
    """The state that the parts of a memory store share: the writer's id while it is open, and how to record acts."""

    def __init__(self) -> None:
        self.writer = ""
        self.record: Callable[[Entry | None], None] = lambda act: None
        """Records an act, if there is one. Raises ``StoreError`` if that fails."""

    def check(self) -> str:
        """Return the writer's id. Raises ``StoreError`` if the store is not open."""
        if not self.writer:
            raise StoreError("the memory store is not open")
        return self.writer
