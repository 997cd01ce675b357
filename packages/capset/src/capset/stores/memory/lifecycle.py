"""The lifecycle of a store in memory."""

from __future__ import annotations

from collections.abc import Callable

from capset.errors import StoreError
from capset.stores.base import Entry


class Lifecycle:
    """Whether the store is open, under which writer's id, and where the acts that change it become records."""

    def __init__(self) -> None:
        self.writer = ""
        self.record: Callable[[Entry | None], None] = lambda act: None
        """Makes a record of an act, if there is one. Raises ``StoreError`` if that fails."""

    def check(self) -> str:
        """Return the writer's id. Raises ``StoreError`` if the store is not open."""
        if not self.writer:
            raise StoreError("the store in memory is not open")
        return self.writer
