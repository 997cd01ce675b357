"""Where one value lives: in the store, or for the length of a run."""

from __future__ import annotations

import asyncio
from typing import Protocol
from weakref import WeakValueDictionary

from capset.clock import iso
from capset.kernel.world import World
from capset.stores.base import Change, ScopeKey, StateRow

ABSENT = StateRow(None, 0)


class _Carried(Exception):
    """What a validator raised that must not end a thread of the store, nor be taken for a cancellation of it."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Cell(Protocol):
    """One value, its version, and the lock of those in this process who change it by reading it first."""

    @property
    def lock(self) -> asyncio.Lock:
        """Held by ``set`` and ``update``, so that tasks of one process do not contend (spec 1, C34)."""
        ...

    async def read(self) -> StateRow:
        """Return what is there."""
        ...

    async def change(self, change: Change) -> StateRow:
        """Replace what is there, with nobody in between."""
        ...


class StoredCell:
    """A value in the store."""

    __slots__ = ("_key", "_world")

    def __init__(self, world: World, key: ScopeKey) -> None:
        self._world = world
        self._key = key

    @property
    def lock(self) -> asyncio.Lock:
        """The lock of this key in this kernel."""
        return self._world.lock_of(self._key)

    async def read(self) -> StateRow:
        """Return what is there."""
        (row,) = await self._world.store.states.read([self._key])
        return row

    async def change(self, change: Change) -> StateRow:
        """Replace what is there, in one write transaction."""

        def carrying(row: StateRow) -> str | None:
            try:
                return change(row)
            except BaseException as error:
                if isinstance(error, Exception) and not isinstance(error, StopIteration):
                    raise
                raise _Carried(error) from None

        world = self._world
        try:
            return await world.store.states.change(self._key, carrying, now=iso(world.clock.time_ns()))
        except _Carried as carried:
            raise carried.error from None


class RunData:
    """What lives for one run: the scope ``request``, and the state of its sequencers."""

    __slots__ = ("locks", "rows")

    def __init__(self) -> None:
        self.rows: dict[str, StateRow] = {}
        self.locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def cell(self, name: str) -> RunCell:
        """Return the place of one value."""
        return RunCell(self, name)


class RunCell:
    """A value that lives for one run."""

    __slots__ = ("_data", "_name")

    def __init__(self, data: RunData, name: str) -> None:
        self._data = data
        self._name = name

    @property
    def lock(self) -> asyncio.Lock:
        """The lock of this value in this run."""
        return self._data.locks.setdefault(self._name, asyncio.Lock())

    async def read(self) -> StateRow:
        """Return what is there."""
        return self._data.rows.get(self._name, ABSENT)

    async def change(self, change: Change) -> StateRow:
        """Replace what is there; nothing else runs meanwhile."""
        row = self._data.rows.get(self._name, ABSENT)
        changed = StateRow(change(row), row.version + 1)
        self._data.rows[self._name] = changed
        return changed
