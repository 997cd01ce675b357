"""Reads: on threads, each in a transaction of its own on a pooled connection, for a consistent snapshot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, Engine

from capset.errors import StoreError
from capset.stores.sql.problems import explained

_T = TypeVar("_T")


class ReadConnections:
    """Entry point for reads. ``name`` is the database's, for errors."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._engine: Engine | None = None

    def start(self, engine: Engine) -> None:
        """Read by this engine from now on."""
        self._engine = engine

    def stop(self) -> None:
        """Stop reading."""
        self._engine = None

    @property
    def opened(self) -> Engine:
        """The engine. Raises ``StoreError`` while there is none."""
        if self._engine is None:
            raise StoreError(f"the database {self._name!r} is not open")
        return self._engine

    async def read(self, function: Callable[[Connection], _T]) -> _T:
        """Run a function that only reads and return its result. Errors of the database become ``StoreError``."""
        engine = self.opened

        def run() -> _T:
            with explained(self._name), engine.begin() as connection:
                return function(connection)

        return await asyncio.to_thread(run)
